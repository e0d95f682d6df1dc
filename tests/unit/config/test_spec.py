"""Specs: what is accepted, what is refused, and the normal form."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from pydantic import ValidationError

from penstock.config.spec import PipelineSpec


def spec(source: dict[str, Any] | None = None, options: dict[str, Any] | None = None, **more: Any) -> PipelineSpec:
    config = {"topics": ["orders"]} if source is None else source
    given = {"name": "p", "source": {"config": config}, "action": {"type": "hello_world"}, "options": options}
    return PipelineSpec.model_validate(given | more)


def refused(*args: Any, **kwargs: Any) -> str:
    with pytest.raises(ValidationError) as raised:
        spec(*args, **kwargs)
    return raised.value.errors()[0]["msg"].removeprefix("Value error, ")


def test_defaults() -> None:
    made = spec()
    assert (made.group, made.ordering, made.source.config.format) == ("p", "partition", "json")
    assert (made.source.config.start_position, made.source.config.stateless) == ("latest", False)
    assert (made.options.retry.attempts, made.options.timeout, made.options.drain_timeout) == (1, 30.0, 15.0)
    assert (made.options.failure_mode, made.filters, made.transform, made.action.config) == ("CONTINUE", [], [], {})


def test_null_counts_as_absent() -> None:
    assert spec(None, None, filters=None, transform=None, datahub=None, enabled=None) == spec()
    assert spec({"topics": ["orders"], "connection": None, "start": None}) == spec()
    assert spec(options={"retry": None, "timeout": None, "window": {"deadline": None}}) == spec()
    assert spec(action={"type": "hello_world", "config": None}) == spec()


def test_a_null_action_is_required() -> None:
    assert refused(action=None) == "Field required"
    assert refused(action={"type": ""})
    assert refused(action={"type": None}) == "Field required"


@pytest.mark.parametrize(
    ("config", "format_", "subscription"),
    [
        ({"topics": ["a", "b", "a"]}, "json", ["a", "b"]),
        ({"topics": "a"}, "json", ["a"]),
        ({"topics": ["a"], "format": "avro"}, "avro", ["a"]),
        ({"topic_pattern": "^a-.*"}, "json", ["^a-.*"]),
        ({"topic_routes": {"pe": "P", "mcl": "M", "x": "P"}}, "datahub", ["P", "M"]),
        (
            {"format": "datahub", "topic_routes": {}},
            "datahub",
            ["MetadataChangeLog_Versioned_v1", "MetadataChangeLog_Timeseries_v1", "PlatformEvent_v1"],
        ),
        (
            {},
            "datahub",
            ["MetadataChangeLog_Versioned_v1", "MetadataChangeLog_Timeseries_v1", "PlatformEvent_v1"],
        ),
    ],
)
def test_what_a_pipeline_reads(config: dict[str, Any], format_: str, subscription: list[str]) -> None:
    made = spec(config).source.config
    assert (made.format, made.subscription) == (format_, subscription)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"topics": ["a"], "topic_pattern": "^a"}, "give either topics or topic_pattern, not both"),
        ({"topics": ["a"], "topic_routes": {"pe": "x"}}, "give either topics or topic_routes, not both"),
        ({"topics": ["a"], "format": "datahub"}, "format datahub reads topic_routes"),
        ({"format": "json", "topic_routes": {"pe": "x"}}, "belongs to format datahub"),
        ({"format": "json"}, "required: name the topics to read, or give a topic_pattern"),
        ({"topic_pattern": "a.*"}, "a regular expression beginning with ^ is wanted, not 'a.*'"),
        (
            {"topics": ["no blanks"]},
            "'no blanks' is no legal topic name: letters, digits, '.', '_' and '-', at most 249 of them",
        ),
        (
            {"topics": ["a"], "group": "g", "connection": {"consumer_config": {"group.id": "h"}}},
            "says 'g' but consumer_config says group.id 'h'",
        ),
        ({"topics": ["a"], "connection": {"consumer_config": {"auto.offset.reset": "none"}}}, "'none' is not allowed"),
    ],
)
def test_what_a_pipeline_cannot_read(config: dict[str, Any], message: str) -> None:
    assert refused(config) == message


def test_a_pattern_must_compile() -> None:
    assert refused({"topic_pattern": "^a["}).startswith("'^a[' is no regular expression: ")


@pytest.mark.parametrize(
    ("written", "position"),
    [
        ("earliest", "earliest"),
        ("Latest", "latest"),
        (1_700_000_000_000, 1_700_000_000_000),
        ("1700000000000", 1_700_000_000_000),
        ("2026-01-01T00:00:00Z", 1_767_225_600_000),
        ("2026-01-01T02:00:00+02:00", 1_767_225_600_000),
        ("2026-01-01", 1_767_225_600_000),
        (None, "latest"),
    ],
)
def test_start(written: Any, position: str | int) -> None:
    made = spec({"topics": ["a"], "start": written})
    assert made.source.config.start_position == position
    assert PipelineSpec.model_validate(made.model_dump()) == made


@pytest.mark.parametrize("written", ["whenever", -1, True, "", "2026-13-01", 1.5])
def test_a_start_that_is_none(written: Any) -> None:
    assert "epoch milliseconds is wanted, not" in refused({"topics": ["a"], "start": written})


@pytest.mark.parametrize(
    ("start", "reset", "position"),
    [
        (None, "earliest", "earliest"),
        (None, "smallest", "earliest"),
        (None, "largest", "latest"),
        ("latest", "earliest", "latest"),
        (5, "earliest", 5),
    ],
)
def test_auto_offset_reset_applies_where_start_is_absent(start: Any, reset: str, position: Any) -> None:
    config = {"topics": ["a"], "start": start, "connection": {"consumer_config": {"auto.offset.reset": reset, "x": 1}}}
    made = spec(config).source.config
    assert made.start_position == position
    assert made.connection.consumer_config == {"x": 1}


def test_group_id_of_the_client_properties_is_the_group() -> None:
    assert spec({"topics": ["a"], "connection": {"consumer_config": {"group.id": "g"}}}).group == "g"
    assert spec({"topics": ["a"], "group": "g"}).group == "g"


def test_properties_that_penstock_sets_itself_are_dropped() -> None:
    given = {
        "group.instance.id": "x",
        "enable.auto.commit": True,
        "partition.assignment.strategy": "range",
        "fetch.min.bytes": 5,
    }
    made = spec({"topics": ["a"], "connection": {"consumer_config": given}})
    assert made.source.config.connection.consumer_config == {"fetch.min.bytes": 5}


@pytest.mark.parametrize("good", ["a", "a:9092", "a:1, b:2 ,", "[::1]:9092", "[::1]"])
def test_bootstrap(good: str) -> None:
    assert spec({"topics": ["a"], "connection": {"bootstrap": good}})


@pytest.mark.parametrize("bad", ["", " , ", "kafka://a:1", "SASL_SSL://a:1", "a:", ":9", "a:b", "a:0", "a:65536"])
def test_a_bootstrap_that_is_none(bad: str) -> None:
    assert "host:port" in refused({"topics": ["a"], "connection": {"bootstrap": bad}})


def test_the_drain_timeout_stays_below_the_poll_interval() -> None:
    def made(drain: str, limit: Any) -> PipelineSpec:
        config = {"topics": ["a"], "connection": {"consumer_config": {"max.poll.interval.ms": limit}}}
        return spec(config, {"drain_timeout": drain})

    assert made("15s", "30000")
    assert made("289s", 300_000)
    for drain, limit in (("20s", "30000"), ("290s", 300_000)):
        with pytest.raises(ValidationError, match=r"is too long for max\.poll\.interval\.ms"):
            made(drain, limit)
    with pytest.raises(ValidationError, match="a whole number of milliseconds is wanted, not 'long'"):
        made("15s", "long")


@pytest.mark.parametrize("mode", ["THROW", "throw", " Throw "])
def test_failure_mode_in_any_case(mode: str) -> None:
    assert spec(options={"failure_mode": mode}).options.failure_mode == "THROW"


def test_retry_count_counts_retries() -> None:
    assert spec(options={"retry_count": "3"}).options.retry.attempts == 4
    assert spec(options={"retry_count": 3, "retry": {"backoff": "2s"}}).options.retry.backoff == 2.0
    assert spec(options={"retry_count": 3, "retry": {"attempts": 4}}).options.retry.attempts == 4
    assert (
        refused(options={"retry_count": 3, "retry": {"attempts": 3}})
        == "3 retries contradict retry.attempts, which is 3"
    )


@pytest.mark.parametrize("written", [True, "yes", "ON", "t", "1", 1])
def test_enabled(written: Any) -> None:
    assert spec(enabled=written).enabled


@pytest.mark.parametrize("written", [False, "no", "Off", "f", "N", "0", 0])
def test_not_enabled(written: Any) -> None:
    assert not spec(enabled=written).enabled


def test_another_source_keeps_its_own_keys() -> None:
    own = {"topics": "a", "connection": 1, "password": "hidden", "group": None}
    made = PipelineSpec.model_validate(
        {"name": "p", "source": {"type": "./mine.py:Source", "config": own}, "action": {"type": "x"}}
    )
    assert made.source.is_foreign
    assert made.model_dump()["source"] == {"type": "./mine.py:Source", "config": own}
    assert PipelineSpec.model_validate(made.model_dump(mode="json")) == made
    assert "hidden" in made.secrets
    assert "hidden" not in f"{made!r} {made.shown()}"
    assert (made.group, made.source.config.subscription) == ("p", [])


@pytest.mark.parametrize(
    "options", [{"concurrency": 2}, {"parallelism": 2}, {"dead_letter": {"topic": "letters"}}], ids=str
)
def test_what_another_source_cannot_do_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=r"one event after the other|read from Kafka"):
        PipelineSpec.model_validate(
            {"name": "p", "source": {"type": "m:S"}, "action": {"type": "x"}, "options": options}
        )


def test_the_datahub_block() -> None:
    assert spec({}, datahub={"server": "http://x", "token": "t"}).datahub == {"server": "http://x", "token": "t"}
    assert refused({}, datahub={"token": "t"}) == "required"
    assert refused({}, datahub={"server": "http://x", "nonsense": 1}) == "unknown key"
    assert (
        refused({}, datahub={"server": "x", "token": "t", "auth": {"type": "static"}})
        == "give either token or auth, not both"
    )


@pytest.mark.parametrize(
    "options",
    [{"timeout": 0}, {"deferral_timeout": 0}, {"window": {"deadline": "0s"}}, {"dead_letter": {"topic": "a b"}}],
)
def test_options_that_are_refused(options: dict[str, Any]) -> None:
    assert refused(options=options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"retry": {"max_backoff": "1s", "backoff": "5s"}}, "the longest wait, 1 s, is shorter than the first, 5 s"),
        ({"retry": {"backoff": "2m"}}, "the longest wait, 60 s, is shorter than the first, 120 s"),
        (
            {"retry": {"attempts": 2, "backoff": "5s", "max_age": "2s"}},
            "2 s is over before the second attempt, which waits 5 s",
        ),
        (
            {"retry_count": 1, "retry": {"backoff": "5s", "max_age": "2s"}},
            "2 s is over before the second attempt, which waits 5 s",
        ),
        ({"retry": {"on": ["a b"]}}, "the name of an exception's class is wanted, not 'a b'"),
        ({"retry": {"on": ["KeyError"], "never": ["OSError", "KeyError"]}}, "KeyError is in `on` too"),
        ({"retry": {"scope": "all"}}, "Input should be 'stage' or 'chain'"),
        ({"breaker": {"resume_after": 0}}, "Input should be greater than 0"),
        ({"timeout": "2d"}, "Input should be less than or equal to 86400"),
    ],
)
def test_retries_breakers_and_timeouts_that_make_no_sense(options: dict[str, Any], message: str) -> None:
    assert refused(options=options) == message


def test_what_is_retried_is_named_by_class() -> None:
    retry = spec(options={"retry": {"on": "requests.HTTPError", "never": ["KeyError"]}}).options.retry
    assert (retry.on, retry.never, retry.scope) == (["requests.HTTPError"], ["KeyError"], "stage")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("a:9092,b:9092", "B:9092", True),
        ("a", "a:9092", True),
        ("localhost:1", "127.0.0.1:1", True),
        ("[::1]:1", "localhost:1", True),
        ("a:1", "a:2", False),
    ],
)
def test_addresses_of_the_same_cluster(one: str, other: str, *, same: bool) -> None:
    connections = [
        spec({"topics": ["t"], "connection": {"bootstrap": b}}).source.config.connection for b in (one, other)
    ]
    assert connections[0].shares_cluster(connections[1]) is same


@pytest.mark.parametrize("name", ["", " a", "a\n", "a\x00b"])
def test_names_that_are_refused(name: str) -> None:
    assert refused(name=name)


def test_a_spec_survives_pickling_with_all_it_knows() -> None:
    made = (
        spec(action={"type": "x", "config": {"token": "hunter22"}}).with_origin("/a/b.yaml").with_secrets({"from-file"})
    )
    again = pickle.loads(pickle.dumps(made))  # noqa: S301 - our own bytes
    assert again == made
    assert (again.origin, again.version, again.secrets) == ("/a/b.yaml", made.version, {"hunter22", "from-file"})


def test_the_version_changes_with_the_content_alone() -> None:
    made = spec(action={"type": "x", "config": {"a": 1, "token": "hunter22"}})
    assert made.version == spec(action={"type": "x", "config": {"token": "hunter22", "a": 1}}).version
    assert made.version == made.with_origin("elsewhere").version
    assert made.version != spec(action={"type": "x", "config": {"a": 1, "token": "hunter23"}}).version
    assert len(made.version) == 12


def test_i08_no_text_form_of_a_spec_shows_a_secret() -> None:
    connection = {"schema_registry_url": "http://u:urlpass@r", "consumer_config": {"sasl.password": "hunter22"}}
    made = spec(
        {"topics": ["a"], "connection": connection},
        action={"type": "x", "config": {"headers": {"authorization": "Bearer tok-1"}}},
    )
    shown = f"{made!r} {made} {made.source!r} {made.shown()} {made.action!r}"
    for secret in ("hunter22", "urlpass", "tok-1"):
        assert secret not in shown
        assert secret in made.secrets
    assert "********" in shown


def test_i08_a_validation_error_does_not_repeat_its_input() -> None:
    with pytest.raises(ValidationError) as raised:
        spec({"topics": ["a"], "connection": {"consumer_config": "sasl.password=hunter22"}})
    assert "hunter22" not in str(raised.value)
