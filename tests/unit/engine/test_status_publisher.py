"""What an instance tells the store: the pipelines it has, and no others; and that it cannot, when it cannot."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from penstock.config.settings import Settings
from penstock.core.metrics import Metrics
from penstock.engine.pipelines.runner import PipelineRunner
from penstock.engine.status_publisher import StatusPublisher
from penstock.store import StateRow, Store
from penstock.store.errors import StoreUnavailable
from tests.support.waiting import until


@dataclass
class Here:
    """An instance without Spark."""

    store: Store
    id: str = "here"
    settings: Settings = field(default_factory=Settings)
    metrics: Metrics = field(default_factory=Metrics)
    runners: list[PipelineRunner] = field(default_factory=list)
    invalid: list[StateRow] = field(default_factory=list)

    def bad(self, *names: str) -> None:
        self.invalid = [StateRow(pipeline=name, instance=self.id, state="invalid", reason="line 3") for name in names]


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Here]:
    with Store.open(f"sqlite:///{tmp_path / 'store.db'}") as store:
        yield Here(store)


class Hanging:
    """Stands in for a call of the store, and answers nobody until it is let go."""

    def __init__(self) -> None:
        self.asked, self.answer = threading.Event(), threading.Event()

    def __call__(self, _rows: Any) -> None:
        self.asked.set()
        self.answer.wait(60)


def told(here: Here) -> list[str]:
    return [row.pipeline for row in here.store.pipelines.states() if row.instance == here.id]


def test_what_an_instance_has_no_more_is_forgotten(here: Here) -> None:
    here.store.pipelines.put_state("a", "elsewhere", "running")
    publisher = StatusPublisher(here, "1", None)
    here.bad("a", "b")
    publisher.publish()
    assert told(here) == ["a", "b"]
    here.bad("b")
    publisher.publish()
    assert told(here) == ["b"]
    assert len(here.store.pipelines.states()) == 2, "what another instance says stays"
    here.bad("b", "a")
    publisher.publish()
    assert told(here) == ["a", "b"], "it may come back"


def test_a_store_that_is_away_is_a_trouble_until_it_is_back(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    publisher = StatusPublisher(here, "1", None)
    here.bad("a")

    def away(_rows: Any) -> None:
        raise StoreUnavailable("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(here.store.pipelines, "put_states", away)
        publisher.publish()
    assert publisher.trouble == "no answer"
    publisher.publish()
    assert publisher.trouble is None
    assert told(here) == ["a"]


def test_a_store_that_hangs_is_a_trouble_before_it_fails(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    """A frozen server refuses nothing: its clients wait for much longer than a probe does."""
    publisher = StatusPublisher(here, "1", None, patience=0.05)
    here.bad("a")
    hang = Hanging()
    monkeypatch.setattr(here.store.pipelines, "put_states", hang)
    writing = threading.Thread(target=publisher.publish)
    writing.start()
    assert hang.asked.wait(60)
    until(lambda: "no answer for" in (publisher.trouble or ""), 60, lambda: "the store's silence is noticed")
    hang.answer.set()
    writing.join(60)
    assert publisher.trouble is None


def test_every_transaction_of_the_store_is_told(here: Here) -> None:
    seen: list[str] = []
    here.store.database.observe = lambda operation, seconds: seen.append(operation) if seconds >= 0 else None
    here.store.ping()
    here.store.pipelines.put_state("a", "one", "idle")
    assert seen == ["read", "write"]


def test_a_stop_tells_the_store_and_does_not_wait_for_one_that_hangs(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher = StatusPublisher(here, "1", None, every=0.01)
    here.bad("a")
    publisher.start()
    until(lambda: here.store.instances.alive(60), 60, "the instance is known")
    publisher.stop()
    assert here.store.instances.alive(60) == []

    hang = Hanging()
    monkeypatch.setattr(here.store.pipelines, "put_states", hang)
    hung = StatusPublisher(here, "1", None, every=0.01, stop_within=0.05)
    hung.start()
    assert hang.asked.wait(60)
    hung.stop()
    assert hung.is_alive, "it was not waited for"
    hang.answer.set()
    until(lambda: not hung.is_alive, 60, "the loop to end")
