"""Spark's daemon as the workers use it: without Spark's archives on the path, and without a collection per task."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.worker import daemon


@pytest.fixture
def collected(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    made: list[int] = []

    def collect(generation: int) -> int:
        made.append(generation)
        return 7

    monkeypatch.setattr(daemon, "_full_collection", collect)
    monkeypatch.setattr(daemon, "_collected_at", -1_000_000.0)
    return made


def asking_from(file: str) -> Callable[[], int]:
    """A call of the collector that stands in this file."""
    space: dict[str, Callable[[], int]] = {"collect": daemon._collect}
    exec(compile("def ask(): return collect()", file, "exec"), space)  # noqa: S102 - a line of ours
    return space["ask"]


def test_the_daemon_collects_now_and_then_and_everybody_else_at_once(collected: list[int]) -> None:
    task = asking_from("/somewhere/site-packages/pyspark/daemon.py")
    assert [task(), task(), task()] == [7, 0, 0]
    assert collected == [2]
    action = asking_from("/home/someone/action.py")
    assert [action(), action()] == [7, 7]
    assert collected == [2, 2, 2]


def test_only_sparks_own_archives_leave_the_path() -> None:
    kept = ["/lib/python3.11", "/opt/mine.zip", "/opt/tools.jar", "/home/someone"]
    sparks = ["/s/python/lib/pyspark.zip", "/s/python/lib/py4j-0.10.9-src.zip", "/s/jars/spark-core_2.13-4.3.0.jar"]
    assert daemon._without_zips(":".join([kept[0], *sparks, *kept[1:]])).split(":") == kept
