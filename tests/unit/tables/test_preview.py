"""What a processor would store of an event, and the table its rows would need."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from penstock import Processor
from penstock.core.errors import ConfigError, PluginError
from penstock.tables.ddl import ddl_of
from penstock.tables.lookup_tables import cfg_cluster
from penstock.tables.preview import Preview, preview
from penstock.tables.processor import ProcessorSettings
from penstock.tables.registry import JAVA_NAMES, processors, resolve_processor
from penstock.tables.sample_events import SAMPLES
from penstock.tables.samples import sample_record
from penstock.tables.staging import identity_of
from tests.unit.tables.conftest import Warehouse


class Orders(Processor):
    """A processor of a user's own."""

    columns: ClassVar[dict[str, str]] = {"id": "bigint", "name": "text", "paid_at": "timestamp"}
    keys = ("id",)

    def process(self, record: dict[str, Any] | None, topic: str) -> list[dict[str, Any]] | None:
        if record is None:
            return None
        return [{"id": 10 // record["id"], "name": topic}]


class Bare:
    def process(self, record: Any, topic: str) -> None: ...


def shown(processor: str, record: dict[str, Any] | None, **given: Any) -> Preview:
    return preview(resolve_processor(processor)(), ProcessorSettings(), record, "topic", **given)


@pytest.mark.parametrize("topic", SAMPLES)
def test_every_sample_shows_its_rows_and_leaves_nothing(warehouse: Warehouse, topic: str) -> None:
    sample = SAMPLES[topic]
    for url in (None, str(warehouse.target.url)):
        table = sample.table if identity_of(sample.table) else None
        done = shown(sample.processor, sample_record(topic, 1), table=table, url=url)
        if sample.processor == "job-execution-lineage":
            assert done.error is not None
            assert "sample-azkaban" in str(done.error["message"])
        else:
            assert done.error is None
            assert sample.table in {name for name, _ in done.rows}
    assert warehouse.counts() == {}


def test_look_ups_are_those_of_the_database(warehouse: Warehouse) -> None:
    same = {"cluster_type": "h", "deployment_tier_code": "p"}
    warehouse.add(cfg_cluster, {"cluster_id": 1, "cluster_code": "holdem", "cluster_short_name": "h"} | same)
    done = shown("gobblin-compaction", sample_record("GobblinTrackingEvent", 0), url=str(warehouse.target.url))
    assert done.rows[0][1]["cluster"] == "holdem"


def test_what_a_dead_letter_would_say(warehouse: Warehouse) -> None:
    record = sample_record("GobblinTrackingEvent", 0)
    assert shown("gobblin-compaction", record | {"timestamp": None}).as_dict() == {
        "outcome": "dead letter",
        "rows": [],
        "error": {
            "code": "bad-event",
            "message": "the event has no value for log_event_time",
            "received": ["log_event_time"],
        },
    }
    url = str(warehouse.target.url)
    refused = shown("gobblin-compaction", record, table="dict_dataset", url=url).error
    assert refused is not None
    assert "has no column" in str(refused["message"])
    assert "no table nowhere" in str(shown("gobblin-compaction", record, table="nowhere", url=url).error)
    own = preview(Orders(), ProcessorSettings(), {"id": 0}, "t").error
    assert own is not None
    assert own["code"] == "ZeroDivisionError"


def test_nothing_to_store() -> None:
    assert shown("gobblin-compaction", None).as_dict() == {"outcome": "nothing", "rows": [], "error": None}


# -- names of processors -------------------------------------------------------------------


@pytest.mark.parametrize("package", ["models.kafka", "metadata.etl.kafka"])
def test_the_names_of_wherehows_are_known_in_both_packages(package: str) -> None:
    found = [resolve_processor(f"{package}.{name}") for name in JAVA_NAMES]
    assert found == [resolve_processor(short) for short in processors.builtin]
    assert len(set(found)) == 8


def test_a_class_of_the_user_s_own() -> None:
    assert resolve_processor("tests.unit.tables.test_preview:Orders") is Orders


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("models.kafka.MyProcessor", "is a Java class, and no processor of WhereHows"),
        ("com.acme.Gobbling", "Java classes cannot be run"),
        ("models.kafka.MetastoreAuditProcesor", "did you mean `MetastoreAuditProcessor`"),
        ("gobblin-compactoin", "did you mean `gobblin-compaction`"),
        ("tests.unit.tables.test_preview:Bare", "does not extend Processor"),
        ("tests.unit.tables.test_preview:preview", "is a function, not a class"),
        ("tests.unit.tables.test_preview:Processor", "does not define `process`"),
        ("nowhere.at_all:Class", "there is no module"),
        ("", "there is no processor"),
    ],
)
def test_what_is_no_processor_is_said(name: str, words: str) -> None:
    with pytest.raises(PluginError) as refused:
        resolve_processor(name)
    assert words in str(refused.value)


# -- tables for users' own -----------------------------------------------------------------


def test_the_table_of_a_user_s_processor() -> None:
    statement = ddl_of(Orders, "orders", "postgresql")
    lines = [line.strip().rstrip(",") for line in statement.splitlines()]
    assert lines[0] == "CREATE TABLE orders ("
    assert {"id BIGINT NOT NULL", "name TEXT", "paid_at TIMESTAMP WITH TIME ZONE", "ps_offset BIGINT"} <= set(lines)
    assert "PRIMARY KEY (id)" in lines
    assert "id BIGINT NOT NULL" in ddl_of(Orders, "orders", "mysql")
    assert ddl_of(Orders, "orders", "sqlite").endswith(");\n")


def with_columns(given: Any, keys: Any = ()) -> type[Processor]:
    return type("Own", (Orders,), {"columns": given, "keys": keys})


@pytest.mark.parametrize(
    ("processor", "dialect", "words"),
    [
        (with_columns(()), "sqlite", "Own does not name its columns"),
        (with_columns("id"), "sqlite", "Own does not name its columns"),
        (with_columns({"id": "bigin"}), "sqlite", "did you mean `bigint`"),
        (with_columns(["a"], ["b"]), "sqlite", "the key b is no column"),
        (resolve_processor("gobblin-audit"), "sqlite", "writes to tables of its own"),
        (Orders, "oracle", "there is no database `oracle`"),
    ],
)
def test_what_makes_no_table_is_said(processor: type[Processor], dialect: str, words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        ddl_of(processor, "t", dialect)
    assert words in str(refused.value)
