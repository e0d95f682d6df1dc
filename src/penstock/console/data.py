"""What pages ask and tell: the one place where the console meets the service layer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson
import structlog

from penstock.config.settings import Settings
from penstock.config.spec import PipelineSpec
from penstock.console.answers import Shared
from penstock.console.overview import Line, Verdict, line_of, most_urgent_first, verdict
from penstock.console.rates import Rates, Totals
from penstock.core.errors import ConfigError, PenstockError
from penstock.core.event import Record
from penstock.engine.instance import Instance
from penstock.service import offsets, pipelines, topic_browser
from penstock.service.dead_letters import discard_dead_letters, list_dead_letters
from penstock.service.replay import Edit, LetterPlan
from penstock.service.replay_jobs import Job, ReplayJobs
from penstock.service.specs import current_spec
from penstock.service.status import INSTANCE_SILENCE, pipeline_statuses
from penstock.service.topics import Topics, TopicView
from penstock.store import (
    DeadLetterFilter,
    DeadLetterRow,
    DesiredRow,
    Facets,
    HistoryRow,
    InstanceRow,
    StateRow,
    Store,
    StoredDeadLetter,
    Which,
)

log = structlog.get_logger("penstock.console")

_FRESH: Final = 1.5
_LOOK_EVERY: Final = 5.0


@dataclass(frozen=True, slots=True)
class Overview:
    """All pipelines, the most urgent first."""

    lines: list[Line]
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class PipelineFacts:
    """All that the page of a pipeline shows."""

    line: Line
    states: list[StateRow]
    desired: DesiredRow | None
    spec: dict[str, Any] | None
    """Secrets masked; None: it never ran."""
    file: str | None
    version: str | None
    history: list[HistoryRow]
    facets: Facets


class Data:
    """Shared by all pages; threads may call it at once."""

    def __init__(self, store: Store, settings: Settings, instance: Callable[[], Instance | None]) -> None:
        self._store, self._instance = store, instance
        self.rates = Rates()
        self.replays = ReplayJobs(
            store,
            spark=lambda: here.spark if (here := instance()) is not None else None,
            specs=self._running_specs,
            max_replays=settings.dead_letters.max_replays,
        )
        self._overview = Shared(self._look, _FRESH)
        self._over = threading.Event()
        self._looker = threading.Thread(target=self._keep_looking, name="console-rates", daemon=True)

    def start(self) -> None:
        """Begin to look at totals, so that a page that is opened has a curve to show."""
        self._looker.start()

    def close(self) -> None:
        self._over.set()
        self.replays.close()
        if self._looker.is_alive():
            self._looker.join(5)

    # -- pipelines -------------------------------------------------------------------------

    def overview(self) -> Overview:
        return self._overview()

    def _look(self) -> Overview:
        statuses = pipeline_statuses(self._store)
        self.rates.look([Totals(each.pipeline, each.events, each.failures) for each in statuses])
        lines = most_urgent_first(line_of(each, self.rates.of(each.pipeline)) for each in statuses)
        return Overview(lines, verdict(lines))

    def _keep_looking(self) -> None:
        while not self._over.wait(_LOOK_EVERY):
            try:
                self.overview()
            except PenstockError as error:
                log.debug("the store cannot be read", reason=str(error))

    def pipeline(self, name: str) -> PipelineFacts:
        found = next((line for line in self.overview().lines if line.pipeline == name), None)
        if found is None:
            known = [line.pipeline for line in self.overview().lines]
            raise ConfigError(f"there is no pipeline {name!r}", received=name, allowed=known)
        row = self._store.pipelines.last_spec(name)
        kept = orjson.loads(row.spec) if row is not None else {}
        alive = {instance.id for instance in self.instances()}
        return PipelineFacts(
            line=found,
            states=[s for s in self._store.pipelines.states() if s.pipeline == name and s.instance in alive],
            desired=self._store.desired.get(name),
            spec=kept.get("spec"),
            file=kept.get("file"),
            version=row.version if row is not None else None,
            history=self._store.pipelines.history(name, 200),
            facets=self.facets(DeadLetterFilter(pipeline=name)),
        )

    def act(self, name: str, what: str, *, by: str, reason: str | None = None) -> None:
        """Pause, resume, stop or restart."""
        said: Mapping[str, Callable[..., dict[str, int]]] = {
            "pause": pipelines.pause,
            "resume": pipelines.resume,
            "stop": pipelines.stop,
            "restart": pipelines.restart,
        }
        said[what](self._store, [name], by=by, reason=reason)
        self._overview.forget()

    def _running_specs(self) -> dict[str, PipelineSpec]:
        here = self._instance()
        return {} if here is None else {flow.name: flow.spec for flow in list(here.flows)}

    def spec(self, name: str) -> PipelineSpec:
        """As it runs here, else as it last ran anywhere."""
        return self._running_specs().get(name) or current_spec(name, [], self._store)

    # -- dead letters ----------------------------------------------------------------------

    def letters(self, which: DeadLetterFilter, limit: int) -> list[DeadLetterRow]:
        return list_dead_letters(self._store, which, limit)

    def facets(self, which: DeadLetterFilter) -> Facets:
        return self._store.dead_letters.facets(which)

    def letter(self, letter_id: int) -> StoredDeadLetter:
        found = self._store.dead_letters.get(letter_id)
        if found is None:
            raise ConfigError(f"there is no dead letter {letter_id}", received=letter_id)
        return found

    def plan(self, which: Which, edit: Edit | None = None) -> LetterPlan:
        return self.replays.plan(which, edit)

    def replay(self, which: Which, *, by: str, what: str, edit: Edit | None = None, rate: float | None = None) -> Job:
        return self.replays.start(which, by=by, what=what, edit=edit, rate=rate)

    def discard(self, which: Which, *, by: str, reason: str) -> int:
        done = discard_dead_letters(self._store, which, by=by, reason=reason)
        self._overview.forget()
        return done

    # -- topics and offsets ----------------------------------------------------------------

    def sources(self) -> list[PipelineSpec]:
        """Pipelines whose clusters can be looked into."""
        known = [line.pipeline for line in self.overview().lines]
        found = []
        for name in sorted(known):
            try:
                spec = self.spec(name)
            except PenstockError:
                continue
            if not spec.source.is_foreign:
                found.append(spec)
        return found

    def topics(self, spec: PipelineSpec) -> Sequence[TopicView]:
        return Topics(spec.source.config.connection, 5.0).list()

    def browse(self, spec: PipelineSpec, topic: str, **asked: Any) -> topic_browser.Page:
        return topic_browser.browse(spec.source.config.connection, topic, **asked)

    def decoders(self, record: Record, spec: PipelineSpec | None) -> list[topic_browser.Attempt]:
        return topic_browser.decoder_report(record, spec)

    def preview_reset(
        self, name: str, target: offsets.Target, *, topic: str | None, partition: int | None
    ) -> list[offsets.Move]:
        spec = self.spec(name)
        return offsets.plan_reset(offsets.cluster_of(spec), spec, target, topic=topic, partition=partition)

    def reset(
        self, name: str, target: offsets.Target, *, topic: str | None, partition: int | None, reapply: bool
    ) -> list[offsets.Move]:
        spec = self.spec(name)
        cluster = offsets.cluster_of(spec)
        asked: dict[str, Any] = {"topic": topic, "partition": partition, "reapply": reapply}
        return offsets.reset_offsets(self._store, cluster, spec, target, **asked)

    # -- the rest --------------------------------------------------------------------------

    def instances(self) -> list[InstanceRow]:
        return self._store.instances.alive(INSTANCE_SILENCE)

    def states(self) -> list[StateRow]:
        return self._store.pipelines.states()
