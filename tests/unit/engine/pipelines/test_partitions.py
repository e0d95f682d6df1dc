"""Commits say what is finished: the offset, and beside it what is finished above it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.commit_metadata import Note, OpenRetry, decode, encode
from penstock.engine.pipelines.partitions import PartitionState

partitions = st.builds(
    lambda base, finished: (base, finished),
    st.integers(0, 2**40),
    st.lists(st.booleans(), max_size=200),
)


@given(partitions, st.text("abcXYZ-_/09", max_size=40))
def test_what_is_encoded_comes_back(partition: tuple[int, list[bool]], topic_id: str) -> None:
    base, finished = partition
    next_offset = base + len(finished)
    pending = tuple(base + i for i, done in enumerate(finished) if not done)
    position = min(pending, default=next_offset)

    note = decode(position, encode(topic_id, position, next_offset, pending))

    assert note.topic_id == topic_id
    found, open_ = note.next_offset, note.pending
    unfinished = {o for o in range(position, next_offset) if o in pending}
    # Holes with nothing finished above them need no place: they lie beyond the next_offset that comes back.
    assert set(open_) == {o for o in unfinished if o < found}
    assert all(o in pending for o in range(found, next_offset))


@given(st.lists(st.integers(0, 100_000), unique=True, min_size=1, max_size=3000))
def test_metadata_never_grows_beyond_what_brokers_take(offsets: list[int]) -> None:
    pending = tuple(sorted(offsets))
    own = PartitionState("orders", 0, 1, "topic-id", 200_000, pending)
    commit = own.commit()
    assert len(commit.metadata) <= 3_000
    assert commit.offset == pending[0]
    note = decode(commit.offset, commit.metadata)
    # I1: nothing unfinished may be taken for finished.
    assert not [o for o in pending if o < note.next_offset and o not in note.pending]
    assert note.next_offset > commit.offset, "what fits is remembered"


def test_a_commit_of_another_client_has_no_topic_id() -> None:
    for metadata in ("", "leader=7"):
        assert decode(42, metadata) == Note(None, 42)


retries = st.lists(
    st.builds(
        lambda offset, attempts, first, wait: OpenRetry(offset, attempts, first * 1000, (first + wait) * 1000),
        st.integers(50, 5_000),
        st.integers(1, 500),
        st.integers(1_700_000_000, 2_000_000_000),
        st.integers(0, 100_000),
    ),
    unique_by=lambda retry: retry.offset,
    max_size=400,
)


@given(retries)
def test_retries_come_back_as_far_as_they_fit(given_: list[OpenRetry]) -> None:
    offsets = sorted(retry.offset for retry in given_)
    metadata = encode("id", 50, 6_000, offsets or [50], given_)
    assert len(metadata) <= 3_000
    found = decode(50, metadata).retries
    assert list(found) == sorted(given_, key=lambda retry: retry.offset)[: len(found)]
    assert len(found) == len(given_) or len(metadata) > 2_900
