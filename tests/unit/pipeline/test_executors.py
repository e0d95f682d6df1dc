"""Ways to run an action: what is finished, failed, deferred or left over, and in which order."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from typing import Any

import pytest

from penstock.config.spec import BreakerSpec, PipelineSpec
from penstock.core.deadline import Deadline
from penstock.core.errors import Unavailable
from penstock.core.event import Event, Record
from penstock.pipeline.breaker import Breaker
from penstock.pipeline.chain import Chain
from penstock.pipeline.executors.batch import BatchExecutor
from penstock.pipeline.executors.executor import ActionExecutor
from penstock.pipeline.executors.keyed import KeyedAsyncExecutor, KeyedThreadExecutor
from penstock.pipeline.executors.serial import SerialExecutor
from penstock.pipeline.items import FailedItem, Item
from penstock.pipeline.unit_result import UnitResult

SPEC = {"source": {"config": {"topics": ["t"]}}, "action": {"type": "hello_world"}}


def spec(**options: Any) -> PipelineSpec:
    return PipelineSpec.model_validate({"name": "p", "options": options} | SPEC)


def items(count: int, keys: int = 1) -> list[Item]:
    return [Event(Record("t", 0, i, str(i % keys).encode(), b"{}"), {"id": i}, "t") for i in range(count)]


class Acts:
    def __init__(self, act: Any) -> None:
        self.act = act


class ActsOnBatches:
    def __init__(self, act_batch: Any) -> None:
        self.act_batch = act_batch


def chain(action: Any) -> Chain:
    return Chain(None, [], action)  # type: ignore[arg-type]  # nothing is decoded here


def run(
    executor: ActionExecutor, fed: list[Item], *, seconds: float = 5.0, throw: bool = False
) -> tuple[UnitResult, list[int]]:
    result = UnitResult(lambda text: text, throw=throw)
    executor.begin(result, Deadline.after(seconds))
    executor.feed(fed)
    rest = executor.finish()
    executor.close()
    return result, [item.record.offset() for item in rest]


def ways(act: Any) -> dict[str, ActionExecutor]:
    async def act_async(event: Event) -> Any:
        await asyncio.sleep(0)
        return act(event)

    def act_batch(events: list[Event]) -> list[Any]:
        results = []
        for event in events:
            try:
                results.append(act(event))
            except Exception as error:  # noqa: BLE001 - a result like any other
                results.append(error)
        return results

    return {
        "serial": SerialExecutor(chain(Acts(act)), spec()),
        "batches": BatchExecutor(chain(ActsOnBatches(act_batch)), spec()),
        "threads": KeyedThreadExecutor(chain(Acts(act)), spec(concurrency=8)),
        "loop": KeyedAsyncExecutor(chain(Acts(act_async)), spec(concurrency=8)),
    }


@pytest.mark.parametrize("way", ["serial", "batches", "threads", "loop"])
def test_every_way_counts_alike(way: str) -> None:
    def act(event: Event) -> Any:
        match event.value["id"] % 5:
            case 0:
                raise ValueError(event.value["id"])
            case 1:
                return True
            case 2:
                return False
            case 3:
                return "nonsense"
        return None

    executor = ways(act)[way]
    fed = items(50, keys=7)
    fed[3] = FailedItem(fed[3].record, "decode", ValueError("bytes"))
    result, rest = run(executor, fed)
    assert rest == []
    assert result.acted == 20, "what is deferred is acted on when it is acknowledged"
    stages = [failed.failure.stage for failed in result.failures]
    assert (stages.count("act"), stages.count("decode")) == (19, 1)
    assert sorted(offset for _, _, offset in executor.deferred) == [i for i in range(50) if i % 5 == 2]


@pytest.mark.parametrize("way", ["serial", "batches", "threads", "loop"])
def test_an_outage_fails_nothing_and_leaves_the_event(way: str) -> None:
    def act(event: Event) -> None:
        if event.value["id"] == 5:
            raise Unavailable("the target is away")

    result, rest = run(ways(act)[way], items(10))
    assert result.failures == []
    assert result.halt is not None
    assert result.halt.kind == "outage"
    # F13: a batch was sent as a whole, and what went well behind the outage is done.
    assert rest == ([5] if way == "batches" else [5, 6, 7, 8, 9])


@pytest.mark.parametrize("way", ["serial", "threads", "loop"])
def test_throw_stops_at_the_event(way: str) -> None:
    def act(event: Event) -> None:
        if event.value["id"] == 5:
            raise ValueError("no")

    result, rest = run(ways(act)[way], items(10), throw=True)
    assert [failed.record.offset() for failed in result.failures] == [5]
    assert result.halt is not None
    assert result.halt.kind == "throw"
    assert rest == [5, 6, 7, 8, 9]


@pytest.mark.parametrize("way", ["serial", "threads", "loop"])
def test_nothing_begins_after_the_deadline_and_what_is_left_keeps_its_order(way: str) -> None:
    begun: list[float] = []

    def act(_: Event) -> None:
        begun.append(time.monotonic())
        time.sleep(0.05)

    deadline = time.monotonic() + 0.3
    result, rest = run(ways(act)[way], items(100), seconds=0.3)
    assert all(at <= deadline + 0.01 for at in begun)
    assert rest == list(range(result.acted, 100))
    assert 0 < result.acted < 100


@pytest.mark.parametrize("way", ["threads", "loop"])
def test_each_ordering_key_stays_in_order_and_several_are_acted_on_at_once(way: str) -> None:
    seen: dict[bytes | None, list[int]] = {}
    running, most, lock = 0, 0, threading.Lock()

    def enter() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)

    def leave(event: Event) -> None:
        nonlocal running
        with lock:
            running -= 1
            seen.setdefault(event.key, []).append(event.value["id"])

    def act(event: Event) -> None:
        enter()
        time.sleep(random.random() * 0.01)
        leave(event)

    async def act_async(event: Event) -> None:
        enter()
        await asyncio.sleep(random.random() * 0.01)
        leave(event)

    keyed: ActionExecutor = (
        KeyedThreadExecutor(chain(Acts(act)), spec(concurrency=8))
        if way == "threads"
        else KeyedAsyncExecutor(chain(Acts(act_async)), spec(concurrency=8))
    )
    result, rest = run(keyed, items(300, keys=20), seconds=30)
    assert (result.acted, rest) == (300, [])
    assert seen == {str(k).encode(): list(range(k, 300, 20)) for k in range(20)}
    assert 2 <= most <= 8


def test_a_batch_that_gives_too_few_results_fails_its_events_clearly() -> None:
    result, rest = run(BatchExecutor(chain(ActsOnBatches(lambda _: [None])), spec()), items(3))
    assert rest == []
    assert {failed.failure.error for failed in result.failures} == {
        "act_batch returned 1 results for 3 events (return one result per event, in order)"
    }


def test_deferred_events_count_for_the_breaker() -> None:
    """One in ten fails, the others are acknowledged later: the failures are not all that the breaker sees."""

    def act(event: Event) -> Any:
        if event.value["id"] % 10 == 7:
            raise ValueError("poison")
        return False

    result = UnitResult(lambda text: text, throw=False, breaker=Breaker(BreakerSpec(ratio=0.5, window=20)))
    executor = SerialExecutor(chain(Acts(act)), spec())
    executor.begin(result, Deadline.after(5.0))
    executor.feed(items(500))
    executor.finish()
    executor.close()
    assert len(result.failures) == 50
    assert result.halt is None
