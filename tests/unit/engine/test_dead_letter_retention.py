"""The janitor deletes what the settings let it delete, a batch at a time."""

from __future__ import annotations

import os
from pathlib import Path

from penstock.config.settings import DeadLetterSettings
from penstock.engine.dead_letter_retention import DeadLetterRetention
from penstock.store import Store
from tests.behaviour.store.letters import letter


def test_nothing_is_deleted_unless_someone_said_so(tmp_path: Path) -> None:
    with Store.open(f"sqlite:///{tmp_path}/store.db") as store:
        store.dead_letters.record([letter(1)])
        store.dead_letters.discard([store.dead_letters.list()[0].id], by="user1")
        DeadLetterRetention(store, DeadLetterSettings()).step()
        assert store.dead_letters.count() == 1


def test_batch_after_batch_then_files_then_rest(tmp_path: Path) -> None:
    with Store.open(f"sqlite:///{tmp_path}/store.db", inline_bytes=10) as store:
        store.dead_letters.record([letter(n, value=b"x" * 20) for n in range(1_200)])
        rows = store.dead_letters.list(limit=2_000)
        store.dead_letters.discard([row.id for row in rows], by="user1")
        [file] = (path for path in (tmp_path / "payloads").rglob("*") if path.is_file())
        os.utime(file, (0, 0))
        janitor = DeadLetterRetention(store, DeadLetterSettings(keep_count=0))
        left = []
        for _ in range(4):
            janitor.step()
            left.append(store.dead_letters.count())
        assert left == [700, 200, 0, 0]
        assert not file.exists()
        store.dead_letters.record([letter(1)])
        store.dead_letters.discard([store.dead_letters.list()[0].id], by="user1")
        janitor.step()
        assert store.dead_letters.count() == 1, "it rests when there was nothing to do"
