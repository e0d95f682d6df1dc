"""What pipelines are doing, which specs they ran, and what happened to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import sqlalchemy as sa

from penstock.core.status import State
from penstock.store.database import Database
from penstock.store.reading import read_as
from penstock.store.tables import pipeline_history, pipeline_specs, pipeline_states
from penstock.store.upsert import upsert


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRow:
    """What one instance last said about one pipeline."""

    pipeline: str
    instance: str
    state: State
    reason: str | None = None
    events: int = 0
    failures: int = 0
    acted: int = 0
    filtered: int = 0
    p50_ms: float | None = None
    p99_ms: float | None = None
    updated_at: int = 0
    """Epoch milliseconds; set by the store."""
    revision: int | None = None
    """Revision of the desired state that the instance has carried out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecRow:
    """One version of a pipeline's spec, secrets masked."""

    pipeline: str
    version: str
    spec: str
    saved_at: int
    """When it was last put to use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRow:
    """Something that happened to a pipeline: `started`, `gap`, `reset`, `failed`, `resumed`…"""

    id: int
    pipeline: str
    instance: str | None
    at: int
    kind: str
    text: str
    data: dict[str, Any]


class Pipelines:
    """The repository of pipelines."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put_state(
        self,
        pipeline: str,
        instance: str,
        state: State,
        reason: str | None = None,
        *,
        events: int = 0,
        failures: int = 0,
        acted: int = 0,
        filtered: int = 0,
        p50: float | None = None,
        p99: float | None = None,
    ) -> None:
        """What this instance says about the pipeline now; replaces what it said before."""
        row = StateRow(
            pipeline=pipeline,
            instance=instance,
            state=state,
            reason=reason,
            events=events,
            failures=failures,
            acted=acted,
            filtered=filtered,
            p50_ms=p50,
            p99_ms=p99,
        )
        self.put_states([row])

    def put_states(self, rows: Sequence[StateRow]) -> None:
        """The same for many pipelines, in one transaction."""
        if not rows:
            return
        ordered = sorted(rows, key=lambda row: (row.pipeline, row.instance))
        with self._database.write() as connection:
            now = self._database.now(connection)
            values = [asdict(row) | {"updated_at": now} for row in ordered]
            connection.execute(upsert(self._database, pipeline_states), values)

    def states(self) -> list[StateRow]:
        """By pipeline, then instance."""
        query = sa.select(pipeline_states).order_by(pipeline_states.c.pipeline, pipeline_states.c.instance)
        with self._database.read() as connection:
            return read_as(StateRow, connection, query)

    def forget_instance(self, instance: str) -> None:
        """Drop what the instance said."""
        with self._database.write() as connection:
            connection.execute(sa.delete(pipeline_states).where(pipeline_states.c.instance == instance))

    def forget_states(self, instance: str, names: Sequence[str]) -> None:
        """Drop what the instance said of pipelines that it has no more."""
        c = pipeline_states.c
        with self._database.write() as connection:
            connection.execute(sa.delete(pipeline_states).where(c.instance == instance, c.pipeline.in_(names)))

    def save_spec(self, pipeline: str, version: str, spec: str) -> None:
        """Keep a spec, its secrets masked, as the one last put to use."""
        with self._database.write() as connection:
            row = SpecRow(pipeline=pipeline, version=version, spec=spec, saved_at=self._database.now(connection))
            connection.execute(upsert(self._database, pipeline_specs), asdict(row))

    def with_specs(self) -> list[str]:
        """Names of all pipelines that ever ran."""
        with self._database.read() as connection:
            return list(connection.scalars(sa.select(pipeline_specs.c.pipeline).distinct()))

    def last_spec(self, pipeline: str) -> SpecRow | None:
        c = pipeline_specs.c
        query = sa.select(pipeline_specs).where(c.pipeline == pipeline).order_by(c.saved_at.desc()).limit(1)
        with self._database.read() as connection:
            found = connection.execute(query).mappings().one_or_none()
        return SpecRow(**found) if found else None

    def specs(self, pipeline: str) -> list[SpecRow]:
        """Every version that was put to use, the last one first."""
        c = pipeline_specs.c
        query = sa.select(pipeline_specs).where(c.pipeline == pipeline).order_by(c.saved_at.desc(), c.version)
        with self._database.read() as connection:
            return [SpecRow(**row) for row in connection.execute(query).mappings()]

    def note(
        self, pipeline: str, instance: str | None, kind: str, text: str, data: Mapping[str, Any] | None = None
    ) -> None:
        """Add to the pipeline's history."""
        with self._database.write() as connection:
            values = {
                "pipeline": pipeline,
                "instance": instance,
                "at": self._database.now(connection),
                "kind": kind,
                "text": text,
                "data": dict(data or {}),
            }
            connection.execute(sa.insert(pipeline_history), values)

    def history(self, pipeline: str, limit: int = 100) -> list[HistoryRow]:
        """What happened, newest first."""
        c = pipeline_history.c
        query = sa.select(pipeline_history).where(c.pipeline == pipeline).order_by(c.id.desc()).limit(limit)
        with self._database.read() as connection:
            found = connection.execute(query).mappings().all()
        return [HistoryRow(**row) for row in found]

    def notes(
        self, pipelines: Sequence[str], kinds: Sequence[str], *, limit: int, before: int | None = None
    ) -> list[HistoryRow]:
        """Of some kinds and some pipelines, newest first; `before`: only ids below this one."""
        c = pipeline_history.c
        query = sa.select(pipeline_history).where(c.pipeline.in_(pipelines), c.kind.in_(kinds))
        if before is not None:
            query = query.where(c.id < before)
        with self._database.read() as connection:
            found = connection.execute(query.order_by(c.id.desc()).limit(limit)).mappings().all()
        return [HistoryRow(**row) for row in found]
