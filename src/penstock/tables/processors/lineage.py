"""Job executions and what they read and wrote → `job_execution`, `job_execution_data_lineage`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import sqlalchemy as sa
import structlog

from penstock.tables.lookup_tables import cfg_application
from penstock.tables.metadata_tables import job_execution, job_execution_data_lineage
from penstock.tables.processor import BadEvent, ProcessorSettings, Row, Writer
from penstock.tables.processors.paths import Paths
from penstock.tables.processors.reading import record_of, records_of, required_record, seconds, whole
from penstock.tables.rows import Rows, TableColumns

log = structlog.get_logger("penstock.processors")

_NO_ID: Final = 0
"""Where the tables want an id, and the event has none."""


class LineageProcessor(Writer):
    """One execution of a job, with its inputs and outputs."""

    tables: ClassVar[tuple[str, ...]] = (job_execution.name, job_execution_data_lineage.name)

    def __init__(self) -> None:
        super().__init__()
        self._columns = TableColumns()
        self._paths = Paths(self.settings.surroundings)

    def configure(self, settings: ProcessorSettings) -> None:
        super().configure(settings)
        self._paths = Paths(settings.surroundings)

    def write(self, connection: sa.Connection, record: dict[str, Any] | None, topic: str) -> None:
        if record is None:
            return
        application = required_record(record, "application")
        execution = required_record(record, "jobExecution")
        inputs, outputs = records_of(record, "inputDatasetList"), records_of(record, "outputDatasetList")
        if inputs is None or outputs is None:
            raise BadEvent(f"the event has no `{'inputDatasetList' if inputs is None else 'outputDatasetList'}`")
        rows = Rows(connection, self._columns)
        self._paths.refresh(connection, self._columns)
        app_id = _app_id(rows, application.get("name"))
        job = _job(app_id, execution)
        now = self.settings.now()
        rows.upsert(job_execution, ["app_id", "job_exec_id"], job | {"created_time": now})
        found = [*self._datasets("source", inputs, topic), *self._datasets("target", outputs, topic)]
        shared = _shared(job, execution) | {"created_date": now}
        for number, line in enumerate(merged_lineage(found)):
            rows.upsert(
                job_execution_data_lineage, ["app_id", "job_exec_id", "srl_no"], shared | line | {"srl_no": number}
            )
        if execution.get("executionId") is not None:
            # Told again with fewer datasets; executions without an id share one, and keep each other's lines.
            _forget_from(rows, job, len(merged_lineage(found)))

    def _datasets(self, kind: str, items: list[Mapping[str, Any]], topic: str) -> list[Row]:
        lines = []
        for item in items:
            properties = record_of(item, "datasetProperties") or {}
            name = item.get("datasetUrn") or properties.get("uri")
            if not name:
                log.warning("dataset_without_name", topic=topic, kind=kind)
                continue
            path = self._paths.analyse(name)
            if path is None:
                continue
            partition = record_of(item, "partition") or {}
            start, end = partition.get("minPartitionValue"), partition.get("maxPartitionValue")
            untold = start is None and end is None
            lines.append(
                {
                    "source_target_type": kind,
                    "full_object_name": name,
                    "abstracted_object_name": path.abstracted,
                    "layout_id": path.layout_id,
                    "partition_start": path.partition if untold else start,
                    "partition_end": path.partition if untold else end,
                    "partition_type": partition.get("partitionType") or path.partition_type,
                    "operation": item.get("operation"),
                    "db_id": None,
                }
            )
        return lines


def merged_lineage(lines: list[Row]) -> list[Row]:
    """One line per direction and object, with the smallest start and the largest end of its partitions; sorted."""
    merged: dict[str, Row] = {}
    for line in lines:
        key = "\0".join(str(line[name] or "") for name in ("source_target_type", "db_id", "abstracted_object_name"))
        known = merged.setdefault(key, line)
        if known is not line:
            starts = [value for value in (known["partition_start"], line["partition_start"]) if value is not None]
            ends = [value for value in (known["partition_end"], line["partition_end"]) if value is not None]
            merged[key] = known | {
                "partition_start": min(starts, default=None),
                "partition_end": max(ends, default=None),
            }
    return [merged[key] for key in sorted(merged)]


def _app_id(rows: Rows, code: Any) -> int:
    if not code:
        raise BadEvent("`application` has no name")
    if rows.has(cfg_application):
        for row in rows.select(cfg_application, ["app_id"], {"app_code": code}):
            return int(row["app_id"])
    raise BadEvent(
        f"`{code}` is no application that `cfg_application` knows",
        received=code,
        hint="add it, then replay the dead letter",
    )


def _job(app_id: int, execution: Mapping[str, Any]) -> Row:
    start = whole(execution, "startTime")
    if start is None:
        raise BadEvent("`jobExecution` has no `startTime`")
    return {
        "app_id": app_id,
        "job_name": execution.get("name"),
        "job_id": whole(execution, "definitionId") or _NO_ID,
        "job_exec_id": whole(execution, "executionId") or _NO_ID,
        "job_exec_uuid": execution.get("executionGuid"),
        "flow_id": whole(execution, "flowDefinitionId") or _NO_ID,
        "flow_exec_id": whole(execution, "flowExecutionId"),
        "attempt_id": whole(execution, "attempt"),
        "start_time": seconds(start),
        "end_time": seconds(whole(execution, "endTime")),
        "job_exec_status": execution.get("state"),
    }


def _shared(job: Row, execution: Mapping[str, Any]) -> Row:
    """What every line of an execution has."""
    same = ("app_id", "flow_exec_id", "job_exec_id", "job_exec_uuid", "job_name")
    return {name: job[name] for name in same} | {
        "job_start_unixtime": job["start_time"],
        "job_finished_unixtime": job["end_time"] or 0,  # a job that still runs; the column takes no NULL
        "flow_path": execution.get("topLevelFlowName"),
    }


def _forget_from(rows: Rows, job: Row, number: int) -> None:
    c = job_execution_data_lineage.c
    same = (c.app_id == job["app_id"], c.job_exec_id == job["job_exec_id"], c.srl_no >= number)
    rows.connection.execute(sa.delete(job_execution_data_lineage).where(*same))
