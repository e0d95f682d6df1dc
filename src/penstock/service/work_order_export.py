"""Work orders with all that belongs to them, as a zip: tables for people, dataclips as JSON lines."""

from __future__ import annotations

import csv
import io
import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, Final, Self

from penstock.core.errors import Unavailable
from penstock.core.event import json_bytes
from penstock.service.work_order_filters import filter_as_json
from penstock.service.work_order_shapes import (
    Names,
    dataclip_as_dict,
    log_as_dict,
    run_as_dict,
    step_as_dict,
    work_order_as_dict,
)
from penstock.service.work_orders import oldest_first
from penstock.store import Store
from penstock.store.work.bundles import Bundles
from penstock.store.work.history_model import WorkOrderFilter, WorkOrderRow

Progress = Callable[[int], None]
Tables = dict[str, int]
"""Rows by the name of their file."""

_COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    "work_orders.csv": (
        *("id", "state", "project", "project_id", "workflow", "workflow_id", "trigger", "trigger_id", "snapshot_id"),
        *("dataclip_id", "inserted_at", "last_activity"),
    ),
    "runs.csv": (
        *("id", "work_order_id", "state", "error_type", "starting_step", "created_by", "snapshot_id", "dataclip_id"),
        *("final_dataclip_id", "priority", "queue", "inserted_at", "claimed_at", "started_at", "finished_at"),
    ),
    "steps.csv": (
        *("id", "run_id", "name", "exit_reason", "error_type", "snapshot_id", "input_dataclip_id"),
        *("output_dataclip_id", "started_at", "finished_at"),
    ),
    "logs.csv": ("id", "run_id", "step_id", "timestamp", "level", "source", "message"),
}
_DATACLIPS: Final = "dataclips.jsonl"
_FORMULAS: Final = ("=", "+", "-", "@", "\t", "\r")
"""What spreadsheets take for the beginning of a formula: an event must not bring one into them."""


def export_work_orders(
    store: Store, which: WorkOrderFilter, path: Path, *, by: str, progress: Progress | None = None
) -> Tables:
    """Write the zip; the file is there when all of it is. How many rows of each kind it has.

    Who took what stays on record, among the bulk jobs."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            counts = _write(file, store, which, progress or (lambda _: None))
            file.flush()
            os.fsync(file.fileno())
        request = {"filter": filter_as_json(which), "file": path.name}
        store.bulk_jobs.add("export", request, total=counts["work_orders.csv"], asked_by=by, state="done")
        unfinished.rename(path)
    except OSError as error:
        raise Unavailable(f"{path} cannot be written: {error.strerror}", received=str(path)) from error
    finally:
        unfinished.unlink(missing_ok=True)
    return counts


def _write(file: IO[bytes], store: Store, which: WorkOrderFilter, progress: Progress) -> Tables:
    with ExitStack() as stack, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        # A zip takes one file after the other, and all of them grow at the same time.
        members = {name: stack.enter_context(_Member(name)) for name in (*_COLUMNS, _DATACLIPS)}
        names, bundles = Names.of(store), Bundles(store.database)
        for page in oldest_first(store, which):
            _take(page, members, names, bundles)
            progress(members["work_orders.csv"].rows)
        for name, member in members.items():
            with packed.open(name, "w", force_zip64=True) as target:
                member.copy_to(target)
    return {name: member.rows for name, member in members.items()}


def _take(page: Sequence[WorkOrderRow], members: dict[str, _Member], names: Names, bundles: Bundles) -> None:
    runs = [run for order in page for run in order.runs]
    ids = [run.id for run in runs]
    clips = {order.dataclip_id for order in page}
    clips |= {clip for run in runs for clip in (run.dataclip_id, run.final_dataclip_id)}
    members["work_orders.csv"].write(work_order_as_dict(order, names) for order in page)
    members["runs.csv"].write(map(run_as_dict, runs))

    def steps() -> Iterator[dict[str, Any]]:
        for step in bundles.steps(ids):
            clips.update((step.input_dataclip_id, step.output_dataclip_id))
            yield step_as_dict(step)

    members["steps.csv"].write(steps())
    members["logs.csv"].write(map(log_as_dict, bundles.logs(ids)))
    wanted = sorted(clip for clip in clips if clip is not None)
    members[_DATACLIPS].write(map(dataclip_as_dict, bundles.dataclips(wanted)))


class _Member:
    """One file of the zip, until it is whole."""

    def __init__(self, name: str) -> None:
        self.rows = 0
        self._columns = _COLUMNS.get(name)
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by its own exit
        self._text = io.TextIOWrapper(self._file, encoding="utf-8", newline="", write_through=True)
        self._csv = csv.writer(self._text)
        if self._columns:
            self._csv.writerow(self._columns)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._text.close()

    def write(self, rows: Iterable[dict[str, Any]]) -> None:
        for row in rows:
            if self._columns:
                self._csv.writerow([_cell(row[column]) for column in self._columns])
            else:
                self._file.write(json_bytes(row) + b"\n")
            self.rows += 1

    def copy_to(self, target: IO[bytes]) -> None:
        self._file.seek(0)
        shutil.copyfileobj(self._file, target)


def _cell(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULAS) else value
