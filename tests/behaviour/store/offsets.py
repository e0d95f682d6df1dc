"""How the last commits of groups are mirrored."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
import sqlalchemy as sa

from penstock.store import FirstStart, MirrorRow, Store, StoreRowUnreadable


def commit(offset: int, *, group: str = "g", topic: str = "t", partition: int = 0, **others: str) -> MirrorRow:
    return MirrorRow(group=group, topic=topic, partition=partition, offset=offset, **({"topic_id": "id-1"} | others))


class OffsetsBehaviour:
    def test_commits_are_mirrored_per_group(self, store: Store) -> None:
        rows = [commit(5, metadata="m"), commit(7, partition=1), commit(9, topic="u")]
        store.offsets.mirror([*rows, commit(1, group="other")])
        assert store.offsets.mirrored("g") == {(row.topic, row.partition): row for row in rows}
        assert store.offsets.mirrored("nobody") == {}

    def test_i02_a_mirrored_offset_never_goes_back(self, store: Store) -> None:
        store.offsets.mirror([commit(5)])
        store.offsets.mirror([commit(4, metadata="late"), commit(1, partition=1)])
        assert store.offsets.mirrored("g") == {("t", 0): commit(5), ("t", 1): commit(1, partition=1)}

    def test_the_same_offset_may_bring_new_metadata(self, store: Store) -> None:
        store.offsets.mirror([commit(5)])
        store.offsets.mirror([commit(5, metadata="done above")])
        assert store.offsets.mirrored("g")["t", 0].metadata == "done above"

    def test_a_reset_may_go_back(self, store: Store) -> None:
        store.offsets.mirror([commit(5)])
        store.offsets.mirror([commit(2)], force=True)
        assert store.offsets.mirrored("g") == {("t", 0): commit(2)}

    def test_a_topic_made_anew_begins_anew(self, store: Store) -> None:
        store.offsets.mirror([commit(5)])
        store.offsets.mirror([commit(0, topic_id="id-2")])
        assert store.offsets.mirrored("g") == {("t", 0): commit(0, topic_id="id-2")}

    def test_of_two_commits_in_one_call_the_last_counts(self, store: Store) -> None:
        store.offsets.mirror([commit(5), commit(6)])
        store.offsets.mirror([])
        assert store.offsets.mirrored("g") == {("t", 0): commit(6)}

    def test_a_mirrored_offset_that_is_none_is_an_error_and_not_a_missing_commit(self, store: Store) -> None:
        store.offsets.mirror([commit(5), commit(7, partition=1)])
        with store.database.write() as connection:
            connection.execute(sa.text('UPDATE penstock_mirrored_offsets SET "offset" = -2 WHERE partition = 1'))
        with pytest.raises(StoreRowUnreadable, match="penstock_mirrored_offsets, row g, t/1: column offset holds -2"):
            store.offsets.mirrored("g")


class FirstStartsBehaviour:
    def test_every_later_start_gets_what_the_first_one_has_recorded(self, store: Store) -> None:
        first = store.offsets.first_start("g", {"id-1": 4, "id-2": 1}, 1_000)
        assert first == {"id-1": FirstStart(4, 1_000), "id-2": FirstStart(1, 1_000)}
        assert store.offsets.first_start("g", {"id-1": 8, "id-3": 2}, 2_000) == first
        assert store.offsets.first_start("other", {"id-1": 8}, 2_000) == {"id-1": FirstStart(8, 2_000)}

    def test_a_first_start_without_topics_makes_all_of_them_later_ones(self, store: Store) -> None:
        assert store.offsets.first_start("g", {}, 1_000) == {}
        assert store.offsets.first_start("g", {"id-1": 4}, 2_000) == {}

    def test_a_first_start_that_is_forgotten_is_recorded_again(self, store: Store) -> None:
        store.offsets.first_start("g", {"id-1": 4}, 1_000)
        store.offsets.first_start("other", {"id-1": 4}, 1_000)
        store.offsets.forget_start("g")
        assert store.offsets.first_start("g", {"id-1": 5}, 2_000) == {"id-1": FirstStart(5, 2_000)}
        assert store.offsets.first_start("other", {}, 2_000) == {"id-1": FirstStart(4, 1_000)}

    def test_instances_that_start_together_agree_on_one_first_start(self, url: str, store: Store) -> None:
        with Store.open(url) as second, ThreadPoolExecutor(8) as pool:
            for turn in range(10):
                together = Barrier(8)

                def start(n: int, group: str = f"g{turn}", barrier: Barrier = together) -> dict[str, FirstStart]:
                    barrier.wait()
                    # Instances do not see the same topics, nor the same time: no part of theirs may be mixed.
                    topics = {f"id-{m}": n for m in range(n + 1)}
                    return (store if n % 2 else second).offsets.first_start(group, topics, n)

                answers = list(pool.map(start, range(8)))
                assert all(answer == answers[0] for answer in answers)
                [(partitions, at_ms)] = set(answers[0].values())
                assert (partitions, len(answers[0])) == (at_ms, at_ms + 1)

    @pytest.mark.parametrize("text", ['{"id-1": {"partitions": 4}}', '{"id-1": -1}', '{"id-1": true}', "[]", "x"])
    def test_a_first_start_of_a_newer_version_is_an_error_that_names_it(self, store: Store, text: str) -> None:
        store.offsets.first_start("g", {"id-1": 4}, 1_000)
        with store.database.write() as connection:
            connection.execute(sa.text("UPDATE penstock_first_starts SET topics = :text"), {"text": text})
        with pytest.raises(StoreRowUnreadable, match="penstock_first_starts, row g: column topics") as refused:
            store.offsets.first_start("g", {"id-1": 4}, 2_000)
        assert refused.value.received == text
