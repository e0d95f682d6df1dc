"""The threads that execute runs: each run has one, as long as there may be more."""

from __future__ import annotations

import queue
import threading
from typing import Any

from penstock.store.work.claims import Claim
from penstock.worker.run_threads import ActiveRun, ReportBuffer, RunThreadPool
from tests.support.waiting import until


class Held(queue.SimpleQueue[ActiveRun]):
    """The thread that takes the first run out is held on the way to it."""

    def __init__(self, go_on: threading.Event) -> None:
        super().__init__()
        self.taken = threading.Event()
        self._go_on = go_on

    def get(self, *args: Any, **more: Any) -> ActiveRun:
        run = super().get(*args, **more)
        if not self.taken.is_set():
            self.taken.set()
            self._go_on.wait(60)
        return run


def active(number: int) -> ActiveRun:
    names = ("id", "work_order_id", "project_id", "workflow_id", "snapshot_id")
    none = ("starting_step", "starting_trigger_id", "dataclip_id", "input_type", "body", "request")
    return ActiveRun(Claim(**dict.fromkeys(names, str(number)), **dict.fromkeys(none), options={}))  # type: ignore[arg-type]


def test_a_run_does_not_wait_for_a_thread_that_has_another_one() -> None:
    go_on = threading.Event()
    ended: list[ActiveRun] = []

    def fail(_claim: Claim, _notes: Any) -> Any:
        raise ValueError("as far as it has to come")

    pool = RunThreadPool(4, fail, ReportBuffer(), ended.append)
    pool._queue = waiting = Held(go_on)
    first, second = active(1), active(2)
    pool.begin(first)
    assert waiting.taken.wait(60)
    pool.begin(second)
    until(lambda: ended == [second], 60, "the second run ends beside the first, which has a thread of its own")
    go_on.set()
    until(lambda: ended == [second, first], 60, "the first goes on")
