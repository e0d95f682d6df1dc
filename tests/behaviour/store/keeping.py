"""How the store keeps large payloads, and how it forgets letters."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from penstock.store import DeadLetterFilter, Store, StoreError
from penstock.store.tables import dead_letter_search, dead_letters
from tests.behaviour.store.letters import failed_at, letter

HOUR = 3600.0


def now() -> int:
    return time.time_ns() // 1_000_000


def hours_ago(hours: float) -> dict[str, int]:
    return failed_at(now() - int(hours * HOUR * 1000))


def offsets(store: Store) -> set[int]:
    return {row.offset for row in store.dead_letters.list()}


def payload_files(store: Store) -> list[Path]:
    database = store._database
    folder = Path(database.engine.url.database or "").parent / "payloads"
    return sorted(path for path in folder.rglob("*") if path.is_file()) if database.is_sqlite else []


class KeepingBehaviour:
    @pytest.fixture
    def small(self, url: str) -> Iterator[Store]:
        with Store.open(url, inline_bytes=1_000) as opened:
            yield opened

    def test_a_large_value_comes_back_bit_for_bit(self, small: Store) -> None:
        large = os.urandom(3_000_000)
        sent = [letter(1, value=large), letter(2, value=large), letter(3, value=b"x" * 1_000), letter(4, value=None)]
        small.dead_letters.record(sent)
        small.dead_letters.record(sent[:1])
        [page] = small.dead_letters.pages()
        assert [each.letter for each in page] == sent
        assert [each.letter for each in small.dead_letters.claim([page[0].id], by="r1")] == [sent[0]]
        assert len(payload_files(small)) == (1 if small.is_local else 0)

    def test_pages_hold_no_more_payloads_than_fit(self, store: Store) -> None:
        sent = [letter(n, value=bytes([n]) * 12_000_000) for n in range(5)]
        store.dead_letters.record(sent)
        assert [len(page) for page in store.dead_letters.pages()] == [2, 2, 1]
        assert [len(store.dead_letters.claim(DeadLetterFilter(), by="r1")) for _ in range(3)] == [2, 2, 1]

    def test_closed_letters_are_forgotten_when_nothing_happened_for_long(self, store: Store) -> None:
        store.dead_letters.record([letter(n, **hours_ago(n)) for n in range(1, 7)])
        number = {row.offset: row.id for row in store.dead_letters.list()}
        store.dead_letters.discard([number[n] for n in (1, 4, 5)], by="user1")
        with store._database.write() as connection:
            # Offset 5 was discarded just now, the others when they had failed.
            old = dead_letters.c.id != number[5]
            connection.execute(sa.update(dead_letters).where(old).values(changed_at=dead_letters.c.last_failed_at))
        assert store.dead_letters.forget(older_than=3 * HOUR, keep=None) == 1
        assert offsets(store) == {1, 2, 3, 5, 6}
        assert store.dead_letters.forget(older_than=3 * HOUR, keep=None) == 0
        assert store.dead_letters.forget(older_than=3.5 * HOUR, keep=None, open_too=True) == 1
        assert offsets(store) == {1, 2, 3, 5}

    def test_the_oldest_closed_letters_go_first_when_there_are_too_many(self, store: Store) -> None:
        store.dead_letters.record([letter(n, **hours_ago(n)) for n in range(1, 7)])
        number = {row.offset: row.id for row in store.dead_letters.list()}
        store.dead_letters.discard([number[n] for n in (1, 4, 5)], by="user1")
        assert store.dead_letters.forget(older_than=None, keep=4) == 2
        assert offsets(store) == {1, 2, 3, 6}
        assert store.dead_letters.forget(older_than=None, keep=2) == 1
        assert store.dead_letters.forget(older_than=None, keep=2) == 0
        store.dead_letters.claim([number[6]], by="r1")
        assert store.dead_letters.forget(older_than=None, keep=0, open_too=True) == 2
        assert offsets(store) == {6}

    def test_a_forgotten_letter_leaves_nothing_behind(self, small: Store) -> None:
        small.dead_letters.record([letter(1, value=b"a" * 2_000), letter(2, value=b"b" * 2_000)])
        for file in payload_files(small):
            os.utime(file, (0, 0))
        assert small.dead_letters.sweep_payloads() == 0
        small.dead_letters.discard([small.dead_letters.list()[0].id], by="user1")
        assert small.dead_letters.forget(older_than=None, keep=0) == 1
        assert small.dead_letters.sweep_payloads() == (1 if small.is_local else 0)
        [left] = small.dead_letters.list()
        assert small.dead_letters.get(left.id) is not None
        with small._database.read() as connection:
            for table in ("payloads", "steps", "search"):
                count = sa.select(sa.func.count()).select_from(sa.table(f"penstock_dead_letter_{table}"))
                assert connection.scalar(count) == 1

    def test_letters_of_an_older_version_become_searchable(self, store: Store) -> None:
        store.dead_letters.record([letter(n, value=f"order {n}".encode()) for n in range(3)])
        with store._database.write() as connection:
            connection.execute(sa.delete(dead_letter_search))
            connection.execute(sa.update(dead_letters).values(searchable=False))
        assert store.dead_letters.count(DeadLetterFilter(text="order 1")) == 0
        assert store.dead_letters.make_searchable() == 3
        assert store.dead_letters.make_searchable() == 0
        assert store.dead_letters.count(DeadLetterFilter(text="order 1")) == 1


class LocalPayloadsBehaviour:
    """What only files can suffer."""

    def test_payload_files_are_for_their_owner_only_and_never_given_back_changed(self, url: str) -> None:
        with Store.open(url, inline_bytes=10) as store:
            store.dead_letters.record([letter(1, value=b"x" * 11)])
            [file] = payload_files(store)
            assert file.stat().st_mode & 0o077 == 0
            assert file.parent.stat().st_mode & 0o077 == 0
            number = store.dead_letters.list()[0].id
            file.write_bytes(b"y" * 11)
            with pytest.raises(StoreError, match="changed on disk"):
                store.dead_letters.get(number)
            file.unlink()
            with pytest.raises(StoreError, match="cannot be read") as gone:
                store.dead_letters.get(number)
            assert "payloads" in str(gone.value.hint)
