"""How dead letters are recorded, found and described."""

from __future__ import annotations

import os

import pytest
import sqlalchemy as sa

from penstock.store import DeadLetterCursor, DeadLetterFilter, Store, StoreRowUnreadable
from penstock.store.tables import dead_letter_payloads, dead_letters
from tests.behaviour.store.letters import failed_at, letter

NAMED = '{"name": "SCHÖN"}'.encode()


def _set_status(store: Store, status: str) -> None:
    with store._database.write() as connection:
        connection.execute(sa.update(dead_letters).values(status=status))


class DeadLettersBehaviour:
    def test_a_letter_comes_back_bit_for_bit(self, store: Store) -> None:
        headers = [("a", b"1"), ("b", None), ("a", b"\x00\xff"), ("", b""), ("ü", b"2")]
        sent = letter(5, key=b"\x00\xff", value=os.urandom(100_000), headers=headers, timestamp=-1, timestamp_type=0)
        store.dead_letters.record([sent])
        [row] = store.dead_letters.list()
        found = store.dead_letters.get(row.id)
        assert found is not None
        assert found.letter == sent
        assert found.row == row
        assert found.replays == 0

    def test_a_letter_with_headers_of_a_newer_version_is_an_error_that_names_it_and_stays_as_it_is(
        self, store: Store
    ) -> None:
        store.dead_letters.record([letter(5)])
        [row] = store.dead_letters.list()
        with store.database.write() as connection:
            connection.execute(sa.update(dead_letter_payloads).values(headers='{"authorization": "hunter2"}'))
        named = f"penstock_dead_letter_payloads, row {row.id}: column headers"
        for call in (
            lambda: store.dead_letters.get(row.id),
            lambda: store.dead_letters.claim(DeadLetterFilter(pipeline=row.pipeline), by="r1"),
        ):
            with pytest.raises(StoreRowUnreadable, match=named) as refused:
                call()
            assert "hunter2" not in f"{refused.value} {refused.value.as_dict()}", "I8"
        assert [each.status for each in store.dead_letters.list()] == ["new"], "a replay has not passed it"

    @pytest.mark.parametrize("value", [None, b""])
    def test_a_tombstone_is_not_an_empty_value(self, store: Store, value: bytes | None) -> None:
        store.dead_letters.record([letter(key=value, value=value, value_seen=value, schema_id=None)])
        found = store.dead_letters.get(store.dead_letters.list()[0].id)
        assert found is not None
        assert (found.letter.key, found.letter.value, found.letter.failure.value_seen) == (value, value, value)

    def test_a_row_has_the_promised_shape(self, store: Store) -> None:
        store.dead_letters.record([letter(9, stage="decode", error="bad")])
        shown = store.dead_letters.list()[0].as_dict()
        assert isinstance(shown.pop("id"), int)
        assert shown == {
            "pipeline": "orders",
            "topic": "orders-in",
            "partition": 0,
            "offset": 9,
            "stage": "decode",
            "error_code": "ValueError",
            "error": "bad",
            "attempts": 1,
            "status": "new",
            "first_failed_at": "2026-01-01T00:00:00.000Z",
            "last_failed_at": "2026-01-01T00:00:00.123Z",
        }

    def test_text_that_a_database_would_refuse_is_kept_readable(self, store: Store) -> None:
        strange = "nul \0, half a pair \ud800, snowman ☃"
        store.dead_letters.record([letter(pipeline="a\0b", error=strange, traceback=strange, error_code=strange)])
        found = store.dead_letters.get(store.dead_letters.list()[0].id)
        assert found is not None
        assert found.letter.failure.error == "nul \\x00, half a pair \\ud800, snowman ☃"
        assert store.dead_letters.count(DeadLetterFilter(pipeline="a\0b")) == 1

    def test_recording_again_updates_the_one_row_and_adds_to_its_history(self, store: Store) -> None:
        store.dead_letters.record([letter(1, **failed_at(1000))])
        again = letter(1, stage="timeout", error="slow", error_code="T", attempts=3, traceback="T2", **failed_at(2000))
        store.dead_letters.record([again])
        [row] = store.dead_letters.list()
        assert (row.stage, row.error, row.error_code, row.attempts) == ("timeout", "slow", "T", 3)
        assert (row.first_failed_at, row.last_failed_at) == (1000, 2000)
        found = store.dead_letters.get(row.id)
        assert found is not None
        assert found.letter.failure.traceback == "T2"
        assert [(step.at, step.kind, step.text) for step in found.history] == [
            (1000, "failed", "no such order"),
            (2000, "failed", "slow"),
        ]
        assert found.history[1].data == {"stage": "timeout", "error_code": "T", "attempts": 3, "spec_version": "v1"}

    def test_a_settle_that_is_repeated_leaves_no_second_trace(self, store: Store) -> None:
        for _ in range(2):
            store.dead_letters.record([letter(1), letter(2)])
        rows = store.dead_letters.list()
        assert len(rows) == 2
        found = store.dead_letters.get(rows[0].id)
        assert found is not None
        assert len(found.history) == 1

    def test_one_event_twice_in_one_call_is_one_letter_with_two_steps(self, store: Store) -> None:
        store.dead_letters.record([letter(1, error="first", **failed_at(1)), letter(1, error="last", **failed_at(2))])
        [row] = store.dead_letters.list()
        assert (row.error, row.last_failed_at) == ("last", 2)
        found = store.dead_letters.get(row.id)
        assert found is not None
        assert [step.text for step in found.history] == ["first", "last"]

    def test_the_same_offset_of_a_topic_made_anew_is_another_letter(self, store: Store) -> None:
        store.dead_letters.record([letter(1), letter(1, topic_id="id-2"), letter(1, pipeline="other")])
        assert store.dead_letters.count() == 3

    @pytest.mark.parametrize("status", ["replayed", "discarded"])
    def test_a_closed_letter_that_fails_again_is_open_again(self, store: Store, status: str) -> None:
        store.dead_letters.record([letter(1, **failed_at(1000))])
        _set_status(store, status)
        store.dead_letters.record([letter(1, **failed_at(1000))])
        assert store.dead_letters.list()[0].status == status
        assert store.dead_letters.counts_by_pipeline() == {}
        store.dead_letters.record([letter(1, **failed_at(2000))])
        assert store.dead_letters.list()[0].status == "new"

    @pytest.mark.parametrize("status", ["replaying", "parked"])
    def test_a_letter_in_someones_hands_keeps_its_status(self, store: Store, status: str) -> None:
        store.dead_letters.record([letter(1, **failed_at(1000))])
        _set_status(store, status)
        store.dead_letters.record([letter(1, **failed_at(2000))])
        assert store.dead_letters.list()[0].status == status

    def test_nothing_is_recorded_when_one_of_many_cannot_be(self, store: Store) -> None:
        with pytest.raises(TypeError):
            store.dead_letters.record([letter(1), letter(2, headers=[("a", object())])])
        assert store.dead_letters.count() == 0

    def test_recording_nothing_is_allowed(self, store: Store) -> None:
        store.dead_letters.record([])
        assert store.dead_letters.list() == []

    def test_unknown_letters_are_none(self, store: Store) -> None:
        assert store.dead_letters.get(1) is None

    def test_lists_are_newest_first_and_go_on_behind_a_row(self, store: Store) -> None:
        store.dead_letters.record([letter(n, **failed_at(1000 + n // 3)) for n in range(10)])
        everything = store.dead_letters.list()
        assert [row.last_failed_at for row in everything] == sorted((1000 + n // 3 for n in range(10)), reverse=True)
        seen = store.dead_letters.list(limit=4)
        while page := store.dead_letters.list(limit=4, before=seen[-1].cursor):
            seen += page
        assert seen == everything

    @pytest.mark.parametrize(
        ("which", "offsets"),
        [
            (DeadLetterFilter(), {1, 2, 3, 4}),
            (DeadLetterFilter(pipeline="orders"), {1, 2, 3}),
            (DeadLetterFilter(topic="returns"), {2}),
            (DeadLetterFilter(topic="orders-in", partition=0), {1, 4}),
            (DeadLetterFilter(stage="decode"), {1}),
            (DeadLetterFilter(status="new"), {1, 2, 3, 4}),
            (DeadLetterFilter(status="parked"), set()),
            (DeadLetterFilter(fingerprint="f2"), {4}),
            (DeadLetterFilter(error="100%"), {2}),
            (DeadLetterFilter(error="SUCH_"), set()),
            (DeadLetterFilter(error="SUCH o"), {1, 3, 4}),
            (DeadLetterFilter(error="keyerror"), {3}),
            (DeadLetterFilter(text="KEY-Ä"), {3}),
            (DeadLetterFilter(text="schön"), {3}),
            (DeadLetterFilter(text="full"), {2}),
            (DeadLetterFilter(text="lf"), {4}),
            (DeadLetterFilter(text="ä"), {3}),
            (DeadLetterFilter(error="LL"), {2}),
            (DeadLetterFilter(error="%"), {2}),
            (DeadLetterFilter(error="ll", text="zz"), set()),
            (DeadLetterFilter(text="half", pipeline="other", stage="act"), {4}),
            (DeadLetterFilter(text="half", pipeline="orders"), set()),
            (DeadLetterFilter(error="such order", text="schön"), {3}),
            (DeadLetterFilter(stage="act", status="new", topic="orders-in", pipeline="orders"), {3}),
            (DeadLetterFilter(since=2000), {2, 3, 4}),
            (DeadLetterFilter(until=2000), {1}),
            (DeadLetterFilter(since=2000, until=4000, pipeline="orders"), {2, 3}),
        ],
    )
    def test_filters(self, store: Store, which: DeadLetterFilter, offsets: set[int]) -> None:
        store.dead_letters.record(
            [
                letter(1, stage="decode", **failed_at(1000)),
                letter(2, topic="returns", error="disk 100% full", **failed_at(2000)),
                letter(3, partition=1, error_code="KeyError", key="key-ä".encode(), value=NAMED, **failed_at(3000)),
                letter(4, pipeline="other", fingerprint="f2", value=b"\xff\x00half\xfe text", **failed_at(4000)),
            ]
        )
        assert {row.offset for row in store.dead_letters.list(which)} == offsets
        assert store.dead_letters.count(which) == len(offsets)

    @pytest.mark.parametrize(
        "which",
        [
            DeadLetterFilter(text="needle 7"),
            DeadLetterFilter(error="no such", text="needle 7"),
            DeadLetterFilter(text="needle 7", status="new", since=5, until=8),
            DeadLetterFilter(text="needle 7", pipeline="orders", partition=0),
            DeadLetterFilter(text="7!"),
            DeadLetterFilter(text="7!", stage="decode"),
            DeadLetterFilter(text="!"),
            DeadLetterFilter(pipeline="orders", stage="decode"),
        ],
    )
    def test_the_rare_and_old_is_found_behind_much_else(self, store: Store, which: DeadLetterFilter) -> None:
        store.dead_letters.record(
            [letter(n, value=b"needle %d" % n, **failed_at(n)) for n in range(10) if n != 7]
            + [letter(7, value=b"needle 7!", stage="decode", **failed_at(7))]
            + [letter(n, value=b"hay %d" % n, **failed_at(n)) for n in range(10, 5_500)]
        )
        assert [row.offset for row in store.dead_letters.list(which)] == [7]
        older = store.dead_letters.list(which, before=DeadLetterCursor(7, 0))
        assert older == []

    @pytest.mark.parametrize(
        "which",
        [
            DeadLetterFilter(text="%"),
            DeadLetterFilter(text="needle %", status="new"),
            DeadLetterFilter(stage="decode", status="parked"),
            DeadLetterFilter(stage="decode", topic="orders-in", text="%", until=1_900),
            DeadLetterFilter(partition=3),
            DeadLetterFilter(),
        ],
    )
    def test_pages_that_time_cuts_short_go_on_until_all_is_found(self, store: Store, which: DeadLetterFilter) -> None:
        store.dead_letters.record(
            [
                letter(
                    n,
                    value=b"needle %" if n % 397 == 0 else b"hay",
                    stage="decode" if n % 2 else "act",
                    partition=n % 4,
                    **failed_at(n // 3),
                )
                for n in range(6_000)
            ]
        )
        store.dead_letters.claim(DeadLetterFilter(until=100), by="user1")
        expected = [row.id for row in store.dead_letters.list(which, limit=10_000)]
        page = store.dead_letters.page(which, limit=40, seconds=0)
        found = [row.id for row in page.rows]
        for _ in range(200):
            if page.next is None:
                break
            page = store.dead_letters.page(which, limit=40, before=page.next, seconds=0)
            found += [row.id for row in page.rows]
        assert page.next is None
        assert found == expected
        assert len(found) == store.dead_letters.count(which)

    def test_open_letters_are_counted_by_pipeline(self, store: Store) -> None:
        store.dead_letters.record([letter(1), letter(2), letter(1, pipeline="other")])
        assert store.dead_letters.counts_by_pipeline() == {"orders": 2, "other": 1}

    def test_thousands_of_letters_are_one_call(self, store: Store) -> None:
        store.dead_letters.record([letter(n, value=b"x" * 2_000, **failed_at(n)) for n in range(10_000)])
        assert store.dead_letters.count() == 10_000
        found = store.dead_letters.get(store.dead_letters.list(limit=1)[0].id)
        assert found is not None
        assert found.letter == letter(9_999, value=b"x" * 2_000, **failed_at(9_999))
