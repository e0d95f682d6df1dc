"""Users and tokens from the command line."""

from __future__ import annotations

from pathlib import Path

from penstock.config.settings import Settings
from penstock.service.authentication import Authentication
from penstock.service.secrets import SecretBox
from penstock.store import Store
from tests.faces.cli import penstock


def test_users_and_tokens_are_made_changed_and_let_in(penstock_home: Path) -> None:
    password = "a sentence that is long"
    made = penstock("users", "create", "Ada@example.org", "--role", "admin", "--json", stdin=f"{password}\n")
    assert (made.code, made.data["email"], made.data["has_password"]) == (0, "ada@example.org", True)
    assert password not in made.out + made.err
    token = penstock("tokens", "create", "ci", "--role", "operator", "--expires", "1d", "--json").data
    listed = penstock("tokens", "list", "--json")
    assert token["token"] not in listed.out
    assert [each["name"] for each in listed.data] == ["ci"]
    settings = Settings.load({"PENSTOCK_HOME": str(penstock_home), "PENSTOCK_HTTP_AUTH": "local"})
    with Store.open(settings.store_url) as store:
        auth = Authentication(store, settings)
        assert auth.log_in("ada@example.org", password).actor.role == "admin"
        actor = auth.actor_of({"authorization": f"Bearer {token['token']}"}, {})
        assert actor is not None
        assert (actor.role, actor.kind) == ("operator", "token")
        entries = [(row.action, row.subject, row.outcome) for row in store.audit.list()]
    assert ("users.create", "user/ada@example.org", "done") in entries
    assert ("tokens.create", "token/ci", "done") in entries
    assert penstock("tokens", "revoke", token["id"]).code == 0
    assert penstock("users", "delete", "nobody@example.org").code == 2
    refused = penstock("users", "delete", "ada@example.org")
    assert (refused.code, "last admin" in refused.err) == (1, True)


def test_secrets_are_set_listed_and_deleted(penstock_home: Path) -> None:
    secret = "sesame-5511"
    kept = penstock("secrets", "set", "kafka", "--json", stdin=f"{secret}\n")
    assert (kept.code, kept.data) == (0, {"name": "kafka"})
    listed = penstock("secrets", "list", "--json")
    assert listed.data == [{"name": "kafka"}]
    assert secret not in kept.out + kept.err + listed.out
    settings = Settings.load({"PENSTOCK_HOME": str(penstock_home)})
    with Store.open(settings.store_url) as store:
        assert SecretBox.of(store, settings).named() == {"kafka": secret}
    assert penstock("secrets", "delete", "kafka").code == 0
    assert penstock("secrets", "delete", "kafka").code != 0
