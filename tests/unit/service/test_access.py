"""Who may do what, what is masked, and how often one may fail to log in."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.config.http_settings import MaskRule
from penstock.core.clock import Clock
from penstock.core.errors import ConfigError
from penstock.service.access import RIGHTS, ROLES, Actor, NotAllowed, Role, allows, at_most, require, system_actor
from penstock.service.attempts import Attempts, TooManyAttempts, address_key, token_key, user_key
from penstock.service.masking import Masking
from penstock.service.passwords import hash_password, verify_password
from penstock.store import Store


@pytest.mark.parametrize("role", ROLES)
def test_a_role_has_the_rights_of_those_below_it(role: Role) -> None:
    actor = Actor(name="a", role=role)
    for right, least in RIGHTS.items():
        assert allows(actor, right) == (ROLES.index(role) >= ROLES.index(least))


def test_a_role_in_a_project_holds_there_only() -> None:
    actor = Actor(name="a", role="viewer", projects={"p": "operator"})
    assert allows(actor, "pipelines.operate", "p")
    assert not allows(actor, "pipelines.operate", "q")
    assert not allows(actor, "pipelines.operate")
    assert allows(actor, "pipelines.view", "q")
    assert not allows(Actor(name="b"), "pipelines.view")
    with pytest.raises(NotAllowed) as refused:
        require(actor, "users.manage", "p")
    assert (refused.value.received, refused.value.allowed) == ("operator", ["admin"])
    require(system_actor("me"), "users.manage")


def test_the_weaker_of_two_roles() -> None:
    assert at_most("admin", "viewer") == "viewer"
    assert at_most("viewer", "admin") == "viewer"
    assert at_most(None, "admin") is None


def test_masks_follow_paths_through_lists() -> None:
    masking = Masking([MaskRule(topic="orders*", fields=["card", "lines.price", "people.*.name"])])
    value = b'{"card": 1, "lines": [{"price": 2, "n": 3}], "people": {"a": {"name": "x", "age": 4}}, "none": null}'
    masked = masking.bytes("orders-eu", value)
    assert masked == (
        b'{"card":"********","lines":[{"price":"********","n":3}],"people":{"a":{"name":"********","age":4}},"none":null}'
    )
    assert masking.bytes("payments", value) == value
    assert masking.bytes("orders", b"\xff\x00") == b"********"
    assert masking.bytes("orders", None) is None


def test_what_the_store_said_of_failures_is_remembered_for_as_long_as_it_holds(tmp_path: Path) -> None:
    now = [0.0]
    with Store.open(f"sqlite:///{tmp_path}/store.db") as store:
        attempts = Attempts(store.failed_logins, 2, Clock(monotonic=lambda: now[0]))
        for _ in range(2):
            attempts.check("a", "b")
            attempts.failed("a")
        with pytest.raises(TooManyAttempts) as refused:
            attempts.recall("a", "b")
        assert 290 <= refused.value.seconds <= 300
        attempts.check("b")
        now[0] = 301.0
        attempts.recall("a")
        with pytest.raises(TooManyAttempts):
            attempts.check("a")
        with attempts.counted("b") as attempt:
            attempt.succeeded, attempt.forgiven = True, ["a"]
        attempts.check("a")
        attempts.recall("a")


def test_addresses_are_counted_by_what_one_caller_has_of_them() -> None:
    assert address_key("2001:db8:1:2::1") == address_key("2001:db8:1:2:ffff:1:2:3") == "address:2001:db8:1:2::/64"
    assert address_key("2001:db8:1:2::1") != address_key("2001:db8:1:3::1")
    assert address_key("fe80::1%eth0") == address_key("fe80::2%eth0")
    assert address_key("::ffff:10.0.0.9") == address_key("10.0.0.9") != address_key("10.0.0.8")
    assert address_key("::ffff:10.0.0.9") != address_key("::ffff:10.0.0.8")
    assert address_key(None) != address_key("testclient")
    assert len({address_key("10.0.0.9"), token_key("10.0.0.9"), user_key("10.0.0.9")}) == 3
    assert user_key("Ada@example.org") == user_key("ada@example.org")


def test_passwords_are_compared_by_hash_and_have_a_length() -> None:
    known = hash_password("a long enough one")
    assert known.startswith("$argon2id$")
    assert verify_password(known, "a long enough one")
    assert not verify_password(known, "another")
    assert not verify_password(None, "anything")
    assert not verify_password("nonsense", "anything")
    assert not verify_password(known, "x" * 5_000)
    for password in ("short", "x" * 2_000):
        with pytest.raises(ConfigError):
            hash_password(password)
