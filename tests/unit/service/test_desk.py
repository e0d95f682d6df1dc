"""What is shown of pipelines, and how fresh it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from penstock.config.settings import Settings
from penstock.core.clock import Clock
from penstock.engine.pipelines.stats import PipelineView
from penstock.service.access import NotFound, system_actor
from penstock.service.operations import desk as desks
from penstock.service.operations.desk import Desk
from penstock.store import Store
from tests.behaviour.store.letters import letter
from tests.support.waiting import until


@dataclass
class Flow:
    name: str
    spec: Any = None


class Instance:
    """As much of an instance as the desk asks for."""

    def __init__(self) -> None:
        self.runners: list[Flow] = []

    def snapshot(self) -> list[PipelineView]:
        return [PipelineView(name=flow.name, state="starting", reason=None) for flow in self.runners]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(f"sqlite:///{tmp_path}/store.db") as store:
        yield store


def test_a_pipeline_that_has_just_begun_here_is_known(store: Store) -> None:
    instance = Instance()
    desk = Desk(store, Settings(), lambda: instance)  # type: ignore[arg-type, return-value]  # a part of one
    someone = system_actor("tests")
    with pytest.raises(NotFound):
        desk.pipeline(someone, "pipelines.view", "orders")
    instance.runners.append(Flow("orders"))
    desk.pipeline(someone, "pipelines.view", "orders")
    assert desk.snapshot().status("orders").state == "starting"


def test_letters_are_counted_again_while_the_last_counts_are_shown(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(desks, "SYSTEM", Clock(monotonic=lambda: now[0]))
    desk = Desk(store, Settings())

    def shown() -> int:
        now[0] += desks.FRESH
        return desk.snapshot().status("orders").dead_letters

    store.dead_letters.record([letter(1)])
    assert shown() == 1
    store.dead_letters.record([letter(2)])
    assert shown() == 1
    now[0] += 5
    assert shown() == 1, "nobody waits for the count"
    until(lambda: shown() == 2, 10, "the letters are counted again")
    store.dead_letters.record([letter(3)])
    now[0] += 60
    assert shown() == 3, "old counts are not shown"
