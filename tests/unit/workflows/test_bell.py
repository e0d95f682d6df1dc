"""The bell between the processes of one machine."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.workflows.bell import Bell, ring


@pytest.fixture
def _many_files() -> Iterator[None]:
    """More than a thousand files are open, as in an instance with hundreds of triggers."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(before[0], 2_000), before[1]))
    files = [os.open(os.devnull, os.O_RDONLY) for _ in range(1_100)]
    yield
    for file in files:
        os.close(file)
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def heard(path: str) -> list[bool]:
    bell = Bell(path)
    try:
        silent = bell.wait(0.0)
        ring(path)
        ring(path)
        return [silent, bell.wait(10.0), bell.wait(0.0)]
    finally:
        bell.close()


def test_however_often_it_is_rung_it_counts_once(tmp_path: Path) -> None:
    assert heard(str(tmp_path / "bell")) == [False, True, False]


@pytest.mark.usefixtures("_many_files")
def test_it_is_heard_beside_a_thousand_open_files(tmp_path: Path) -> None:
    assert heard(str(tmp_path / "bell")) == [False, True, False]


def test_nobody_hears_and_nothing_happens(tmp_path: Path) -> None:
    ring(str(tmp_path / "nowhere"))
