"""Where a partition begins, from what is known about it."""

from __future__ import annotations

import pytest

from penstock.core.commit_metadata import encode
from penstock.engine.pipelines.positions import Remembered, find

AT = ("orders", 3)


def commit(
    offset: int, topic_id: str = "a", next_offset: int | None = None, pending: tuple[int, ...] = ()
) -> Remembered:
    return Remembered(offset, encode(topic_id, offset, next_offset or offset, pending))


@pytest.mark.parametrize(
    ("committed", "mirrored", "next_offset", "new", "kind"),
    [
        (commit(50), None, 50, False, None),
        (Remembered(50, ""), None, 50, False, None),
        (commit(50, "b"), None, 10, True, "recreated"),
        (commit(5), None, 10, True, "gap"),
        (None, commit(60), 60, True, "mirror"),
        (None, commit(60, "b"), 10, True, "recreated"),
        (None, None, 99, True, None),
    ],
)
def test_the_position_follows_commit_then_mirror_then_policy(
    committed: Remembered | None, mirrored: Remembered | None, *, next_offset: int, new: bool, kind: str | None
) -> None:
    found = find(AT, topic_id="a", committed=committed, mirrored=mirrored, bounds=(10, 100), policy_offset=99)
    assert (found.next_offset, found.commit) == (next_offset, new)
    assert (found.note[0] if found.note else None) == kind
    assert found.blocked is None


def test_an_offset_beyond_the_end_is_read_by_nobody() -> None:
    found = find(AT, topic_id="a", committed=commit(101), mirrored=None, bounds=(10, 100), policy_offset=99)
    assert found.blocked is not None
    assert "orders/3" in found.blocked
    assert not found.commit


def test_holes_of_a_commit_are_taken_up_and_those_below_the_log_are_a_gap() -> None:
    kept = commit(5, next_offset=60, pending=(5, 30, 40))
    found = find(AT, topic_id="a", committed=kept, mirrored=None, bounds=(10, 100), policy_offset=99)
    assert (found.next_offset, found.pending, found.gap) == (60, (30, 40), (5, 10))


def test_damaged_commit_metadata_repeats_from_the_committed_offset_and_says_so() -> None:
    kept = commit(50, next_offset=60, pending=(50, 55))
    damaged = Remembered(50, kept.metadata[:-1] + "z")
    found = find(AT, topic_id="a", committed=damaged, mirrored=None, bounds=(10, 100), policy_offset=99)
    assert (found.next_offset, found.pending, found.commit) == (50, (), False)
    assert found.note is not None
    assert found.note[0] == "metadata"
    assert "orders/3" in found.note[1]
    assert "checksum" in found.note[1]
