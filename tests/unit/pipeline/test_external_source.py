"""A worker with a source of the user's own: what it reads, what it acknowledges, and when."""

from __future__ import annotations

import pickle
import sys
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.config.spec import PipelineSpec
from penstock.datahub import imports
from penstock.kafka.client import KafkaClientConfig
from penstock.pipeline.accounting import check_account
from penstock.pipeline.messages import Assignment, Blueprint, Bounds, UnitOutcome, UnitRequest
from penstock.worker.lane_process import LaneProcess
from penstock.worker.protocol import WindowRequest

imports.install()

from datahub_actions.action.action import Action  # noqa: E402 - served by the finder
from datahub_actions.event.event import Event  # noqa: E402 - as above
from datahub_actions.event.event_envelope import EventEnvelope  # noqa: E402 - as above
from datahub_actions.source.event_source import EventSource  # noqa: E402 - as above

FIRST = 1_000


class Note(Event):  # type: ignore[misc]  # the finder's modules have no types
    """An event of the user's own class, which no registry knows."""

    def __init__(self, text: str) -> None:
        self.text = text

    @classmethod
    def from_json(cls, json_str: str) -> Note:
        return cls(json_str)

    def as_json(self) -> str:
        return f'"{self.text}"'


class Source(EventSource):  # type: ignore[misc]  # as above
    """Gives what the test puts into it."""

    made: list[Source] = []  # noqa: RUF012 - the test's way to the object

    def __init__(self, script: list[Any]) -> None:
        self.script, self.said = script, []  # type: list[Any], list[tuple[str, str]]

    @classmethod
    def create(cls, config_dict: dict[str, Any], ctx: Any) -> Source:
        cls.made.append(cls(list(config_dict["script"])))
        return cls.made[-1]

    def events(self) -> Iterator[EventEnvelope]:
        for word in self.script:
            if word == "broken":
                raise ValueError("secret-word is wrong")
            if word == "away":
                raise ConnectionError("nobody answers")
            if word == "waits":
                while not self.stop_requested():
                    time.sleep(0.01)
                return
            if word == "wrong":
                yield "no envelope"
            yield EventEnvelope("Note_v1", Note(word), {})
        self.said.append(("ended", ""))

    def ack(self, event: EventEnvelope, processed: bool = True) -> None:  # noqa: FBT001 - DataHub's signature
        self.said.append(("ack" if processed else "later", event.event.text))

    def close(self) -> None:
        self.said.append(("closed", ""))

    @property
    def acked(self) -> list[str]:
        return [text for word, text in self.said if word == "ack"]


class Doing(Action):  # type: ignore[misc]  # as above
    """Does what an event says."""

    made: list[Doing] = []  # noqa: RUF012 - as above

    def __init__(self, ctx: Any) -> None:
        self.ctx, self.seen, self.kept = ctx, [], []  # type: Any, list[str], list[Any]

    @classmethod
    def create(cls, config_dict: dict[str, Any], ctx: Any) -> Doing:
        assert isinstance(ctx.event_source, Source) or len(cls.made) == 1, "only a replay has none"
        cls.made.append(cls(ctx))
        return cls.made[-1]

    def act(self, event: EventEnvelope) -> bool | None:
        text = getattr(event.event, "text", None) or event.event.value
        self.seen.append(text)
        if text.startswith("bad"):
            raise ValueError(text)
        if text.startswith("keep"):
            self.kept.append(event)
            return False
        if text.startswith("early"):
            # Acknowledged by another thread before `act` returns.
            self.ctx.event_source.ack(event)
            return False
        return None

    def close(self) -> None:
        for event in self.kept:
            self.ctx.event_source.ack(event)


@pytest.fixture(autouse=True)
def module() -> Iterator[None]:
    """The classes above, where a pipeline finds them."""
    here = types.ModuleType("foreign_test_plugins")
    here.Source, here.Doing = Source, Doing  # type: ignore[attr-defined]  # a module is what one makes of it
    sys.modules[here.__name__] = here
    Source.made, Doing.made = [], []
    yield
    del sys.modules[here.__name__]


class Driver:
    """Sends windows to a worker, checks what comes back, and settles it where `settle`."""

    def __init__(self, script: list[str], tmp_path: Path, **options: Any) -> None:
        spec = PipelineSpec.model_validate(
            {
                "name": "p",
                "source": {"type": "foreign_test_plugins:Source", "config": {"script": script, "token": "secret-word"}},
                "action": {"type": "foreign_test_plugins:Doing"},
                "options": options,
            }
        )
        made = Blueprint(spec, KafkaClientConfig.of(spec.source.config.connection), None, str(tmp_path / "deaths"))
        self.blueprint = pickle.dumps(made)
        self.at = Assignment(spec.source.type, 0, 1, FIRST)
        self.lane = LaneProcess()
        self.units = 0

    def window(self, seconds: float = 0.5, *, settle: bool = True) -> UnitOutcome:
        self.units += 1
        unit = UnitRequest(self.units, "p", 1, self.blueprint, [self.at], seconds, 1_000)
        (outcome,) = self.lane.run(WindowRequest("l", seconds, [unit], detach=True)).units
        for part in outcome.partitions:
            assert check_account(self.at, part, [failed.record.offset() for failed in outcome.failures]) is None
        if settle and outcome.partitions:
            (part,) = outcome.partitions
            self.at = Assignment(part.topic, part.partition, 1, part.next_offset, part.pending, part.retries)
        return outcome

    def close(self) -> None:
        unit = UnitRequest(99, "p", 1, b"", [self.at], 5.0, 0, closing=True)
        self.lane.run(WindowRequest("l", 5.0, [unit], detach=True))


def test_each_event_is_acknowledged_when_it_and_all_before_it_are_settled(tmp_path: Path) -> None:
    driver = Driver(["a", "bad 1", "b", "keep", "c", "waits"], tmp_path)
    outcome = driver.window(settle=False)
    source = Source.made[0]
    assert [failed.record.value() for failed in outcome.failures] == [
        b'{ "event_type": "Note_v1", "event": "bad 1", "meta": {} }'
    ]
    assert source.said == [("ack", "a"), ("later", "keep")], "the failure is not durable yet"
    driver.at = Assignment(driver.at.topic, 0, 1, outcome.partitions[0].next_offset, outcome.partitions[0].pending)
    driver.window(0.2)
    assert source.acked == ["a", "bad 1", "b"]
    driver.close()
    assert source.acked == ["a", "bad 1", "b", "keep", "c"], "what `close` acknowledges still reaches the source"
    assert source.said[-1] == ("closed", "")
    assert Doing.made[0].seen == ["a", "bad 1", "b", "keep", "c"]


def test_an_acknowledgement_before_act_returns_counts(tmp_path: Path) -> None:
    driver = Driver(["early 1", "a", "waits"], tmp_path)
    outcome = driver.window()
    assert Source.made[0].acked == ["early 1", "a"]
    assert outcome.partitions[0].pending == ()
    driver.close()


def test_a_source_that_ends_says_so_when_all_of_it_is_finished(tmp_path: Path) -> None:
    driver = Driver(["a", "bad 1"], tmp_path, retry={"attempts": 2, "backoff": "300ms", "jitter": 0})
    assert not driver.window(0.2).ended, "a retry is to come"
    time.sleep(0.15)
    outcome = driver.window()
    assert outcome.ended
    assert len(outcome.failures) == 1
    driver.close()
    assert Source.made[0].acked == ["a", "bad 1"]


@pytest.mark.parametrize(
    ("script", "kind", "words"),
    [
        (["a", "bad 1", "broken"], "build", "its source raised ValueError: ******** is wrong"),
        (["a", "bad 1", "away"], "error", "its source raised ConnectionError: nobody answers"),
        (["a", "bad 1", "wrong"], "build", "events() gave str"),
    ],
)
def test_a_source_that_breaks_stops_its_unit(tmp_path: Path, script: list[str], kind: str, words: str) -> None:
    driver = Driver(script, tmp_path)
    outcome = driver.window()
    assert outcome.halt is not None
    assert (outcome.halt.kind, outcome.ended) == (kind, False)
    assert words in outcome.halt.reason
    assert len(outcome.failures) == 1, "what failed before is settled all the same"
    driver.close()
    assert Source.made[0].acked == ["a", "bad 1"]


def test_a_dead_letter_is_replayed_without_the_source(tmp_path: Path) -> None:
    driver = Driver(["bad 1", "waits"], tmp_path)
    (failed,) = driver.window().failures
    driver.close()
    key = (driver.at.topic, 0)
    bounds = Bounds({key: failed.record.offset() + 1}, (failed.record,))
    assignment = Assignment(*key, 1, failed.record.offset())
    unit = UnitRequest(7, "p", 2, driver.blueprint, [assignment], 1.0, 10, bounds=bounds)
    (outcome,) = LaneProcess().run(WindowRequest("l", 1.0, [unit], detach=True)).units
    assert len(Source.made) == 1, "no second source was made"
    (again,) = outcome.failures
    assert (again.record, again.failure.error) == (failed.record, "bad 1")
    assert Doing.made[1].seen == ["bad 1"]


def test_an_event_that_killed_twice_is_not_worked_on(tmp_path: Path) -> None:
    for _ in range(2):
        driver = Driver(["a", "deadly", "waits"], tmp_path)
        driver.window(0.2)
        # The process dies here: nobody closes anything. What it was at is in the file.
        held = driver.lane._pipelines["p", 1].external
        assert held is not None
        held._deaths.begin(b'{ "event_type": "Note_v1", "event": "deadly", "meta": {} }')
    driver = Driver(["a", "deadly", "b", "waits"], tmp_path)
    outcome = driver.window()
    assert [failed.failure.stage for failed in outcome.failures] == ["crash"]
    assert Doing.made[-1].seen == ["a", "b"]
    driver.close()
    assert Source.made[-1].acked == ["a", "deadly", "b"]
