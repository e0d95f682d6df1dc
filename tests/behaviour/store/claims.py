"""How replays take dead letters, and how letters are closed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.store import DeadLetterFilter, LetterPlace, LetterRefused, Store
from penstock.store.letters.model import DeadLetterStatus, StoredDeadLetter
from tests.behaviour.store.letters import failed_at, letter

ORDERS = DeadLetterFilter(pipeline="orders")


def claim_all(store: Store, which: DeadLetterFilter | list[int], *, by: str = "r1", limit: int = 2) -> list[int]:
    """Offsets in the order in which they are taken."""
    taken: list[StoredDeadLetter] = []
    after: LetterPlace | None = None
    while page := store.dead_letters.claim(which, by=by, limit=limit, after=after):
        taken += page
        after = page[-1].place
    return [each.letter.offset for each in taken]


def ids(store: Store) -> dict[int, int]:
    """By offset."""
    return {row.offset: row.id for row in store.dead_letters.list()}


def statuses(store: Store) -> dict[int, DeadLetterStatus]:
    return {row.offset: row.status for row in store.dead_letters.list()}


def history(store: Store, offset: int) -> list[tuple[str, str | None, str]]:
    found = store.dead_letters.get(ids(store)[offset])
    assert found is not None
    return [(step.kind, step.by, step.text) for step in found.history]


class ClaimsBehaviour:
    def test_letters_are_taken_in_partition_order_page_by_page_and_once(self, store: Store) -> None:
        store.dead_letters.record([letter(n, partition=n % 2, **failed_at(1000 - n)) for n in range(7)])
        store.dead_letters.record([letter(9, pipeline="other")])
        assert claim_all(store, ORDERS) == [0, 2, 4, 6, 1, 3, 5]
        assert {*statuses(store).values()} == {"replaying", "new"}
        assert claim_all(store, ORDERS, by="r2") == []
        assert store.dead_letters.claimants() == {"r1": 7}

    def test_a_letter_is_claimed_with_its_bytes(self, store: Store) -> None:
        sent = letter(1, key=b"\xff", value=b"\x00", headers=[("a", None), ("a", b"1")])
        store.dead_letters.record([sent])
        [taken] = store.dead_letters.claim(ORDERS, by="r1")
        assert taken.letter == sent
        assert taken.row.status == "replaying"

    def test_success_closes_a_letter_and_is_in_its_history(self, store: Store) -> None:
        store.dead_letters.record([letter(1), letter(2)])
        claim_all(store, ORDERS)
        number = ids(store)
        assert store.dead_letters.replayed([number[1]], by="r1", data={"spec_version": "v2"}) == [number[1]]
        assert store.dead_letters.replayed([number[2]], by="someone else") == []
        assert statuses(store) == {1: "replayed", 2: "replaying"}
        found = store.dead_letters.get(number[1])
        assert found is not None
        assert (found.replays, found.history[-1].by, found.history[-1].data) == (1, "r1", {"spec_version": "v2"})
        assert store.dead_letters.counts_by_pipeline() == {"orders": 1}

    def test_failures_of_replays_are_added_until_the_letter_is_parked(self, store: Store) -> None:
        store.dead_letters.record([letter(1, **failed_at(1000))])
        number = ids(store)[1]
        for turn, status in ((1, "new"), (2, "parked")):
            store.dead_letters.claim(ORDERS, by=f"r{turn}")
            again = letter(error=f"still {turn}", stage="timeout", traceback="T", **failed_at(2000)).failure
            marked = store.dead_letters.replay_failed({number: again}, by=f"r{turn}", max_replays=2, spec_version="v2")
            assert marked == {number: status}
        found = store.dead_letters.get(number)
        assert found is not None
        assert (found.row.stage, found.row.error, found.letter.failure.traceback) == ("timeout", "still 2", "T")
        assert (found.row.first_failed_at, found.row.last_failed_at, found.replays) == (1000, 2000, 2)
        assert found.letter.spec_version == "v2"
        steps = [(step.kind, step.by, step.text) for step in found.history]
        assert steps == [
            ("failed", None, "no such order"),
            ("replay-failed", "r1", "still 1"),
            ("replay-failed", "r2", "still 2"),
            ("parked", "r2", "still 2"),
        ]
        assert store.dead_letters.count(DeadLetterFilter(error="STILL 2", text="still 2", stage="timeout")) == 1
        assert store.dead_letters.count(DeadLetterFilter(error="no such order")) == 0
        assert claim_all(store, ORDERS) == []
        assert claim_all(store, DeadLetterFilter(status="parked")) == [1]

    def test_a_replay_that_ends_early_gives_letters_back_as_they_were(self, store: Store) -> None:
        store.dead_letters.record([letter(n) for n in range(3)])
        number = ids(store)
        store.dead_letters.claim([number[0]], by="r0")
        store.dead_letters.replay_failed({number[0]: letter().failure}, by="r0", max_replays=1, spec_version="v1")
        claim_all(store, [number[0], number[1], number[2]])
        assert store.dead_letters.release([number[2]], by="user1", reason="cancelled") == [number[2]]
        assert store.dead_letters.release(by="user1", reason="cancelled", claimed_by="r1") == [number[0], number[1]]
        assert statuses(store) == {0: "parked", 1: "new", 2: "new"}
        assert history(store, 1)[-1] == ("released", "user1", "cancelled")
        assert store.dead_letters.replayed([number[1]], by="r1") == []

    def test_letters_of_a_dead_replay_are_taken_over_and_those_of_a_live_one_are_not(self, store: Store) -> None:
        store.dead_letters.record([letter(1)])
        store.dead_letters.claim(ORDERS, by="dead")
        assert store.dead_letters.renew("dead") == 1
        assert store.dead_letters.claim(ORDERS, by="r2", lease=60) == []
        with pytest.raises(LetterRefused, match="replaying by dead"):
            store.dead_letters.claim(list(ids(store).values()), by="r2", lease=60)
        [taken] = store.dead_letters.claim(ORDERS, by="r2", lease=-1)
        assert store.dead_letters.replayed([taken.id], by="dead") == []
        store.dead_letters.release([taken.id], by="r2", reason="cancelled")
        assert statuses(store) == {1: "new"}

    def test_ids_that_cannot_be_taken_are_refused_before_any_is(self, store: Store) -> None:
        store.dead_letters.record([letter(1), letter(2)])
        number = ids(store)
        store.dead_letters.discard([number[2]], by="user1", reason="test data")
        with pytest.raises(LetterRefused, match="is discarded and cannot be replayed") as refused:
            store.dead_letters.claim([number[1], number[2]], by="r1")
        assert refused.value.received == str(number[2])
        with pytest.raises(LetterRefused, match="no such dead letter") as unknown:
            store.dead_letters.claim([number[1], 4711], by="r1")
        assert unknown.value.received == "4711"
        with pytest.raises(LetterRefused, match="discarded letters"):
            store.dead_letters.claim(DeadLetterFilter(status="discarded"), by="r1")
        assert statuses(store) == {1: "new", 2: "discarded"}

    def test_discarding_closes_what_waits_and_says_who_did_it(self, store: Store) -> None:
        store.dead_letters.record([letter(n, stage="decode" if n else "act") for n in range(2_500)])
        [taken] = store.dead_letters.claim(DeadLetterFilter(stage="decode"), by="r1", limit=1)
        seen: list[int] = []
        done = store.dead_letters.discard(
            DeadLetterFilter(stage="decode"), by="user1", reason="test data", progress=seen.append
        )
        assert done == 2_498
        assert seen[-1] == done
        assert store.dead_letters.counts_by_status() == {"discarded": 2_498, "replaying": 1, "new": 1}
        last = store.dead_letters.list(DeadLetterFilter(status="discarded"), limit=1)[0]
        found = store.dead_letters.get(last.id)
        assert found is not None
        assert [(step.kind, step.by, step.text) for step in found.history][-1] == ("discarded", "user1", "test data")
        with pytest.raises(LetterRefused, match="cannot be discarded"):
            store.dead_letters.discard([taken.id], by="user1")

    def test_replays_side_by_side_take_every_letter_once(self, store: Store) -> None:
        store.dead_letters.record([letter(n) for n in range(400)])
        with ThreadPoolExecutor(4) as pool:
            taken = list(pool.map(lambda by: claim_all(store, ORDERS, by=by, limit=10), ["r1", "r2", "r3", "r4"]))
        assert sorted(offset for offsets in taken for offset in offsets) == list(range(400))
