"""DataHub's `Pipeline` made of objects, or with a source of the user's own: a plain loop with its rules."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from datahub_actions.action.action import Action
from datahub_actions.filter.filter import Filter
from datahub_actions.source.event_source import EventSource
from datahub_actions.transform.transformer import Transformer

from penstock.core.errors import PenstockError
from penstock.datahub import events
from penstock.datahub.envelope import EventEnvelope
from penstock.datahub.manager import PipelineManager
from penstock.datahub.pipeline_config import FailureMode
from penstock.service.library import Pipeline, PipelineException
from tests.support.waiting import until


def change(number: int, category: str = "TAG") -> EventEnvelope:
    event = events.EntityChangeEvent(
        entityType="dataset",
        entityUrn=f"urn:li:dataset:{number}",
        category=category,
        operation="ADD",
        auditStamp=events.AuditStampClass(time=1, actor="urn:li:corpuser:user1"),
        version=0,
    )
    return EventEnvelope(events.ENTITY_CHANGE_EVENT_V1_TYPE, event, {"number": number})  # type: ignore[arg-type]


class Source(EventSource):
    """Gives what it was given; with `on`, goes on until it is asked to stop."""

    made: ClassVar[list[Source]] = []

    def __init__(self, given: list[EventEnvelope], *, on: bool = False) -> None:
        self.given, self.on = given, on
        self.asked = threading.Event()
        self.log: list[Any] = []
        self.filters: list[Any] | None = None

    @classmethod
    def create(cls, config_dict: dict[str, Any], ctx: Any) -> Source:
        source = cls([change(number) for number in range(config_dict["count"])])
        cls.made.append(source)
        return source

    def events(self) -> Iterator[EventEnvelope]:
        yield from self.given
        if self.on:
            self.asked.wait(30)

    def request_stop(self) -> None:
        super().request_stop()
        self.asked.set()

    def set_filters(self, filters: list[Any]) -> None:
        self.filters = filters

    def ack(self, event: EventEnvelope, processed: bool = True) -> None:  # noqa: FBT001 - DataHub's signature
        if event.meta.get("number") == 99:
            raise RuntimeError("no")
        self.log.append((event.meta["number"], processed))

    def close(self) -> None:
        self.log.append("closed")


class Step(Filter, Transformer, Action):
    """Does what the functions say that it was given."""

    def __init__(self, do: Any = lambda event: None) -> None:
        self.do = do
        self.seen: list[EventEnvelope] = []

    @classmethod
    def create(cls, config_dict: dict[str, Any], ctx: Any) -> Step:
        return cls()

    def matches(self, event: EventEnvelope) -> bool:
        return bool(self.do(event))

    def transform(self, event: EventEnvelope) -> EventEnvelope | None:
        result: EventEnvelope | None = self.do(event)
        return result

    def act(self, event: EventEnvelope) -> bool | None:
        self.seen.append(event)
        result: bool | None = self.do(event)
        return result

    def close(self) -> None:
        self.seen = []


def test_filters_transformers_and_action_in_order_each_acknowledged(tmp_path: Path) -> None:
    source = Source([change(0), change(1, "DOMAIN"), change(2), change(3), change(99)])
    action = Step(lambda event: False if event.meta["number"] == 3 else None)
    pipeline = Pipeline(
        "mine",
        source,
        [Step(lambda event: event.event.category == "TAG")],
        [Step(lambda event: None if event.meta["number"] == 2 else event)],
        action,
        failed_events_dir=str(tmp_path),
    )
    pipeline.run()
    assert [event.meta["number"] for event in action.seen] == [0, 3, 99]
    assert action.seen[0] is source.given[0]
    assert source.log == [(0, True), (1, True), (2, True), (3, False)]
    stats = json.loads(pipeline.stats().as_string())
    assert stats.pop("started_at") > 0
    assert stats == {
        "failed_event_count": 0,
        "failed_ack_count": 1,
        "success_count": 4,
        "filter_stats": {"Step": {"processed_count": 5, "filtered_count": 1, "exception_count": 0}},
        "transformer_stats": {"Step": {"processed_count": 4, "filtered_count": 1, "exception_count": 0}},
        "action_stats": {"success_count": 3, "exception_count": 0},
    }
    pipeline.close()
    pipeline.close()
    assert source.log[-1] == "closed"
    assert source.log.count("closed") == 1


def test_attempts_begin_from_an_unchanged_copy_and_failures_are_kept(tmp_path: Path) -> None:
    def spoil(event: EventEnvelope) -> None:
        assert "spoiled" not in event.meta
        event.meta["spoiled"] = True
        raise RuntimeError("not now")

    source, action = Source([change(0), change(1)]), Step(spoil)
    Pipeline("My Pipe.1", source, [], [], action, 2, FailureMode.CONTINUE, str(tmp_path)).run()
    assert len(action.seen) == 6
    assert source.log == [(0, True), (1, True)]
    lines = (tmp_path / "my_pipe_1" / "failed_events.log").read_text().splitlines()
    assert [EventEnvelope.from_json(line).meta["number"] for line in lines] == [0, 1]

    source = Source([change(0), change(1)])
    pipeline = Pipeline("mine", source, [], [], Step(spoil), None, FailureMode.THROW, str(tmp_path))
    with pytest.raises(PipelineException):
        pipeline.run()
    assert source.log == []
    assert pipeline.stats().failed_event_count == 1


def test_a_pipeline_of_a_config_with_built_in_steps_and_a_source_of_the_users_own(tmp_path: Path) -> None:
    config: dict[str, Any] = {
        "name": "mine",
        "source": {"type": f"{__name__}:Source", "config": {"count": 3}},
        "filters": [
            {"type": "event_type", "config": {"filter": {"EntityChangeEvent_v1": {"event": [{"category": "TAG"}]}}}}
        ],
        "filter": {"event_type": "EntityChangeEvent_v1", "event": {"entityUrn": ["urn:li:dataset:1"]}},
        "action": {"type": f"{__name__}:Step"},
        "options": {"retry_count": 1, "failure_mode": "throw", "failed_events_dir": str(tmp_path)},
    }
    pipeline = Pipeline.create(config)
    pipeline.run()
    assert [event.meta["number"] for event in pipeline.action.seen] == [1]
    [source] = Source.made
    assert len(source.filters or ()) == 1
    assert source.log == [(0, True), (1, True), (2, True)]
    assert json.loads(pipeline.stats().as_string())["transformer_stats"] == {
        "FilterTransformer": {"processed_count": 3, "filtered_count": 2, "exception_count": 0}
    }
    with pytest.raises(PipelineException, match="disabled"):
        Pipeline.create(config | {"enabled": "no"})
    with pytest.raises(PenstockError, match="nobody"):
        Pipeline.create(config | {"action": {"type": "nobody"}})
    with pytest.raises(ValueError, match="transfrom"):
        Pipeline.create(config | {"transfrom": []})


def test_a_manager_runs_pipelines_in_threads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def fail(event: EventEnvelope) -> None:
        raise RuntimeError("no")

    manager = PipelineManager()
    source = Source([change(0)], on=True)
    good = Pipeline("good", source, [], [], Step(), failed_events_dir=str(tmp_path))
    bad = Pipeline("bad", Source([change(0)]), [], [], Step(fail), 0, FailureMode.THROW, str(tmp_path))
    manager.start_pipeline("good", good)
    manager.start_pipeline("bad", bad)
    with pytest.raises(RuntimeError, match="running already"):
        manager.start_pipeline("good", good)
    until(lambda: manager.has_failed_pipelines() and source.log == [(0, True)], 10, lambda: source.log)
    assert manager.has_running_pipelines()
    manager.stop_pipeline("good")
    assert source.log == [(0, True), "closed"]
    assert '"success_count": 1' in capsys.readouterr().out
    with pytest.raises(KeyError, match="good"):
        manager.stop_pipeline("good")
    manager.stop_all()
    assert manager.pipeline_registry == {}
    with pytest.raises(RuntimeError, match="being stopped"):
        manager.start_pipeline("late", good)
