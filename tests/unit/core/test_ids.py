"""Ids grow with time, and a time says where among them its own begin."""

from __future__ import annotations

import time
import uuid

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.ids import first_id, ids_at, new_id, new_ids, time_of

micros = st.integers(0, (1 << 48) - 1)


def test_ids_of_a_process_grow_and_are_version_7() -> None:
    ids = [*new_ids(1_000), new_id(), *new_ids(3)]
    assert ids == sorted(set(ids))
    assert {uuid.UUID(one).version for one in ids} == {7}
    assert abs(time_of(ids[0]) - time.time_ns() // 1_000) < 60_000_000


@given(micros, st.integers(1, 50))
def test_an_id_says_its_time_and_lies_behind_the_first_of_it(at: int, count: int) -> None:
    ids = ids_at(at, count)
    assert [time_of(one) for one in ids] == list(range(at, at + count))
    assert first_id(at) <= ids[0] < first_id(at + 1)
