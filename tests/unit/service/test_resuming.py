"""Enabling a trigger: nothing is asked where the group knows its place, and somebody is where it does not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.config.spec import PipelineSpec
from penstock.core.errors import ConfigError, Unavailable
from penstock.core.ids import new_id
from penstock.service import resuming
from penstock.service.cursors import set_cursors
from penstock.service.offsets import Target
from penstock.service.opening import opened_in_time
from penstock.service.resuming import OffsetsGone, enable
from penstock.store import MirrorRow, Store
from penstock.store.work.model import TriggerRow, WorkflowRow


class FakeCluster:
    """One topic with one partition of ten records."""

    def __init__(self) -> None:
        self.offset: int | None = None
        self.away = False

    def topics(self) -> dict[str, int]:
        if self.away:
            raise Unavailable("no broker answers")
        return {"t": 1}

    def committed(self, _group: str, places: list[Any]) -> dict[Any, Any]:
        return dict.fromkeys(places, (self.offset, None))

    def watermarks(self, places: list[Any]) -> dict[Any, tuple[int, int]]:
        return dict.fromkeys(places, (0, 10))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(f"sqlite:///{tmp_path / 'penstock.db'}") as opened:
        yield opened


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    made = FakeCluster()
    monkeypatch.setattr(resuming, "cluster_of", lambda _spec: made)
    return made


@pytest.fixture
def targets(monkeypatch: pytest.MonkeyPatch) -> list[Target]:
    """Where offsets were set to."""
    seen: list[Target] = []

    def reset(_store: Store, _cluster: object, _spec: PipelineSpec, target: Target, *, reapply: bool) -> list[Any]:
        assert reapply
        seen.append(target)
        return []

    monkeypatch.setattr(resuming, "reset_offsets", reset)
    return seen


def saved(store: Store, **options: Any) -> TriggerRow:
    project = store.projects.save(new_id(), "p")
    workflow = store.workflows.apply(WorkflowRow(id=new_id(), project_id=project.id, name="w"), {}, "v1")
    return store.triggers.save(TriggerRow(id=new_id(), workflow_id=workflow.id, name="k", options=options))


@pytest.fixture
def spec(store: Store, tmp_path: Path) -> PipelineSpec:
    assert store.is_local
    source = {"config": {"topics": ["t"], "group": "g"}}
    action = {"type": "work_order", "config": {"url": f"sqlite:///{tmp_path / 'penstock.db'}"}}
    return PipelineSpec.model_validate({"name": "trigger-x", "source": source, "action": action})


def remember(store: Store, offset: int) -> None:
    store.offsets.mirror([MirrorRow(group="g", topic="t", topic_id="id", partition=0, offset=offset)])


def test_a_group_that_knows_its_place_goes_on(store: Store, cluster: FakeCluster, spec: PipelineSpec) -> None:
    cluster.offset = 4
    remember(store, 4)

    assert enable(store, spec, saved(store)).trigger.enabled


def test_one_that_never_ran_begins_as_its_policy_says(store: Store, cluster: FakeCluster, spec: PipelineSpec) -> None:
    assert cluster.offset is None
    assert enable(store, spec, saved(store)).trigger.enabled


@pytest.mark.parametrize("options", [{}, {"taken_over": True}])
def test_somebody_is_asked_where_the_offsets_are_gone(
    store: Store, cluster: FakeCluster, targets: list[Target], spec: PipelineSpec, options: dict[str, Any]
) -> None:
    row = saved(store, **options)
    if not options:
        remember(store, 4)

    with pytest.raises(OffsetsGone) as error:
        enable(store, spec, row)

    assert not store.triggers.list()[0].enabled
    said = "\n".join(error.value.allowed)  # type: ignore[arg-type]  # a list, here
    assert "earliest: reads 10 messages that are still there" in said
    assert ("committed: goes on where the store remembers, 6 messages before the end" in said) == (not options)
    assert enable(store, spec, row, "2026-01-01T00:00:00Z").trigger.enabled
    assert targets == [Target("time", 1_767_225_600_000)]
    assert cluster.offset is None


def test_the_cursor_counts_where_the_mirror_is_behind(
    store: Store, cluster: FakeCluster, targets: list[Target], spec: PipelineSpec
) -> None:
    row = saved(store)
    remember(store, 4)
    set_cursors(spec, {("t", 0): 7}, {"t": "id"})

    with pytest.raises(OffsetsGone) as error:
        enable(store, spec, row)
    assert "3 messages before the end" in str(error.value.allowed)
    assert enable(store, spec, row, "committed").trigger.enabled
    assert not targets
    assert cluster.offset is None


def test_what_nobody_remembers_cannot_be_gone_on_with(
    store: Store, cluster: FakeCluster, targets: list[Target], spec: PipelineSpec
) -> None:
    row = saved(store)
    with pytest.raises(OffsetsGone, match="neither the broker nor the store"):
        enable(store, spec, row, "committed")
    with pytest.raises(ConfigError, match="or committed"):
        enable(store, spec, row, "yesterday")
    assert enable(store, spec, row, "latest").trigger.enabled
    assert targets == [Target("latest")]
    assert cluster.offset is None


def test_a_broker_that_is_away_is_a_warning(store: Store, cluster: FakeCluster, spec: PipelineSpec) -> None:
    cluster.away = True
    row = saved(store)

    done = enable(store, spec, row)
    assert done.trigger.enabled
    assert "no broker answers" in done.warnings[0]
    with pytest.raises(Unavailable):
        enable(store, spec, row, "committed")


def test_a_store_that_is_away_at_the_start_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[Any] = [Unavailable("away"), Unavailable("away"), "store"]

    def opened(_settings: object) -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    class Never:
        def wait(self, _seconds: float) -> bool:
            return False

    monkeypatch.setattr("penstock.service.opening.opened_for_writing", opened)
    settings: Any = None
    stop: Any = Never()
    opened_now: Any = opened_in_time(settings, stop)
    assert opened_now == "store"
    answers[:] = [Unavailable("away")]
    with pytest.raises(Unavailable):
        opened_in_time(settings, None)
