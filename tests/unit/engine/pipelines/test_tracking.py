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
        """A worker dies: what it had finished is finished, and the tracker learns nothing of it (L1)."""
        next_offset = min(TOTAL, self.own.next_offset + ahead)
        open_ = {*self.own.pending, *range(self.own.next_offset, next_offset)}
        self.finished |= open_ & chosen
        suspects = [range(offset, offset + 1) for offset in sorted(open_)[:2]]
        self.own.suspect(suspects, isolated=False, stage="crash", reason="killed")

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


def died(own: PartitionState, *suspects: range, isolated: bool = False) -> None:
    own.suspect(list(suspects), isolated=isolated, stage="crash", reason="killed")


def test_the_event_that_kills_again_when_run_alone_is_the_poison_event() -> None:
    own = PartitionState("t", 0, 1, "id", 10)
    died(own, range(12, 13), range(14, 15))
    assert own.isolation is not None
    assert own.poison is None
    assert own.position == 10, "a death moves nothing"
    died(own, range(14, 15), isolated=True)
    assert own.poison is not None
    assert own.poison.offset == 14


def test_an_event_that_dies_alone_for_the_first_time_is_suspected_only() -> None:
    own = PartitionState("t", 0, 1, "id", 10)
    died(own, range(12, 13))
    died(own, range(11, 12), isolated=True)
    assert own.poison is None
    died(own, range(11, 12), isolated=True)
    assert own.poison is not None


def test_a_dead_lettered_poison_event_is_passed_and_what_lies_before_it_stays_open() -> None:
    own = PartitionState("t", 0, 1, "id", 10)
    died(own, range(12, 13))
    died(own, range(12, 13), isolated=True)
    assert own.finish_poison(12)
    assert (own.next_offset, own.pending) == (13, (10, 11))
    assert own.position == 10


def test_f15_a_gap_of_millions_of_offsets_is_not_enumerated() -> None:
    own = PartitionState("t", 0, 1, "id", 10)
    far = 50_000_000
    died(own, range(far, far + 1))
    died(own, range(far, far + 1), isolated=True)
    assert not own.finish_poison(far)
    assert own.isolated_limits() == (1, far), "the events before it are taken one by one"
    own.advance(PartitionOutcome("t", 0, 1, 11))
    died(own, range(far, far + 1), isolated=True)
    assert own.finish_poison(far)
    assert (own.next_offset, own.pending) == (far + 1, ())


def test_what_lies_before_a_suspect_is_finished_first_and_the_suspect_runs_by_itself() -> None:
    own = PartitionState("t", 0, 1, "id", 10)
    died(own, range(14, 15), range(20, 30))
    assert own.isolated_limits()[1] == 14
    own.advance(PartitionOutcome("t", 0, 1, 14))
    assert own.isolated_limits() == (1, None)
    own.advance(PartitionOutcome("t", 0, 1, 15))
    assert own.isolated_limits()[1] == 20
    own.advance(PartitionOutcome("t", 0, 1, 20))
    assert own.isolated_limits() == (10, None)


def test_isolation_ends_behind_the_suspects() -> None:
    own = PartitionState("t", 0, 1, "id", 10)
    died(own, range(10, 20))
    own.advance(PartitionOutcome("t", 0, 1, 15))
    assert own.isolation is not None
    own.advance(PartitionOutcome("t", 0, 1, 20))
    assert own.isolation is None


def test_where_no_log_names_it_the_poison_event_is_found_by_halving() -> None:
    own, deaths, poison = PartitionState("t", 0, 1, "id", 0), 0, 700
    while own.poison is None:
        isolated = own.isolation is not None
        batch = range(own.position, own.position + (own.isolated_limits()[0] if isolated else 100_000))
        if poison in batch:
            deaths += 1
            own.suspect(None, isolated=isolated, stage="crash", reason="killed")
        else:
            own.advance(PartitionOutcome("t", 0, 1, batch.stop, ()))
    assert own.poison.offset == poison
    assert deaths <= 12
