"""Letters of some pipelines are one list, and one count, wherever their letters lie among those of others."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from penstock.store import DeadLetterFilter, Store
from penstock.store.letters import merging, walking
from penstock.store.letters.model import DeadLetterRow
from tests.behaviour.store.letters import failed_at, letter

MINE = tuple(f"mine-{number}" for number in range(12))
LETTERS = 400
FILTERS = {
    "all": DeadLetterFilter(),
    "status": DeadLetterFilter(status="discarded"),
    "stage": DeadLetterFilter(stage="decode"),
    "stage, status": DeadLetterFilter(stage="decode", status="new"),
    "fingerprint": DeadLetterFilter(fingerprint="f3"),
    "topic, partition": DeadLetterFilter(topic="t-1", partition=2),
    "times": DeadLetterFilter(since=30, until=110),
    "error": DeadLetterFilter(error="odd"),
    "text, stage": DeadLetterFilter(text="NEEDLE", stage="act"),
    "nothing": DeadLetterFilter(error="no such text"),
}


@pytest.fixture
def filled(work_store: Store) -> Store:
    """Most letters are of one of mine, some of mine have none, or only old ones; many failed at the same moment."""
    luck = random.Random(8)
    made = []
    for number in range(LETTERS):
        names = ("other", "mine-0", "mine-0", "mine-0", f"mine-{luck.randrange(1, 6)}")
        name = f"mine-{luck.randrange(6, 9)}" if number < 40 else luck.choice(names)
        made.append(
            letter(
                number,
                pipeline=name,
                topic=f"t-{luck.randrange(3)}",
                partition=luck.randrange(4),
                stage=luck.choice(("act", "act", "decode")),
                fingerprint=f"f{luck.randrange(5)}",
                error=luck.choice(("odd", "even")),
                value=luck.choice((b"hay", b"hay", b"a needle")),
                **failed_at(number // 3),
            )
        )
    work_store.dead_letters.record(made)
    some = [row.id for row in work_store.dead_letters.list(limit=LETTERS)][::5]
    work_store.dead_letters.discard(some, by="test")
    return work_store


@pytest.fixture
def slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few letters at a time, so that a small store is a large one."""
    monkeypatch.setattr(walking, "_FIRST", 7)
    monkeypatch.setattr(walking, "_FEWEST", 3)
    monkeypatch.setattr(merging, "_AT_ONCE", 5)


def mine_of(store: Store, which: DeadLetterFilter) -> list[DeadLetterRow]:
    return [row for row in store.dead_letters.list(which, limit=LETTERS) if row.pipeline in MINE]


def followed(store: Store, which: DeadLetterFilter, *, limit: int, seconds: float) -> list[DeadLetterRow]:
    """All pages of a list, by their `next`."""
    found: list[DeadLetterRow] = []
    before = None
    for _ in range(2 * LETTERS):
        page = store.dead_letters.page(which, limit=limit, before=before, seconds=seconds)
        assert len(page.rows) <= limit
        found += page.rows
        before = page.next
        if before is None:
            return found
    raise AssertionError("the list has no end")


@pytest.mark.usefixtures("slowly")
@pytest.mark.parametrize("name", FILTERS)
def test_who_follows_a_list_to_its_end_sees_each_letter_once(filled: Store, name: str) -> None:
    wanted = mine_of(filled, FILTERS[name])
    which = replace(FILTERS[name], pipelines=MINE)
    for limit, seconds in ((1, 9.0), (10, 9.0), (10, 0.0), (1000, 0.0), (1000, 9.0)):
        assert followed(filled, which, limit=limit, seconds=seconds) == wanted


@pytest.mark.parametrize("name", FILTERS)
def test_facets_count_letters_of_these_pipelines_only(filled: Store, name: str) -> None:
    wanted = mine_of(filled, FILTERS[name])
    found = filled.dead_letters.facets(replace(FILTERS[name], pipelines=MINE), seconds=9.0)
    assert (found.letters, found.complete) == (len(wanted), True)
    assert found.counts["pipeline"] == Counter(row.pipeline for row in wanted)
    assert sum(group.letters for group in found.errors) == len(wanted)


def test_letters_of_no_pipeline_are_none(filled: Store) -> None:
    nobodys = DeadLetterFilter(pipelines=())
    assert filled.dead_letters.page(nobodys) == ([], None)
    assert filled.dead_letters.facets(nobodys).letters == 0
    assert filled.dead_letters.count(nobodys) == 0


def test_counts_and_claims_keep_to_these_pipelines(filled: Store) -> None:
    which = DeadLetterFilter(pipelines=("mine-0", "mine-7"), status="new")
    wanted = [row for row in mine_of(filled, DeadLetterFilter(status="new")) if row.pipeline in ("mine-0", "mine-7")]
    assert filled.dead_letters.count(which) == len(wanted)
    claimed = filled.dead_letters.claim(which, by="test", limit=LETTERS)
    assert sorted(each.id for each in claimed) == sorted(row.id for row in wanted)


def test_only_pipelines_with_letters_to_show_are_read_further(filled: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """What lies far behind a page costs nothing, however many pipelines there are."""
    read: list[tuple[set[str], int]] = []
    ask = merging.Merge._read

    def noted(merge: merging.Merge, names: list[str], deep: int) -> None:
        read.append((set(names), deep))
        ask(merge, names, deep)

    monkeypatch.setattr(merging.Merge, "_read", noted)
    page = filled.dead_letters.page(DeadLetterFilter(pipelines=MINE), limit=10)
    assert [row.id for row in page.rows] == [row.id for row in mine_of(filled, DeadLetterFilter())[:10]]
    assert read[0] == (set(MINE), 2)
    assert all("mine-0" in names and names.isdisjoint(MINE[6:]) for names, _ in read[1:])
    assert all(deep <= 11 for _, deep in read)
