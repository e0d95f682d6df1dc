"""The loop that runs triggers: exactly the enabled ones, on every instance, each apart from the others."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from penstock.config.spec import PipelineSpec
from penstock.core.errors import ConfigError, Unavailable
from penstock.core.ids import new_id
from penstock.service.trigger_loop import TriggerLoop
from penstock.service.trigger_specs import pipeline_name
from penstock.store.store import Store
from penstock.store.work.model import TriggerRow, WorkflowRow
from tests.support.waiting import until

OBEYED_WITHIN = 2.0


class FakeRunner:
    """Pipelines that only know whether they run."""

    def __init__(self) -> None:
        self.running: dict[str, PipelineSpec] = {}
        self.begun: Counter[str] = Counter()
        self.rates: dict[str, float | None] = {}
        self.reasons: dict[str, str] = {}
        self.defects: dict[str, str] = {}
        self.broken: dict[str, Exception] = {}
        self.slow: dict[str, threading.Event] = {}

    def take(self, spec: PipelineSpec) -> None:
        if spec.name in self.broken:
            raise self.broken[spec.name]
        assert spec.name not in self.running
        self.running[spec.name] = spec
        self.begun[spec.name] += 1
        self.defects.pop(spec.name, None)

    def drop(self, name: str) -> None:
        if name in self.slow:
            assert self.slow[name].wait(10)
        del self.running[name]

    def limit_rate(self, name: str, rate: float | None) -> None:
        self.rates[name] = rate

    def defect(self, name: str) -> str | None:
        return self.defects.get(name)

    def refused(self, name: str, reason: str | None) -> None:
        self.reasons.pop(name, None)
        if reason is not None:
            self.reasons[name] = reason


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(f"sqlite:///{tmp_path / 'penstock.db'}") as opened:
        yield opened


@pytest.fixture
def workflow(store: Store) -> WorkflowRow:
    project = store.projects.save(new_id(), "p")
    return store.workflows.apply(WorkflowRow(id=new_id(), project_id=project.id, name="w"), {"steps": []}, "v1")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def runner() -> FakeRunner:
    return FakeRunner()


@pytest.fixture
def loop(store: Store, runner: FakeRunner, clock: Clock) -> Iterator[TriggerLoop]:
    made = TriggerLoop(store, compiled, runner, clock=clock)
    yield made
    made.stop(5)


def compiled(row: TriggerRow) -> PipelineSpec:
    if row.kafka_configuration.get("broken"):
        raise ConfigError(row.kafka_configuration["broken"])
    source = {"config": {"topics": row.kafka_configuration["topics"], "group": row.id, "format": "raw"}}
    return PipelineSpec.model_validate(
        {
            "name": pipeline_name(row.id),
            "source": source,
            "action": {"type": "work_order"},
            "options": {"rate_limit": row.options.get("rate")},
        }
    )


def save(store: Store, workflow: WorkflowRow, name: str = "k", *, enabled: bool = True, **given: Any) -> TriggerRow:
    config = {"topics": ["a"]} | given.pop("config", {})
    return store.triggers.save(
        TriggerRow(
            id=new_id(), workflow_id=workflow.id, name=name, enabled=enabled, kafka_configuration=config, options=given
        )
    )


def looked(loop: TriggerLoop) -> None:
    loop.look()
    loop.settle(10)
    loop.look()
    loop.settle(10)


def test_triggers_are_begun_and_ended_as_the_store_says(
    store: Store, workflow: WorkflowRow, loop: TriggerLoop, runner: FakeRunner
) -> None:
    one, other = save(store, workflow, "one"), save(store, workflow, "other", enabled=False)
    looked(loop)
    assert set(runner.running) == {pipeline_name(one.id)}

    store.triggers.set_enabled(other.id, True)
    store.triggers.set_enabled(one.id, False)
    looked(loop)
    assert set(runner.running) == {pipeline_name(other.id)}
    assert loop.running == {other.id}

    store.triggers.delete(other.id)
    looked(loop)
    assert not runner.running


def test_only_what_matters_begins_a_trigger_anew(
    store: Store, workflow: WorkflowRow, loop: TriggerLoop, runner: FakeRunner
) -> None:
    row = save(store, workflow)
    name = pipeline_name(row.id)
    looked(loop)

    save(store, workflow, rate=5.0)
    looked(loop)
    assert runner.begun[name] == 1
    assert runner.rates[name] == 5.0

    store.workflows.apply(workflow, {"steps": [1]}, "v2", delete_others=False)
    looked(loop)
    assert runner.begun[name] == 1

    save(store, workflow, config={"topics": ["b"]}, rate=5.0)
    looked(loop)
    assert runner.begun[name] == 2
    assert runner.running[name].source.config.topics == ["b"]


def test_a_trigger_that_cannot_begin_backs_off_alone(
    store: Store, workflow: WorkflowRow, loop: TriggerLoop, runner: FakeRunner, clock: Clock
) -> None:
    bad, good = save(store, workflow, "bad"), save(store, workflow, "good")
    name = pipeline_name(bad.id)
    runner.broken[name] = ConfigError("no such key file")
    tried = []
    for _ in range(40):
        before = runner.reasons.pop(name, None)
        looked(loop)
        if runner.reasons.get(name):
            tried.append(clock.now)
        elif before:
            runner.reasons[name] = before
        clock.now += 1
    gaps = [after - before for before, after in pairwise(tried)]
    assert gaps == [1, 2, 4, 8, 16]
    assert runner.begun[pipeline_name(good.id)] == 1

    del runner.broken[name]
    clock.now += 60
    looked(loop)
    assert name in runner.running
    assert name not in runner.reasons


def test_a_change_is_tried_at_once_whatever_went_before(
    store: Store, workflow: WorkflowRow, loop: TriggerLoop, runner: FakeRunner
) -> None:
    row = save(store, workflow)
    looked(loop)
    save(store, workflow, config={"broken": "its password is not there"})
    looked(loop)
    assert not runner.running
    assert runner.reasons == {pipeline_name(row.id): "its password is not there"}

    save(store, workflow)
    looked(loop)
    assert pipeline_name(row.id) in runner.running
    assert not runner.reasons


def test_one_that_fails_later_is_begun_again_ever_more_slowly(
    store: Store, workflow: WorkflowRow, loop: TriggerLoop, runner: FakeRunner, clock: Clock
) -> None:
    name = pipeline_name(save(store, workflow).id)
    looked(loop)
    waits = []
    for _ in range(4):
        runner.defects[name] = "it fell over"
        began, at = runner.begun[name], clock.now
        while runner.begun[name] == began:
            looked(loop)
            clock.now += 0.5
        waits.append(clock.now - at)
    assert waits == sorted(waits)
    assert waits[-1] > 4 * waits[0]


def test_a_trigger_that_takes_long_to_end_holds_up_no_other(
    store: Store, workflow: WorkflowRow, loop: TriggerLoop, runner: FakeRunner
) -> None:
    slow, quick = save(store, workflow, "slow"), save(store, workflow, "quick")
    looked(loop)
    gate = runner.slow[pipeline_name(slow.id)] = threading.Event()
    store.triggers.set_enabled(slow.id, False)
    store.triggers.set_enabled(quick.id, False)

    loop.look()
    until(lambda: pipeline_name(quick.id) not in runner.running, 5, "the quick one has ended")
    store.triggers.set_enabled(quick.id, True)

    def begun_again() -> bool:
        loop.look()
        return runner.begun[pipeline_name(quick.id)] == 2

    until(begun_again, 5, "the quick one has begun again")

    assert pipeline_name(slow.id) in runner.running
    gate.set()


def test_while_the_store_is_away_what_runs_goes_on(
    store: Store, workflow: WorkflowRow, loop: TriggerLoop, runner: FakeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = pipeline_name(save(store, workflow).id)
    looked(loop)

    def away() -> Any:
        raise Unavailable("the store does not answer")

    with monkeypatch.context() as patch:
        patch.setattr(store.triggers, "changes", away)
        looked(loop)
        assert name in runner.running
    with monkeypatch.context() as patch:
        patch.setattr(store.triggers, "get", lambda _id: away())
        save(store, workflow, config={"topics": ["b"]})
        looked(loop)
        assert runner.running[name].source.config.topics == ["a"]


def test_two_instances_run_exactly_the_enabled_ones(tmp_path: Path) -> None:
    url, chance = f"sqlite:///{tmp_path / 'penstock.db'}", random.Random(7)
    with Store.open(url) as store, Store.open(url) as second:
        project = store.projects.save(new_id(), "p")
        workflow = store.workflows.apply(WorkflowRow(id=new_id(), project_id=project.id, name="w"), {}, "v1")
        runners = [FakeRunner(), FakeRunner()]
        loops = [TriggerLoop(each, compiled, runner) for each, runner in zip((store, second), runners, strict=True)]
        for loop in loops:
            loop.start()
        names = [f"t{number}" for number in range(30)]
        for _ in range(120):
            name = chance.choice(names)
            known = {row.name: row for row in store.triggers.list()}
            what = chance.choice(("save", "save", "disable", "enable", "delete", "rate"))
            if what in ("save", "rate") or name not in known:
                topics = {"topics": [chance.choice("abc")]} if what == "save" else {}
                save(store, workflow, name, config=topics, rate=chance.choice((1.0, 2.0)))
            elif what == "delete":
                store.triggers.delete(known[name].id)
            else:
                store.triggers.set_enabled(known[name].id, what == "enable")
        wanted = {pipeline_name(row.id): row for row in store.triggers.list() if row.enabled}

        def as_wanted() -> bool:
            return all(
                runner.running.keys() == wanted.keys()
                and all(
                    runner.running[name].source.config.topics == row.kafka_configuration["topics"]
                    for name, row in wanted.items()
                )
                for runner in runners
            )

        until(as_wanted, OBEYED_WITHIN, "both run what is enabled")
        for loop in loops:
            loop.stop(5)
        assert wanted
