"""Letters are claimed once the store answers."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.engine.replay.background import Claiming
from penstock.store import ClaimedLetter, DeadLetterFilter, Store, database
from tests.behaviour.store.letters import letter
from tests.support.waiting import until


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def store(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.1)
    with Store.open(f"sqlite:///{path}") as opened:
        opened.dead_letters.record([letter(n) for n in range(3)])
        yield opened


class Claimed:
    """A claiming that begins on a thread of its own, while somebody else holds the store's lock."""

    def __init__(self, store: Store, path: Path) -> None:
        self.stop, self.notes, self.letters = threading.Event(), list[str | None](), list[ClaimedLetter]()
        self._other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._other.execute("BEGIN IMMEDIATE")
        which = DeadLetterFilter(pipeline="orders")
        self.claiming = Claiming(
            store.dead_letters, which, "r", wanted=lambda: True, take_in=self.letters.extend, say=self.notes.append
        )
        self._beginning = threading.Thread(target=self.claiming.begin, args=(self.stop,))
        self._beginning.start()
        until(lambda: self.notes, 20, "it waits for the store")

    def answer(self) -> None:
        self._other.execute("ROLLBACK")
        self._other.close()

    def begun(self) -> None:
        self._beginning.join(20)
        assert not self._beginning.is_alive()
        self.claiming.end(0)


def test_i06_a_replay_that_begins_while_the_store_is_away_waits_for_it(store: Store, path: Path) -> None:
    claimed = Claimed(store, path)
    assert "does not answer" in (claimed.notes[0] or "")
    claimed.answer()
    claimed.begun()
    assert [each.place.offset for each in claimed.letters] == [0, 1, 2]
    assert claimed.notes[-1] is None


def test_a_replay_that_is_stopped_before_it_could_begin_takes_nothing(store: Store, path: Path) -> None:
    claimed = Claimed(store, path)
    claimed.stop.set()
    claimed.begun()
    assert (claimed.letters, claimed.claiming.complete) == ([], True)
    claimed.answer()
    assert store.dead_letters.counts_by_status() == {"new": 3}
