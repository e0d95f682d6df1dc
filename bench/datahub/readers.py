"""`python -m bench readers`: Avro readers side by side on DataHub's records: fastavro, cavro, Penstock's own."""

from __future__ import annotations

import json
import subprocess
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import fastavro

from bench.datahub import timing
from bench.datahub.environment import readers_environment, schema
from bench.datahub.records import MARK_ASPECT, MCL_SCHEMA, PE_SCHEMA, change_logs, entity_changes
from bench.engine.rig import Rig
from bench.report import Result
from penstock.datahub.events import METADATA_CHANGE_LOG_EVENT_V1_TYPE, MetadataChangeLogEvent
from penstock.decode.datahub_pushdown import judge_of
from penstock.decode.datahub_reading import PlatformEventRecord, reader_of

_COUNT = 2_000
_WANTED = {"entityType": "dataset", "aspectName": MARK_ASPECT, "changeType": "UPSERT"}


def readers(rig: Rig, _options: Namespace) -> list[Result]:
    """Processor time per record of Avro readers: whole change logs, their first fields, platform events."""
    logs, changes = change_logs(1, _COUNT), entity_changes(2, _COUNT)
    log_schema, change_schema = schema(MCL_SCHEMA), schema(PE_SCHEMA)
    cut = _cut(log_schema, "aspectName")
    judge = judge_of(_parsed(log_schema), MetadataChangeLogEvent, [_wanted], METADATA_CHANGE_LOG_EVENT_V1_TYPE)
    read_log = reader_of(_parsed(log_schema), MetadataChangeLogEvent)
    read_change = reader_of(_parsed(change_schema), PlatformEventRecord)
    what = "Processor time per record in one thread, best of seven passes over 2,000 records."
    figures = (
        _compared(rig, "change log", log_schema, logs, read_log)
        | _compared(rig, "change log up to aspectName", cut, logs, judge)
        | _compared(rig, "platform event", change_schema, changes, read_change)
    )
    return [Result(name="Avro readers", what=what, figures=figures)]


def _compared(
    rig: Rig, name: str, text: str, values: Sequence[bytes], generated: Callable[[bytes], Any]
) -> dict[str, float]:
    schema_file, values_file = rig.folder / "schema.avsc", rig.folder / "values.txt"
    schema_file.write_text(text)
    values_file.write_text("\n".join(value.hex() for value in values))
    command = [readers_environment() / "bin" / "python", Path(timing.__file__), schema_file, values_file]
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = json.loads(answer) | {"generated": timing.microseconds(generated, values)}
    return {f"{name}: {reader}, µs": took for reader, took in found.items()}


def _parsed(text: str) -> Any:
    return fastavro.parse_schema(json.loads(text))


def _cut(text: str, last: str) -> str:
    made = json.loads(text)
    names = [field["name"] for field in made["fields"]]
    made["fields"] = made["fields"][: names.index(last) + 1]
    return json.dumps(made)


def _wanted(_event_type: str) -> list[dict[str, Any]]:
    """The filter of the rejected runs, as the decoder is told of it."""
    return [_WANTED]
