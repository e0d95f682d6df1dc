"""`kafka_configuration`: every rule of Lightning's table, each with its error on its own field."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.config.trigger import FIELDS, check_kafka, hosts_text, in_seconds, start_of, topics_text

GOOD: dict[str, Any] = {
    "hosts": [["broker-a", "9092"]],
    "topics": ["lab-results"],
    "initial_offset_reset_policy": "earliest",
}

_LOGIN = {"username": "u", "password": "p"}


def errors(**changes: Any) -> dict[str, str]:
    written = {key: value for key, value in (GOOD | changes).items() if value is not ...}
    return {error.field: error.message for error in check_kafka(written).errors}


def test_a_plain_one_gets_its_defaults_and_a_group() -> None:
    found = check_kafka(GOOD)

    assert not found.errors
    assert not found.warnings
    group = found.configuration.pop("group_id")
    assert re.fullmatch(r"lightning-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", group)
    assert found.configuration == {**GOOD, "connect_timeout": 30, "ssl": False}


@pytest.mark.parametrize(
    ("written", "hosts"),
    [
        ("a:1, b : 65535", [["a", "1"], ["b", "65535"]]),
        ("[::1]:9092,c:9093", [["::1", "9092"], ["c", "9093"]]),
    ],
)
def test_hosts_as_text_go_before_the_list(written: str, hosts: list[list[str]]) -> None:
    found = check_kafka(GOOD | {"hosts_string": written})

    assert found.configuration["hosts"] == hosts
    assert check_kafka(GOOD | {"hosts": [written.split(",", maxsplit=1)[0]]}).configuration["hosts"] == hosts[:1]


def test_texts_for_people_are_what_they_would_write() -> None:
    found = check_kafka(GOOD | {"hosts_string": "a:1,[::1]:2", "topics_string": "x , ,y"}).configuration

    assert hosts_text(found) == "a:1, [::1]:2"
    assert topics_text(found) == "x, y"
    assert hosts_text({}) == topics_text({}) == ""
    assert check_kafka(GOOD | {"hosts_string": hosts_text(found)}).configuration["hosts"] == found["hosts"]


@pytest.mark.parametrize(
    "written", ["", "a", "a:1,", "a:1,,b:2", "a:b:1", ":1", "a:", "a:x", "a:0", "a:65536", "::1:9092", "[::1]", "a:٣"]
)
def test_a_bad_piece_of_hosts_is_one_error_and_leaves_the_list(written: str) -> None:
    found = check_kafka(GOOD | {"hosts_string": written})

    assert [error.field for error in found.errors] == ["hosts_string"]
    assert "host:port, host:port" in found.errors[0].message
    assert found.configuration["hosts"] == GOOD["hosts"]


def test_hosts_are_wanted_in_one_of_their_forms() -> None:
    assert errors(hosts=...).keys() == {"hosts_string", "hosts"}
    assert errors(hosts=[]).keys() == {"hosts_string", "hosts"}
    assert errors(hosts="a:1").keys() == {"hosts"}
    assert errors(hosts=[["a"]]).keys() == {"hosts"}
    assert errors(hosts=[["a", True]]).keys() == {"hosts"}
    assert "1 to 65535" in errors(hosts=[["a", "99999"]])["hosts"]
    assert not errors(hosts=["a:1", ["b", 2], ["[::1]", "3"]])


def test_topics_are_wanted_in_one_of_their_forms() -> None:
    assert errors(topics=...).keys() == {"topics_string", "topics"}
    assert errors(topics_string=" , ").keys() == {"topics_string"}
    assert "topic_1, topic_2" in errors(topics_string="")["topics_string"]
    assert "more than once: a" in errors(topics=["a", "b", "a"])["topics"]
    assert "more than once: a" in errors(topics_string="a,a")["topics_string"]
    assert "no legal topic name" in errors(topics=["a b"])["topics"]
    assert "no legal topic name" in errors(topics_string="a,b/c")["topics_string"]
    assert errors(topics=[3]).keys() == {"topics"}


def test_a_pattern_stands_for_topics() -> None:
    assert not errors(topics=..., topic_pattern="^lab-.*")
    assert errors(topic_pattern="^lab-.*").keys() == {"topic_pattern"}
    assert errors(topics=..., topic_pattern="lab").keys() >= {"topic_pattern"}


@pytest.mark.parametrize("policy", ["earliest", "latest", " latest ", "1755000000123", 1755000000123])
def test_policies_that_are_known(policy: object) -> None:
    found = check_kafka(GOOD | {"initial_offset_reset_policy": policy})

    assert not found.errors
    assert found.configuration["initial_offset_reset_policy"] == str(policy).strip()


@pytest.mark.parametrize(
    "policy", ["Earliest", "175500000012", "17550000001234", "-755000000123", "1755000000.12", True]
)
def test_policies_that_are_not(policy: object) -> None:
    assert errors(initial_offset_reset_policy=policy).keys() == {"initial_offset_reset_policy"}


def test_a_policy_is_checked_only_when_it_changes() -> None:
    stored = GOOD | {"initial_offset_reset_policy": "odd", "group_id": "g"}

    assert not check_kafka({"ssl": True}, stored).errors
    assert check_kafka({"initial_offset_reset_policy": "other"}, stored).errors


def test_what_a_stored_policy_means() -> None:
    assert start_of({"initial_offset_reset_policy": "12"}) == 12
    assert start_of({"initial_offset_reset_policy": "odd"}) == start_of({}) == "latest"
    assert start_of({"initial_offset_reset_policy": "earliest"}) == "earliest"


def test_required_fields_are_named_together() -> None:
    found = [error.field for error in check_kafka({"connect_timeout": None}).errors]

    assert found == [
        "hosts_string",
        "topics_string",
        "connect_timeout",
        "hosts",
        "initial_offset_reset_policy",
        "topics",
    ]


@pytest.mark.parametrize("seconds", [0, -1, 1.5, "x", True, [3]])
def test_timeouts_that_are_none(seconds: object) -> None:
    assert errors(connect_timeout=seconds).keys() == {"connect_timeout"}


def test_a_timeout_in_milliseconds_is_suspected() -> None:
    found = check_kafka(GOOD | {"connect_timeout": 30000})

    assert not found.errors
    assert "30" in (found.warnings[0].hint or "")
    assert in_seconds(found.configuration)["connect_timeout"] == 30
    assert in_seconds(GOOD | {"connect_timeout": 999})["connect_timeout"] == 999
    assert check_kafka(GOOD | {"connect_timeout": "20"}).configuration["connect_timeout"] == 20


def test_the_group_is_made_once_and_never_taken_from_the_input() -> None:
    first = check_kafka(GOOD | {"group_id": "mine"}).configuration
    assert first["group_id"] != "mine"

    assert check_kafka({"group_id": "mine"}, first).configuration["group_id"] == first["group_id"]
    assert check_kafka(GOOD, None, "lightning-kept").configuration["group_id"] == "lightning-kept"
    assert check_kafka({}, first, "lightning-other").configuration["group_id"] == first["group_id"]


def test_credentials_and_sasl_belong_together() -> None:
    assert errors(sasl="plain").keys() == {"username", "password"}
    assert errors(sasl="plain", username="u").keys() == {"password"}
    assert errors(**_LOGIN).keys() == {"username", "password"}
    assert errors(password=_LOGIN["password"]).keys() == {"password"}
    assert not errors(sasl="scram_sha_512", **_LOGIN)
    assert not errors(sasl="plain", username={"$ref": "USER"}, password={"$secret": "x"})
    assert not errors(sasl="")
    wrong = check_kafka(GOOD | {"sasl": "scram-sha-256"}).errors
    assert [error.field for error in wrong] == ["sasl"]
    assert wrong[0].hint == "did you mean 'scram_sha_256'?"


def test_no_error_repeats_a_password() -> None:
    for change in ({"password": "hunter22"}, {"password": ["hunter22"]}, {"username": {"a": "hunter22"}}):
        assert "hunter22" not in str(check_kafka(GOOD | change).errors)


def test_ssl_is_off_where_nothing_is_said() -> None:
    assert check_kafka(GOOD | {"ssl": None}).configuration["ssl"] is False
    assert check_kafka(GOOD | {"ssl": "true"}).configuration["ssl"] is True
    assert errors(ssl="yes please").keys() == {"ssl"}


def test_unknown_keys_and_other_shapes_are_refused() -> None:
    found = check_kafka(GOOD | {"topcis": []}).errors

    assert [(error.field, error.hint) for error in found] == [("topcis", "did you mean 'topics'?")]
    assert check_kafka("kafka").errors
    assert check_kafka(None).errors
    assert errors(properties="x").keys() == {"properties"}


_HOST = st.from_regex(r"[a-z][a-z0-9.-]{0,20}", fullmatch=True) | st.ip_addresses(v=6).map(str)


@given(st.lists(st.tuples(_HOST, st.integers(1, 65535).map(str)).map(list), min_size=1))
def test_hosts_survive_their_text(hosts: list[list[str]]) -> None:
    written = hosts_text({"hosts": hosts})

    assert check_kafka(GOOD | {"hosts_string": written}).configuration["hosts"] == hosts


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(FIELDS), _JSON))
def test_whatever_is_written_gets_an_answer(written: dict[str, Any]) -> None:
    found = check_kafka(written)

    assert found.errors or not check_kafka({}, found.configuration).errors
