"""How the last commits of groups are mirrored."""

from __future__ import annotations

from penstock.store import MirrorRow, Store


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
