"""The journal says what a dead worker had done, and never more."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

from penstock.core.event import Record
from penstock.pipeline import in_flight_log as journal
from penstock.pipeline.in_flight_log import Journal, Progress
from penstock.pipeline.messages import Assignment


def record(partition: int, offset: int) -> Record:
    return Record("t", partition, offset, None, b"")


def test_what_is_noted_is_read_by_unit_and_partition(tmp_path: Path) -> None:
    path = str(tmp_path / "lane.journal")
    written = Journal(path)
    first = written.open(7, [Assignment("t", 0, 1, 100), Assignment("t", 1, 1, 50), Assignment("t", 2, 1, 9, (4,))])
    second = written.open(8, [Assignment("u", 0, 1, 5)])
    first.done({("t", 0): 120})
    first.acting_on(record(1, 51))
    first.working({("t", 2): 4}, {("t", 2): 7})

    assert journal.writer(path) == os.getpid()
    assert journal.read_progress(path) == {
        7: {0: Progress(120), 1: Progress(51, suspects={51}), 2: Progress(9, suspects={4, 5, 6})},
        8: {0: Progress(5)},
    }
    first.acting_on(record(0, 120))
    assert journal.read_progress(path)[7][1] == Progress(52), "the thread has gone on to another partition"
    assert journal.read_progress(path)[7][0] == Progress(120, suspects={120})
    first.idle()
    assert journal.read_progress(path)[7][0] == Progress(121)
    written.close(first)
    assert journal.read_progress(path) == {8: {0: Progress(5)}}
    written.close(second)
    assert journal.read_progress(path) == {}


def test_the_log_of_strands_tells_done_from_begun(tmp_path: Path) -> None:
    path = str(tmp_path / "lane.journal")
    pages = Journal(path).open(1, [Assignment("t", 0, 1, 10), Assignment("t", 1, 1, 0)])
    for offset in (10, 11, 12, 13):
        pages.begun(record(0, offset))
    pages.begun(record(1, 0))
    pages.ended(record(0, 11), done=True)
    pages.ended(record(0, 12), done=False)
    pages.ended(record(1, 0), done=True)
    assert journal.read_progress(path) == {
        1: {0: Progress(10, open={12}, finished={11}, suspects={10, 13}), 1: Progress(0, finished={0})},
    }


def test_notes_survive_the_death_of_the_process(tmp_path: Path) -> None:
    path = str(tmp_path / "lane.journal")
    dies = f"""
        import os, signal
        from penstock.core.event import Record
        from penstock.pipeline.in_flight_log import Journal
        from penstock.pipeline.messages import Assignment
        pages = Journal({path!r}).open(1, [Assignment("t", 0, 1, 10)])
        pages.acting_on(Record("t", 0, 42, None, b""))
        os.kill(os.getpid(), signal.SIGKILL)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(dies)], check=False, timeout=60)
    assert journal.read_progress(path) == {1: {0: Progress(42, suspects={42})}}


def test_a_missing_or_torn_journal_says_nothing(tmp_path: Path) -> None:
    assert journal.read_progress(str(tmp_path / "none")) == {}
    torn = tmp_path / "torn"
    torn.write_bytes(b"\x01" * 17)
    assert journal.read_progress(str(torn)) == {}
