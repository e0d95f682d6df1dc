"""The journal says what a dead worker had done, and never more."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

from penstock.worker import journal
from penstock.worker.journal import Journal, Progress
from penstock.worker.protocol import Assignment


def test_what_is_noted_is_read_by_unit_and_partition(tmp_path: Path) -> None:
    path = str(tmp_path / "lane.journal")
    written = Journal(path)
    first = written.open(7, [Assignment("t", 0, 1, 100), Assignment("t", 1, 1, 50), Assignment("t", 2, 1, 9, (4,))])
    second = written.open(8, [Assignment("u", 0, 1, 5)])
    first.done({("t", 0): 120})
    first.acting_on(("t", 1), 51, 51)
    first.done({("t", 2): 12})  # a partition with holes is not noted

    assert journal.read(path) == {
        7: {0: Progress(120, None), 1: Progress(51, 51)},
        8: {0: Progress(5, None)},
    }
    written.close(first)
    assert journal.read(path) == {8: {0: Progress(5, None)}}
    written.close(second)
    assert journal.read(path) == {}


def test_notes_survive_the_death_of_the_process(tmp_path: Path) -> None:
    path = str(tmp_path / "lane.journal")
    dies = f"""
        import os, signal
        from penstock.worker.journal import Journal
        from penstock.worker.protocol import Assignment
        pages = Journal({path!r}).open(1, [Assignment("t", 0, 1, 10)])
        pages.acting_on(("t", 0), 42, 42)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(dies)], check=False, timeout=60)
    assert journal.read(path) == {1: {0: Progress(42, 42)}}


def test_a_missing_or_torn_journal_says_nothing(tmp_path: Path) -> None:
    assert journal.read(str(tmp_path / "none")) == {}
    torn = tmp_path / "torn"
    torn.write_bytes(b"\x01" * 17)
    assert journal.read(str(torn)) == {}
