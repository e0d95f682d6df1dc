"""The key of a store: a wrong one is a clear error at the start, and another one can take its place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.config.secret_values import NoSecretKey
from penstock.config.settings import Settings
from penstock.core.cipher import Cipher, WrongSecretKey
from penstock.core.errors import ConfigError
from penstock.service.secrets import SecretBox, rotate_key
from penstock.store.store import Store
from penstock.store.work.model import TriggerRow, WorkflowRow
from tests.support.postgres import postgres_server

__all__ = ["postgres_server"]

ONE, OTHER = Cipher(b"1" * 32).text, Cipher(b"2" * 32).text


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    is_local = request.param == "sqlite"
    url = (
        f"sqlite:///{tmp_path / 'penstock.db'}"
        if is_local
        else request.getfixturevalue("postgres_server").create_database()
    )
    with Store.open(url) as opened:
        yield opened


def saved(store: Store, box: SecretBox) -> dict[str, Any]:
    """A workflow with secrets in every place that has them."""
    config: dict[str, Any] = box.hidden({"password": "hunter22", "topics": ["a"]})
    project = store.projects.save("0196f7d2-0000-7000-8000-000000000001", "p", settings=config)
    workflow = WorkflowRow(id="0196f7d2-0000-7000-8000-000000000002", project_id=project.id, name="w")
    trigger = TriggerRow(
        id="0196f7d2-0000-7000-8000-000000000003", workflow_id="", name="k", kafka_configuration=config
    )
    store.workflows.apply(workflow, {"steps": [{"config": config}]}, "v1", [trigger])
    box.set_named("LAB", "lab-secret")
    return config


def test_nothing_is_made_before_it_is_needed(store: Store, tmp_path: Path) -> None:
    box = SecretBox(store, tmp_path, {})

    assert box.resolved({"a": 1}).value == {"a": 1}
    assert not (tmp_path / "secret.key").exists()
    assert store.secrets.all() == {}


def test_another_key_is_refused_at_the_start(store: Store, tmp_path: Path) -> None:
    saved(store, SecretBox(store, tmp_path, {"PENSTOCK_SECRET_KEY": ONE}))

    SecretBox(store, tmp_path, {"PENSTOCK_SECRET_KEY": ONE})
    with pytest.raises(WrongSecretKey, match="not the one that the store's secrets were encrypted under") as error:
        SecretBox(store, tmp_path, {"PENSTOCK_SECRET_KEY": OTHER})
    assert OTHER not in str(error.value.as_dict())
    with pytest.raises(NoSecretKey, match="there is no key"):
        SecretBox(store, tmp_path, {})


def test_named_secrets_are_put_in_place(store: Store, tmp_path: Path) -> None:
    box = SecretBox(store, tmp_path, {})
    box.set_named("LAB", "lab-secret")

    assert box.resolved({"password": {"$ref": "LAB"}}).value == {"password": "lab-secret"}
    assert b"lab-secret" not in (store.secrets.get("LAB") or b"")


def test_a_key_is_replaced_everywhere(store: Store, tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    running = SecretBox(store, tmp_path, {})
    before = saved(store, running)
    old = (tmp_path / "secret.key").read_text()

    assert rotate_key(store, settings, {}) == 5

    assert (tmp_path / "secret.key").read_text() != old
    assert (tmp_path / "secret.key.old").read_text() == old
    box = SecretBox(store, tmp_path, {})
    trigger = store.triggers.list()[0]
    assert trigger.kafka_configuration != before
    project, workflow = store.projects.list()[0], store.workflows.list()[0]
    snapshot = store.workflows.snapshot(workflow.snapshot_id or "")
    assert snapshot is not None
    for kept in (trigger.kafka_configuration, project.settings, snapshot.definition["steps"][0]["config"]):
        assert box.resolved(kept).value["password"] == "hunter22"
        assert running.resolved(kept).value["password"] == "hunter22"
    assert box.resolved({"password": {"$ref": "LAB"}}).value == {"password": "lab-secret"}


def test_l13_a_named_secret_cannot_take_the_place_of_another(store: Store, tmp_path: Path) -> None:
    box = SecretBox(store, tmp_path, {})
    box.set_named("mine/a", "of-mine")
    box.set_named("yours/a", "of-yours")
    store.secrets.set("mine/a", store.secrets.get("yours/a") or b"")

    with pytest.raises(WrongSecretKey, match="another place"):
        box.named()


def test_l13_a_password_cannot_be_used_as_something_else(store: Store, tmp_path: Path) -> None:
    box = SecretBox(store, tmp_path, {})
    kept = box.hidden({"password": "hunter22", "list": [{"password": "x-y-z-w"}]})

    assert box.resolved({"elsewhere": {"password": kept["password"]}}).value == {"elsewhere": {"password": "hunter22"}}
    with pytest.raises(WrongSecretKey, match="another place"):
        box.resolved({"username": kept["password"]})


def test_l13_instances_change_their_key_one_after_the_other(store: Store, tmp_path: Path) -> None:
    """Both keys read from the first step to the last; no instance meets a secret that it cannot read."""
    settings = Settings(home=tmp_path)

    def instance(*keys: str) -> SecretBox:
        return SecretBox(store, tmp_path, {"PENSTOCK_SECRET_KEY": ",".join(keys)})

    instance(ONE).set_named("LAB", "before")
    early = instance(ONE, OTHER)
    late = instance(OTHER, ONE)
    late.set_named("NEW", "by the new key")
    assert early.named() == late.named() == {"LAB": "before", "NEW": "by the new key"}
    assert rotate_key(store, settings, {"PENSTOCK_SECRET_KEY": f"{OTHER},{ONE}"}) == 3
    for box in (early, late, instance(OTHER)):
        assert box.named() == {"LAB": "before", "NEW": "by the new key"}
    with pytest.raises(WrongSecretKey):
        instance(ONE)


def test_a_key_of_the_environment_is_replaced_by_a_given_one(store: Store, tmp_path: Path) -> None:
    settings, environ = Settings(home=tmp_path), {"PENSTOCK_SECRET_KEY": ONE}
    saved(store, SecretBox(store, tmp_path, environ))

    with pytest.raises(ConfigError, match="only you can change"):
        rotate_key(store, settings, environ)
    with pytest.raises(ConfigError, match="the new key is no key"):
        rotate_key(store, settings, environ, "short")
    rotate_key(store, settings, environ, OTHER)

    assert not (tmp_path / "secret.key").exists()
    SecretBox(store, tmp_path, {"PENSTOCK_SECRET_KEY": OTHER})
