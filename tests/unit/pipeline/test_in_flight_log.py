"""The in-flight log names what a process is working on, and nothing else."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from penstock.core.event import Record
from penstock.pipeline import in_flight_log
from penstock.pipeline.in_flight_log import InFlight, InFlightLog, InFlightSlots, request_stop
from penstock.pipeline.messages import Assignment


def record(partition: int, offset: int) -> Record:
    return Record("t", partition, offset, None, b"")


def act(slots: InFlightSlots, partition: int, offset: int) -> None:
    cells, at = slots.act_cell(("t", partition))
    cells[at] = offset


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "lane.log")


def test_what_is_worked_on_is_read_by_unit(path: str) -> None:
    log = InFlightLog(path)
    first = log.open(7, [Assignment("t", 0, 1, 100), Assignment("t", 1, 1, 50)])
    second = log.open(8, [Assignment("u", 0, 1, 5)])
    assert in_flight_log.writer(path) == os.getpid()
    assert in_flight_log.read(path) == {}, "nothing has begun"
    act(first, 1, 51)
    assert in_flight_log.read(path) == {7: [InFlight(1, 51, 52)]}
    act(first, 0, 120)
    assert in_flight_log.read(path) == {7: [InFlight(0, 120, 121)]}, "one event at a time"
    second.begin_ranges({("u", 0): (5, 9)})
    assert in_flight_log.read(path)[8] == [InFlight(0, 5, 9)]
    second.end_ranges()
    log.close(first)
    assert in_flight_log.read(path) == {}
    log.close(second)


def test_several_acts_at_once_have_a_slot_each(path: str) -> None:
    log = InFlightLog(path)
    slots = log.open(1, [Assignment("t", 0, 1, 10), Assignment("t", 1, 1, 0)], concurrency=3)
    taken = [slots.begin(record(0, 10)), slots.begin(record(0, 11)), slots.begin(record(1, 0))]
    assert slots.begin(record(0, 12)) is None, "it works all the same, unnamed"
    assert sorted(in_flight_log.read(path)[1], key=str) == [InFlight(0, 10, 11), InFlight(0, 11, 12), InFlight(1, 0, 1)]
    slots.end(taken[1])
    assert slots.begin(record(1, 1)) is not None
    assert InFlight(0, 11, 12) not in in_flight_log.read(path)[1]


def test_a_batch_over_several_partitions_is_named_with_its_ranges(path: str) -> None:
    slots = InFlightLog(path).open(1, [Assignment("t", p, 1, 0) for p in range(3)])
    slots.begin_ranges({("t", 0): (4, 9), ("t", 2): (7, 7)})
    assert sorted(in_flight_log.read(path)[1], key=str) == [InFlight(0, 4, 9), InFlight(2, 7, 8)]


def test_hundreds_of_units_are_named_and_beyond_that_units_work_unnamed(path: str) -> None:
    """F2: the 65th unit of a lane is as well off as the first."""
    log = InFlightLog(path)
    units = [log.open(n, [Assignment("t", 0, 1, 0)], concurrency=8) for n in range(1, 501)]
    for slots in units:
        slots.begin(record(0, 3))
    assert in_flight_log.read(path) == {n: [InFlight(0, 3, 4)] for n in range(1, 501)}
    crowd = [log.open(n, [Assignment("t", p, 1, 0) for p in range(99)]) for n in range(1_000, 1_300)]
    act(crowd[-1], 0, 1)
    assert 1_299 not in in_flight_log.read(path)
    for slots in (*units, *crowd):
        log.close(slots)
    act(log.open(9_999, [Assignment("t", 0, 1, 0)]), 0, 5)
    assert in_flight_log.read(path) == {9_999: [InFlight(0, 5, 6)]}


def test_what_is_in_flight_survives_the_death_of_the_process(path: str) -> None:
    dies = f"""
        import os, signal
        from penstock.pipeline.in_flight_log import InFlightLog
        from penstock.pipeline.messages import Assignment
        cells, at = InFlightLog({path!r}).open(1, [Assignment("t", 0, 1, 10)]).act_cell(("t", 0))
        cells[at] = 42
        os.kill(os.getpid(), signal.SIGKILL)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(dies)], check=False, timeout=60)
    assert in_flight_log.read(path) == {1: [InFlight(0, 42, 43)]}


def test_a_missing_or_torn_log_says_nothing(tmp_path: Path) -> None:
    assert in_flight_log.read(str(tmp_path / "none")) == {}
    assert not request_stop(str(tmp_path / "none"), {1})
    torn = tmp_path / "torn"
    torn.write_bytes(b"\x01" * 17)
    assert in_flight_log.read(str(torn)) == {}
    assert not request_stop(str(torn), {1})


def test_a_full_disk_raises_instead_of_ending_the_process(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """F33: a sparse file would be a SIGBUS at some later write."""

    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="No space left"):
        InFlightLog(path)


def test_a_new_process_leaves_the_log_of_the_one_before(path: str) -> None:
    act(InFlightLog(path).open(1, [Assignment("t", 0, 1, 0)]), 0, 3)
    InFlightLog(path)
    assert in_flight_log.read(path) == {}
    assert in_flight_log.read(in_flight_log.before(path)) == {1: [InFlight(0, 3, 4)]}


def test_requests_to_stop_arrive_once(path: str) -> None:
    log = InFlightLog(path)
    assert log.stop_requests() == []
    assert request_stop(path, {5, 3})
    assert request_stop(path, {9})
    assert sorted(log.stop_requests()) == [3, 5, 9]
    assert log.stop_requests() == []


def test_too_many_unread_requests_to_stop_are_refused(path: str) -> None:
    log = InFlightLog(path)
    assert not request_stop(path, set(range(1, 5_000)))
    assert len(log.stop_requests()) > 1_000
    assert request_stop(path, {5_000})
    assert log.stop_requests() == [5_000]
