"""The offset tracker: whatever order events finish in, and whatever dies, nothing unfinished is ever passed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.commit_metadata import decode
from penstock.engine.pipelines.partitions import PartitionState
from penstock.pipeline.messages import PartitionOutcome

TOTAL = 120

steps = st.lists(
    st.tuples(
        st.sampled_from(["unit", "death", "restart"]),
        st.integers(0, 30),
        st.sets(st.integers(0, TOTAL - 1), max_size=40),
    ),
    max_size=25,
)


class World:
    """What really happened, beside what the tracker believes."""

    def __init__(self) -> None:
        self.finished: set[int] = set()
        self.own = PartitionState("t", 0, 1, "id", 0)

    def unit(self, ahead: int, chosen: set[int]) -> None:
        """A unit reads on and finishes some of what is open."""
        next_offset = min(TOTAL, self.own.next_offset + ahead)
        open_ = {*self.own.pending, *range(self.own.next_offset, next_offset)}
        self.finished |= open_ & chosen
        pending = tuple(sorted(open_ - chosen))
        self.own.advance(PartitionOutcome("t", 0, 1, next_offset, pending))

    def death(self, ahead: int, chosen: set[int]) -> None:
        """A worker dies: it had finished some, and nothing of that counts (L1)."""
        next_offset = min(TOTAL, self.own.next_offset + ahead)
        open_ = {*self.own.pending, *range(self.own.next_offset, next_offset)}
        self.finished |= open_ & chosen
        self.own.suspect(open_ - chosen, noted=True)
        self.own.killer = None

    def restart(self) -> None:
        """All that is left is the commit."""
        commit = self.own.commit()
        note = decode(commit.offset, commit.metadata)
        assert note.topic_id == "id"
        self.own = PartitionState("t", 0, 2, "id", note.next_offset, note.pending)


@given(steps)
def test_what_is_not_finished_stays_open_and_the_commit_never_goes_back(
    history: list[tuple[str, int, set[int]]],
) -> None:
    world = World()
    committed = 0
    for what, ahead, chosen in history:
        if what == "unit":
            world.unit(ahead, chosen)
        elif what == "death":
            world.death(ahead, chosen)
        else:
            world.restart()
        commit = world.own.commit()
        # I1 and I2.
        assert set(range(commit.offset)) <= world.finished
        assert commit.offset >= committed
        committed = commit.offset
        open_ = {offset for offset in range(TOTAL) if world.own.is_open(offset)}
        assert {offset for offset in range(TOTAL) if offset not in world.finished} <= open_
    world.unit(TOTAL, set(range(TOTAL)))
    assert world.own.position == TOTAL
    assert world.finished == set(range(TOTAL))


def test_the_event_that_kills_alone_is_the_killer() -> None:
    own = PartitionState("t", 0, 1, "id", 10)
    own.suspect({12, 14}, noted=True)
    assert own.careful
    assert own.killer is None
    own.suspect({14}, noted=True)
    assert own.killer == 14


def test_where_no_journal_names_it_the_killer_is_found_by_halving() -> None:
    own, deaths, killer = PartitionState("t", 0, 1, "id", 0), 0, 700
    while own.killer is None:
        batch = range(own.position, own.position + (own.few or 100_000))
        if killer in batch:
            deaths += 1
            own.suspect((), noted=False)
            own.unit = None
        else:
            own.advance(PartitionOutcome("t", 0, 1, batch.stop, ()))
    assert own.killer == killer
    assert deaths <= 12
