"""The function that Spark runs: its input is drained, unless the worker process is to end with the task."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import pytest

from penstock.worker import window
from penstock.worker.protocol import WindowOutcome, WindowRequest, unpacked


class Lane:
    def __init__(self, *, tainted: bool) -> None:
        self.tainted = tainted

    def run(self, request: WindowRequest) -> WindowOutcome:
        return WindowOutcome(request.lane, 1, [], [], 0.0, self.tainted)


class Input:
    """A task's input, as Spark gives it."""

    def __init__(self, request: WindowRequest) -> None:
        self.request, self.drained = request, False

    def __iter__(self) -> Iterator[bytes]:
        yield pickle.dumps(self.request)
        self.drained = True


@pytest.mark.parametrize(
    ("tainted", "detach", "drained"),
    [(False, False, True), (False, True, True), (True, True, True), (True, False, False)],
)
def test_f18_a_process_with_a_hung_thread_ends_with_the_task_where_the_driver_cannot_end_it(
    monkeypatch: pytest.MonkeyPatch, *, tainted: bool, detach: bool, drained: bool
) -> None:
    monkeypatch.setattr(window, "_lane", Lane(tainted=tainted))
    task = Input(WindowRequest("shared-0", 0.0, [], detach))
    (answer,) = list(window.run_window(task))
    assert unpacked(answer).lane == "shared-0"
    assert task.drained == drained
