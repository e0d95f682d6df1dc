"""Every sample fits its schema, and its processor makes something of it."""

from __future__ import annotations

import io

import fastavro
import pytest
import sqlalchemy as sa

from penstock.core.errors import ConfigError
from penstock.tables import metadata_tables, staging
from penstock.tables.lookup_tables import cfg_application
from penstock.tables.processor import Writer
from penstock.tables.registry import resolve_processor
from penstock.tables.sample_events import SAMPLES
from penstock.tables.samples import encoded_samples, fingerprint, framed, sample_record, schema_of, schema_text
from tests.unit.tables.conftest import Warehouse


@pytest.mark.parametrize("topic", SAMPLES)
def test_a_sample_goes_through_avro_and_becomes_rows(warehouse: Warehouse, topic: str) -> None:
    sample = SAMPLES[topic]
    warehouse.add(cfg_application, {"app_id": 1, "app_code": "sample-azkaban"})
    processor = resolve_processor(sample.processor)()
    table = {**staging.metadata.tables, **metadata_tables.metadata.tables}[sample.table]
    for body in encoded_samples(topic, 4):
        record = fastavro.schemaless_reader(io.BytesIO(body), fastavro.parse_schema(schema_of(topic)), None)
        assert isinstance(record, dict)
        if isinstance(processor, Writer):
            warehouse.write(processor, record)
            continue
        row = processor.process(record, topic)
        assert isinstance(row, dict)
        assert row.get("ps_notes") is None
        with warehouse.target.transaction() as connection:
            connection.execute(sa.insert(table).values(row))
    assert len(warehouse.rows(table)) == 4


def test_an_unknown_topic_is_named() -> None:
    with pytest.raises(ConfigError, match="MetadataChangeEvents") as refused:
        sample_record("MetadataChangeEvents", 0)
    assert refused.value.hint == "did you mean `MetadataChangeEvent`?"


def test_samples_are_the_same_every_time_and_schemas_differ() -> None:
    assert list(encoded_samples("MetadataChangeEvent", 3)) == list(encoded_samples("MetadataChangeEvent", 3))
    assert len({fingerprint(topic) for topic in SAMPLES}) == len({schema_text(topic) for topic in SAMPLES}) == 9
    assert framed(bytes(16), b"x") == bytes(17) + b"x"
