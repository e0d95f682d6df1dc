"""Bulk work on letters by a piece of text takes the same ones whichever way they are found."""

from __future__ import annotations

import random
from typing import Any

import pytest
import sqlalchemy as sa

from penstock.store import DeadLetterFilter, Store
from penstock.store.letters import finding
from penstock.store.letters.listing import Listing
from penstock.store.letters.model import DeadLetterStatus
from penstock.store.tables import dead_letters
from tests.behaviour.store.letters import failed_at, letter

FILTERS = {
    "one sign": DeadLetterFilter(error="%"),
    "two signs": DeadLetterFilter(text="ay"),
    "frequent": DeadLetterFilter(text="straw"),
    "rare": DeadLetterFilter(text="Needle"),
    "absent": DeadLetterFilter(error="no such text"),
    "with columns and times": DeadLetterFilter(text="straw", pipeline="b", stage="act", since=100, until=250),
    "with a status": DeadLetterFilter(error="%", status="parked"),
}
LETTERS = 300


@pytest.fixture(params=["soon", "late"])
def filled(work_store: Store, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Store:
    """What is asked first answers at once, or never does."""
    if request.param == "late":
        monkeypatch.setattr(finding, "within", lambda *_: None)
    luck = random.Random(3)
    work_store.dead_letters.record(
        [
            letter(
                number,
                pipeline=luck.choice("abc"),
                partition=luck.randrange(3),
                stage=luck.choice(("act", "decode")),
                error=luck.choice(("100 % full", "half full")),
                value=b"a needle" if number % 97 == 0 else luck.choice((b"hay", b"hay and straw")),
                **failed_at(number),
            )
            for number in range(LETTERS)
        ]
    )
    ids = [row.id for row in work_store.dead_letters.list(limit=LETTERS)]
    work_store.dead_letters.discard(ids[::7], by="test")
    _park(work_store, ids[1::7])
    return work_store


def _park(store: Store, ids: list[int]) -> None:
    taken = store.dead_letters.claim(ids, by="test", limit=LETTERS)
    failures = {each.id: each.letter.failure for each in taken}
    store.dead_letters.replay_failed(failures, by="test", max_replays=1, spec_version="v1")


def wanted(store: Store, which: DeadLetterFilter, *statuses: DeadLetterStatus) -> set[int]:
    """By looking at every letter."""
    found = set()
    for each in store.dead_letters.some([row.id for row in store.dead_letters.list(limit=LETTERS)]):
        row, (error, value) = each.row, (each.row.error.lower(), (each.letter.value or b"").decode())
        columns = all(getattr(which, name) in (None, getattr(row, name)) for name in ("pipeline", "stage", "status"))
        times = (which.since or 0) <= row.last_failed_at < (which.until or LETTERS)
        text = (which.text or "").lower()
        texts = (which.error or "") in error and (text in error or text in value)
        if columns and times and texts and row.status in (statuses or (row.status,)):
            found.add(each.id)
    return found


@pytest.mark.parametrize("name", FILTERS)
def test_counts_are_exact(filled: Store, name: str) -> None:
    which = FILTERS[name]
    assert filled.dead_letters.count(which) == len(wanted(filled, which))
    by_status = {status: len(wanted(filled, which, status)) for status in ("new", "parked", "discarded")}  # type: ignore[arg-type]  # mypy takes them for any text
    assert filled.dead_letters.counts_by_status(which) == {key: many for key, many in by_status.items() if many}


@pytest.mark.parametrize("name", FILTERS)
def test_a_replay_takes_what_its_plan_counts_in_order(filled: Store, name: str) -> None:
    which = FILTERS[name]
    there = wanted(filled, which, which.status or "new")
    plan = filled.dead_letters.claimable(which)
    assert sum(count.letters for count in plan) == len(there)
    taken: list[Any] = []
    while page := filled.dead_letters.claim(which, by="replay", limit=20, after=taken[-1].place if taken else None):
        taken += page
    assert [each.place for each in taken] == sorted(each.place for each in taken)
    assert len(taken) == len(there)
    assert {each.id for each in taken} == there


@pytest.mark.parametrize("name", FILTERS)
def test_a_discard_closes_what_its_plan_counts(filled: Store, name: str) -> None:
    which = FILTERS[name]
    there = wanted(filled, which, "new", "parked")
    assert sum(filled.dead_letters.discardable(which).values()) == len(there)
    closed = {row.id for row in filled.dead_letters.list(DeadLetterFilter(status="discarded"), limit=LETTERS)}
    assert filled.dead_letters.discard(which, by="test") == len(there)
    now = {row.id for row in filled.dead_letters.list(DeadLetterFilter(status="discarded"), limit=LETTERS)}
    assert now - closed == there


@pytest.mark.parametrize("closed", [7, 20], ids=["some of them", "all of them"])
def test_letters_that_were_closed_after_they_were_found_are_not_claimed(
    filled: Store, monkeypatch: pytest.MonkeyPatch, closed: int
) -> None:
    """Finding takes no locks: what somebody does meanwhile holds, and is not taken for the end of the list."""
    which = FILTERS["two signs"]
    there = sorted(wanted(filled, which, "new"))
    assert len(there) > 40
    find, gone = Listing.next_ids, list[int]()

    def slowly(self: Listing, connection: sa.Connection, *given: Any, **named: Any) -> list[int]:
        ids = find(self, connection, *given, **named)
        if not gone:
            gone.extend(ids[:closed])
            close = sa.update(dead_letters).where(dead_letters.c.id.in_(gone)).values(status="discarded")
            connection.execute(close)
        return ids

    monkeypatch.setattr(Listing, "next_ids", slowly)
    taken, after = list[int](), None
    while page := filled.dead_letters.claim(which, by="replay", limit=20, after=after):
        taken, after = taken + [each.id for each in page], page[-1].place
    assert len(gone) == closed
    assert sorted(taken + gone) == there
