"""A tap takes a few events of each stage along with the unit, and nothing where nobody looks."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from penstock.config.spec import PipelineSpec
from penstock.core.clock import Clock
from penstock.core.event import Event, Record
from penstock.engine.pipelines.blueprint import blueprint_of
from penstock.pipeline.items import FailedItem, Item
from penstock.pipeline.messages import Assignment, Bounds, UnitOutcome, UnitRequest
from penstock.pipeline.samples import Allowance, Sample, Sampler, TapStage, TapWish
from penstock.worker.lane_process import LaneProcess
from penstock.worker.protocol import WindowRequest

ALL: tuple[TapStage, ...] = ("decode", "filter", "transform", "act")
STEPS = """
def act(event):
    if event.event["id"] == 3:
        raise ValueError("three, and the password is canary-77")


def change(event):
    if event.value["id"] == 4:
        raise ValueError("four")
    return event.replaced({"id": event.value["id"], "moved": event.value["card"]})
"""


def wish(samples: int, *stages: TapStage) -> TapWish:
    return dict.fromkeys(stages, Allowance(samples, 0))


def unit(folder: Path, values: list[bytes], tap: TapWish | None, *, retries: int = 1) -> UnitOutcome:
    """A whole unit over given records."""
    (folder / "steps.py").write_text(STEPS)
    spec = PipelineSpec.model_validate(
        {
            "name": "p",
            "source": {
                "config": {
                    "topics": ["t"],
                    "format": "json",
                    "connection": {"bootstrap": "127.0.0.1:1", "consumer_config": {"sasl.password": "canary-77"}},
                }
            },
            "filters": [{"type": "cel", "config": {"expression": "event.id > 1"}}],
            "transform": [{"type": "python", "config": {"callable": f"{folder}/steps.py:change"}}],
            "action": {"type": "python", "config": {"callable": f"{folder}/steps.py:act"}},
            "options": {"retry": {"attempts": retries, "backoff": "1h", "max_backoff": "1h"}},
        }
    )
    records = tuple(Record("t", 0, n, b"k", value, None, 1_700_000_000_000, 1) for n, value in enumerate(values))
    bounds = Bounds({("t", 0): len(records)}, records)
    request = UnitRequest(
        1, "p", 1, pickle.dumps(blueprint_of(spec)), [Assignment("t", 0, 1, 0)], 5.0, 1_000, bounds=bounds, tap=tap
    )
    (outcome,) = LaneProcess().run(WindowRequest("l", 5.0, [request], detach=False)).units
    return outcome


def values(count: int) -> list[bytes]:
    return [b'{"id": %d, "card": "4111"}' % n for n in range(count)]


def by_stage(samples: list[Sample]) -> dict[str, list[tuple[int, str]]]:
    found: dict[str, list[tuple[int, str]]] = {}
    for sample in samples:
        found.setdefault(sample.stage, []).append((sample.offset, sample.became))
    return found


def test_nobody_looks_and_nothing_is_taken(tmp_path: Path) -> None:
    outcome = unit(tmp_path, values(6), None)
    assert outcome.counts.acted == 2
    assert outcome.samples == []


def test_what_each_stage_made_of_events(tmp_path: Path) -> None:
    outcome = unit(tmp_path, [*values(6), b"no json"], wish(20, *ALL))
    found = by_stage(outcome.samples)
    assert found["decode"] == [(n, "passed") for n in range(6)] + [(6, "failed")]
    assert found["filter"] == [(0, "dropped"), (1, "dropped"), *((n, "passed") for n in (2, 3, 4, 5))]
    assert found["transform"] == [(2, "passed"), (3, "passed"), (4, "failed"), (5, "passed")]
    assert found["act"] == [(2, "acted"), (3, "failed"), (5, "acted")]
    one = {(sample.stage, sample.offset): sample for sample in outcome.samples}
    assert one["filter", 2].value == '{"id":2,"card":"4111"}'
    assert one["transform", 2].value == '{"id":2,"moved":"4111"}'
    assert (one["filter", 2].as_read, one["transform", 2].as_read, one["act", 2].as_read) == (True, False, False)
    assert (one["decode", 0].key, one["decode", 0].timestamp) == ("k", 1_700_000_000_000)
    assert "four" in str(one["transform", 4].why)
    assert "three" in str(one["act", 3].why)
    assert "canary-77" not in repr(outcome.samples), "I8"
    assert pickle.loads(pickle.dumps(outcome)).samples == outcome.samples  # noqa: S301 - our own


def test_only_the_stages_that_are_wanted(tmp_path: Path) -> None:
    assert set(by_stage(unit(tmp_path, values(6), wish(20, "act")).samples)) == {"act"}


def test_an_event_that_is_tried_again_later_waits(tmp_path: Path) -> None:
    outcome = unit(tmp_path, values(4), wish(20, "act"), retries=3)
    assert by_stage(outcome.samples) == {"act": [(2, "acted"), (3, "waiting")]}


def events(count: int, value: Any = None) -> list[Item]:
    return [Event(Record("t", 0, n, None, b"{}"), {"n": n} if value is None else value) for n in range(count)]


def test_samples_are_spread_over_a_batch_and_leave_room_for_later_ones() -> None:
    sampler = Sampler(wish(10, "act"), str, transforms=False)
    sampler.handed(events(1_000))
    assert [sample.offset // 200 for sample in sampler.samples] == [0, 1, 2, 3, 4]
    for _ in range(50):
        sampler.handed(events(1_000))
    assert len(sampler.samples) == 10
    assert {sample.offset % 200 for sample in sampler.samples} != {0}, "a fixed step would meet every second event only"
    few = Sampler(wish(10, "act"), str, transforms=False)
    few.handed(events(7))
    assert [sample.offset for sample in few.samples] == list(range(7))


def test_a_unit_takes_more_samples_the_longer_it_lasts() -> None:
    now = 100.0
    sampler = Sampler({"act": Allowance(0.5, 50.0)}, str, transforms=False, clock=Clock(monotonic=lambda: now))
    per_batch = []
    for _ in range(200):
        now += 0.01
        had = len(sampler.samples)
        sampler.handed(events(2_000))
        per_batch.append(len(sampler.samples) - had)
    assert sum(per_batch) == pytest.approx(100, abs=1), "two seconds"
    assert max(per_batch) == 1, "evenly"


@pytest.mark.parametrize("kept", [range(0), range(0, 1_000, 100), range(0, 1_000, 2), range(1_000)])
def test_what_a_filter_dropped_is_told_from_what_it_passed(kept: range) -> None:
    sampler = Sampler(wish(1_000, "filter"), str, transforms=False)
    batch = events(1_000)
    sampler.stepped("filter", 0, batch, [batch[place] for place in kept])
    assert [sample.offset for sample in sampler.samples if sample.became == "passed"] == list(kept)
    assert sum(sample.became == "dropped" for sample in sampler.samples) == 1_000 - len(kept)


def test_an_event_is_known_again_after_a_transform_that_made_its_record_anew() -> None:
    sampler = Sampler(wish(10, "transform"), str, transforms=True)
    sampler.stepped("transform", 0, events(3), [Event(Record("t", 0, 2), {"anew": True})])
    assert [(sample.became, sample.value) for sample in sampler.samples][1:] == [
        ("dropped", '{"n":1}'),
        ("passed", '{"anew":true}'),
    ]


def test_large_values_are_cut_and_very_large_ones_left_out() -> None:
    sampler = Sampler(wish(1_000, "act"), str, transforms=False)
    sampler.handed(events(1, "x" * 50_000))
    huge = Event(Record("t", 0, 0, None, b"x" * 300_000), {})
    sampler.handed([huge])
    first, second = sampler.samples
    assert first.is_cut
    assert len(first.value or "") == 16_000
    assert (second.value, second.why) == (None, "too large to be shown: 300,000 bytes")
    for _ in range(20):
        sampler.handed(events(30, "x" * 50_000))
    assert sum(len(sample.value or "") for sample in sampler.samples) < 2_500_000


class _Odd:
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"no {name}")

    def __str__(self) -> str:
        raise RuntimeError("not even this")


@pytest.mark.parametrize("odd", [_Odd(), float("nan"), {1: object()}, b"\xff"], ids=["raises", "nan", "object", "raw"])
def test_whatever_a_value_is_the_unit_goes_on(odd: Any) -> None:
    sampler = Sampler(wish(10, "act", "filter"), str, transforms=False)
    item = Event(Record("t", 0, 0), odd)
    own = Event(Record("t", 0, 1))
    own.event = odd
    sampler.handed([item, own, FailedItem(item.record, "filter", ValueError("x"))])
    sampler.stepped("filter", 0, [item, own], [own])
    assert [sample.became for sample in sampler.samples] == ["acted", "acted", "dropped", "passed"]
