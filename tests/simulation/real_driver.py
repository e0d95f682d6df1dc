"""The real driver in the simulated world: `PipelineRunner`s and the dispatcher of one instance, on simulated seams.

Replaced by the simulation: the group consumer, the cluster's answers, the store, the window backend, the idle watcher's
consumer, events that killed their worker (read from the simulated log), metrics and taps. Everything else is the code
that runs in production.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from penstock.config.spec import PipelineSpec
from penstock.core.dead_letter import DeadLetter, Stage
from penstock.core.errors import Unavailable
from penstock.engine.desired_state import DesiredState
from penstock.engine.lanes.dispatcher import Dispatcher
from penstock.engine.lanes.lane import LaneSizes
from penstock.engine.pipelines.activity import IdlePolicy
from penstock.engine.pipelines.context import EngineContext
from penstock.engine.pipelines.crashed_events import failure_for
from penstock.engine.pipelines.partitions import PartitionState
from penstock.engine.pipelines.runner import PipelineRunner
from penstock.kafka.group_consumer import Commit, GroupConsumer
from penstock.pipeline.messages import Blueprint, FailedEvent
from penstock.store import MirrorRow
from penstock.store.offsets import FirstStart
from tests.simulation.instance import CLIENT, STOP_TIMEOUT, Seams
from tests.simulation.judge import WITH_CURSOR
from tests.simulation.schedule import SESSION_TIMEOUT, PipelineModel
from tests.simulation.store import StoreView, Wanted
from tests.simulation.target import Fenced

Place = tuple[str, int]


class Nothing:
    """Metrics and taps: any attribute, any call."""

    def __getattr__(self, name: str) -> Nothing:
        return self

    def __call__(self, *args: object, **kwargs: object) -> Nothing:
        return self


NOTHING: Any = Nothing()


class NoTaps:
    def wish(self, *args: object) -> None:
        return None

    def give(self, *args: object) -> None:
        return None


# -- the store -----------------------------------------------------------------------------


class DeadLettersFake:
    def __init__(self, view: StoreView) -> None:
        self._view = view

    def record(self, letters: Sequence[DeadLetter], by: str | None = None) -> None:
        self._view.record(letters)


class OffsetsFake:
    def __init__(self, view: StoreView) -> None:
        self._view = view

    def mirrored(self, group: str) -> dict[Place, MirrorRow]:
        return {
            (topic, p): MirrorRow(
                group=group, topic=topic, topic_id=topic_id, partition=p, offset=c.offset, metadata=c.metadata
            )
            for (topic, p), (topic_id, c) in self._view.mirrored(group).items()
        }

    def mirror(self, rows: Sequence[MirrorRow]) -> None:
        for row in rows:
            commit = Commit(row.offset, row.metadata)
            self._view.mirror(row.group, {(row.topic, row.partition): (row.topic_id, commit)})

    def first_start(self, group: str, topics: Mapping[str, int], at_ms: int) -> dict[str, FirstStart]:
        row = self._view.first_start(group, topics, at_ms)
        return {topic_id: FirstStart(count, row.at_ms) for topic_id, count in row.topics.items()}


class PipelinesFake:
    def __init__(self, view: StoreView) -> None:
        self._view = view

    def note(self, pipeline: str, instance: str, kind: str, text: str, data: dict[str, Any]) -> None:
        self._view.note(pipeline, kind, data)


class StoreFake:
    def __init__(self, view: StoreView) -> None:
        self.dead_letters, self.offsets, self.pipelines = DeadLettersFake(view), OffsetsFake(view), PipelinesFake(view)


# -- desired state, idle watcher, crashed events -------------------------------------------


class DesiredFake:
    """`DesiredStateSync`: what the operator wants, as the store said when it was read last."""

    def __init__(self, seams: Seams) -> None:
        self._seams = seams
        self.known: dict[str, DesiredState] = {}

    def desired(self, name: str) -> DesiredState:
        return self.known.get(name, DesiredState())

    def refresh(self) -> None:
        try:
            self.known = {name: _desired(wanted) for name, wanted in self._seams.store.wanted().items()}
        except Unavailable:
            return  # what was wanted last holds

    def fail(self, name: str, reason: str, at: list[dict[str, Any]]) -> None:
        self._seams.world.store.want(name, state="failed")

    def pause(self, name: str, **_: object) -> None:
        self._seams.world.store.want(name, state="paused")

    def resume(self, name: str, **_: object) -> None:
        self._seams.world.store.want(name, state="running")


def _desired(wanted: Wanted) -> DesiredState:
    return DesiredState(
        state=wanted.state,
        held_by="operator" if wanted.held else None,
        restarts=wanted.restarts,
        revision=wanted.revision,
    )


class IdleWatcherFake:
    """Wakes a pipeline when a partition that it watches reaches its offset, or cannot be watched."""

    def __init__(self, seams: Seams) -> None:
        self._seams = seams
        self._watched: dict[str, tuple[dict[Place, int], Callable[[], None]]] = {}

    def watch(self, key: str, offsets: Mapping[Place, int], wake: Callable[[], None]) -> None:
        self._watched[key] = (dict(offsets), wake)

    def leave(self, key: str) -> None:
        self._watched.pop(key, None)

    def run(self) -> None:
        world = self._seams.world
        while True:
            self._seams.clock.sleep(0.2 + world.rng.random() * 0.3)
            for offsets, wake in list(self._watched.values()):
                if any(self._arrived(place, offset) for place, offset in offsets.items()):
                    wake()

    def _arrived(self, place: Place, offset: int) -> bool:
        log = self._seams.world.log
        topic = log.topics.get(place[0])
        if log.away or topic is None or place[1] >= len(topic.partitions):
            return True
        part = topic.partitions[place[1]]
        return not part.start <= offset <= part.end or part.next_record(offset) is not None


class SimCrashedEvents:
    """Reads events that killed their worker from the simulated log, and moves cursors in the simulated target."""

    def __init__(self, seams: Seams, model: PipelineModel) -> None:
        self._seams, self._model = seams, model

    def failure(self, state: PartitionState, offset: int, *, stage: Stage, reason: str) -> FailedEvent | None:
        world = self._seams.world
        world.network.call(self._seams.process)
        if world.log.away or self._seams.process in world.network.cut:
            raise Unavailable("the event cannot be read")
        topic = world.log.topics.get(state.topic)
        if topic is None or state.partition >= len(topic.partitions):
            return None
        found = topic.partitions[state.partition].next_record(offset)
        return None if found is None else failure_for(found.record, stage=stage, reason=reason)

    def pass_over(self, state: PartitionState, offset: int, cursor: int | None) -> None:
        """As `CrashedCursors.pass_over`."""
        if not self._has_cursor:
            return
        found = self.cursor(state)
        if found is not None and found > offset:
            return
        key = (self._model.name, state.topic_id, state.partition)
        expected = None if found is None else offset if cursor is None else min(cursor, offset)
        try:
            self._seams.world.target.write(
                self._seams.process, key, expected, offset + 1, [], {}, in_store=self._in_store
            )
        except Fenced as error:
            raise Unavailable("the cursor has moved meanwhile") from error

    @property
    def _has_cursor(self) -> bool:
        return self._model.kind in WITH_CURSOR

    @property
    def _in_store(self) -> bool:
        return self._model.kind == "work order"

    def cursor(self, state: PartitionState) -> int | None:
        if not self._has_cursor:
            return None
        key = (self._model.name, state.topic_id, state.partition)
        return self._seams.world.target.cursor(self._seams.process, key, in_store=self._in_store)


# -- specs ---------------------------------------------------------------------------------


_ACTIONS: dict[str, dict[str, Any]] = {
    "table": {"type": "table", "config": {"url": "sqlite://", "table": "rows", "columns": {"v": "value"}}},
    "work order": {"type": "work_order", "config": {"workflow": "w"}},
}


@lru_cache(maxsize=2_000)
def blueprint_of(model: PipelineModel) -> Blueprint:
    """The model as a spec; the simulated worker looks at the model, not at this."""
    spec = PipelineSpec.model_validate(
        {
            "name": model.name,
            "source": {
                "type": "kafka",
                "config": {
                    "connection": {"bootstrap": "simulated:9092"},
                    "topics": list(model.topics),
                    "format": "json",
                    "start": model.start,
                    "stateless": model.stateless,
                },
            },
            "action": _ACTIONS.get(model.kind, {"type": "hello_world", "config": {}}),
            "options": {
                "retry": {"attempts": model.attempts, "backoff": f"{int(model.backoff * 1000)}ms"},
                "timeout": f"{model.timeout:g}s",
                "drain_timeout": f"{model.drain_timeout:g}s",
                "window": {"deadline": f"{model.window:g}s", "max_records": model.max_records},
            },
        }
    )
    return Blueprint(spec, CLIENT, None)


# -- the instance --------------------------------------------------------------------------


LANES = LaneSizes(shared=1, dedicated=1, pinned=2, express=0)


class SimRunner(PipelineRunner):
    """The real runner. Sets of runners have the order of their hashes, which must not depend on memory addresses: a
    seed means the same schedule in every process."""

    def __init__(self, number: int, *args: Any, **kwargs: Any) -> None:
        self._number = number
        super().__init__(*args, **kwargs)

    def __hash__(self) -> int:
        return self._number

    def __eq__(self, other: object) -> bool:
        return self is other


class RealDriver:
    """Stands for `engine.instance.Instance`: it adds, replaces and removes runners, and does what the instance's
    periodic threads do (desired states, the mirror of commits, topic ids)."""

    def __init__(self, seams: Seams) -> None:
        self._seams = seams
        self._desired = DesiredFake(seams)
        self._dispatcher = Dispatcher(
            seams.backend,  # type: ignore[arg-type]  # a double
            NOTHING,
            SESSION_TIMEOUT,
            clock=seams.clock,
            threads=seams.threads,
        )
        self._watcher = IdleWatcherFake(seams)
        self._store = StoreFake(seams.store)
        self.runners: list[PipelineRunner] = []
        self._stopping = False
        self._made = 0
        self._started = seams.threads.event()
        self.context = EngineContext(
            instance=seams.name,
            store=self._store,  # type: ignore[arg-type]  # a double
            desired=self._desired,  # type: ignore[arg-type]  # a double
            dispatcher=self._dispatcher,
            cluster=seams.cluster,  # type: ignore[arg-type]  # a double
            idle_watcher=self._watcher,  # type: ignore[arg-type]  # a double
            metrics=NOTHING,
            taps=NoTaps(),  # type: ignore[arg-type]  # a double
            session_timeout=SESSION_TIMEOUT,
            idle_policy=IdlePolicy(threads=seams.threads),
            clock=seams.clock,
            threads=seams.threads,
            group_consumer=self._group_consumer,  # type: ignore[arg-type]  # a double
        )

    def _group_consumer(self, client: object, group: str, listener: Any, **_: object) -> GroupConsumer:
        return self._seams.consumer(group, listener)

    def start(self) -> None:
        threads = self._seams.threads
        self._desired.refresh()
        self._dispatcher.start(LANES)
        threads.start("desired", self._refresh, owner="RealDriver", ends="never")
        threads.start("mirror", self._mirror, owner="RealDriver", ends="never")
        threads.start("topics", self._compare_topics, owner="RealDriver", ends="never")
        threads.start("idle-watcher", self._watcher.run, owner="RealDriver", ends="never")
        for model in self._seams.models.values():
            self._add(model)
        self._started.set()

    def _add(self, model: PipelineModel) -> None:
        blueprint = blueprint_of(model)
        self._made += 1
        runner = SimRunner(
            self._made,
            blueprint.spec,
            blueprint,
            self.context,
            pinned=model.kind == "deferred",
            crashed=SimCrashedEvents(self._seams, model),
        )
        self.runners = [*self.runners, runner]
        runner.start()

    def reload(self, pipeline: str) -> None:
        """As `Instance.add` replaces a pipeline: the old runner is asked to stop, waited for, and left behind if it
        takes too long."""
        self._started.wait()
        model = self._seams.models[pipeline]
        for runner in [runner for runner in self.runners if runner.name == pipeline]:
            self.runners = [other for other in self.runners if other is not runner]
            runner.stop()
            runner.wait_ended(model.drain_timeout + 1.0)
        if not self._stopping and not any(runner.name == pipeline for runner in self.runners):
            self._add(model)

    def stop(self) -> None:
        self._started.wait()
        self._stopping = True
        for runner in self.runners:
            runner.stop()
        end = self._seams.clock.monotonic() + STOP_TIMEOUT
        for runner in list(self.runners):
            runner.wait_ended(max(0.0, end - self._seams.clock.monotonic()))

    # -- what the instance's periodic threads do -------------------------------------------

    def _refresh(self) -> None:
        while True:
            self._seams.clock.sleep(0.5)
            self._desired.refresh()
            for runner in list(self.runners):
                runner.set_desired(self._desired.desired(runner.name))

    def _mirror(self) -> None:
        while True:
            self._seams.clock.sleep(2.0)
            for runner in list(self.runners):
                rows = runner.membership.mirror_rows()
                try:
                    self._store.offsets.mirror(rows)
                except Unavailable:
                    continue

    def _compare_topics(self) -> None:
        while True:
            self._seams.clock.sleep(5.0)
            for runner in list(self.runners):
                try:
                    ids = self._seams.cluster.topic_ids(self._seams.models[runner.name].topics)
                except Unavailable:
                    continue
                runner.membership.compare_topics(ids)


def real_driver(seams: Seams) -> RealDriver:
    """Makes the driver of one instance."""
    return RealDriver(seams)
