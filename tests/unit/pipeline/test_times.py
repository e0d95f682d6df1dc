"""How long stages and calls take is added up per batch, and comes with the unit."""

from __future__ import annotations

import pickle
import time
from typing import Any

import pytest

from penstock.config.spec import PipelineSpec
from penstock.core.event import Event, Record
from penstock.core.latency import Times, TimesByName
from penstock.core.plugin import PipelineContext
from penstock.kafka.registry.call_times import CALLS
from penstock.kafka.registry.client import Registry, RegistryUnavailable, UnknownSchema
from penstock.kafka.registry.dialects import DialectRegistry
from penstock.pipeline.chain import Chain
from tests.support.ports import free_port
from tests.unit.pipeline.test_executors import items, run, ways


def test_times_are_added_merged_and_sent() -> None:
    times = Times()
    times.add(0.004, 4)
    times.add(0.5)
    other = Times()
    other.merge(pickle.loads(pickle.dumps(times)))  # noqa: S301 - our own
    assert (other.total, other.seconds) == (5, pytest.approx(0.504))
    assert other.quantile(0.5) == pytest.approx(1.0, rel=0.25)
    assert other.quantile(1.0) == pytest.approx(500.0, rel=0.25)
    assert Times().quantile(0.5) is None


def test_nothing_is_counted_for_nothing() -> None:
    named = TimesByName()
    named.add("act", 1.0, 0)
    assert named.take() == {}


@pytest.mark.parametrize("way", ["serial", "batches", "threads", "loop"])
@pytest.mark.parametrize("slow", [0.0, 0.002])
def test_acts_are_timed(way: str, slow: float) -> None:
    def act(event: Event) -> None:
        time.sleep(slow)

    executor = ways(act)[way]
    run(executor, items(20, keys=5))
    times = executor.chain.times.take()
    assert times["act"].total == 20
    assert times["act"].seconds >= 20 * slow
    assert executor.chain.times.take() == {}


@pytest.mark.parametrize("way", ["serial", "batches", "threads", "loop"])
@pytest.mark.parametrize("count", [3, 500])
def test_latencies_stand_for_every_event_that_was_acted_on(way: str, count: int) -> None:
    """Few clocks are read, and none for what failed."""

    def act(event: Event) -> None:
        if event.record.offset() % 10 == 9:
            raise ValueError("no")

    fed: list[Any] = [Event(Record("t", 0, i, b"k", b"{}", None, 1, 1), {}, "t") for i in range(count)]
    result, _ = run(ways(act)[way], fed)
    result.end()
    assert result.acted == count - count // 10
    assert result.latencies.total == result.acted


def test_the_steps_before_the_action_are_timed() -> None:
    spec = PipelineSpec.model_validate(
        {
            "name": "p",
            "source": {"config": {"topics": ["t"], "format": "json"}},
            "filters": [{"type": "cel", "config": {"expression": "event.id > 1"}}],
            "action": {"type": "hello_world"},
        }
    )
    chain = Chain.build(spec, PipelineContext("p", folder=None, source=spec.source.config))
    records: list[Any] = [Record("t", 0, i, None, b'{"id": %d}' % i) for i in range(4)]
    assert len(chain.prepare(records)) == 2
    assert {stage: times.total for stage, times in chain.times.take().items()} == {"decode": 4, "filter": 4}


def test_calls_of_registries_are_counted_by_what_came_of_them() -> None:
    CALLS.take()
    mock = Registry("mock://times")
    with pytest.raises(UnknownSchema):
        mock.schema(404)
    assert mock.check() == 0
    gone = DialectRegistry(f"http://127.0.0.1:{free_port()}", "gobblin", timeout=1.0)
    with pytest.raises(RegistryUnavailable):
        gone.schema(1)
    assert {outcome: times.total for outcome, times in CALLS.take().items()} == {"unknown": 1, "ok": 1, "error": 1}
