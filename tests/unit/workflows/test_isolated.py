"""Runs in processes of their own."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from penstock.workflows.isolated import IsolatedExecution, IsolatedRun
from penstock.workflows.task import RunTask
from tests.support.waiting import until
from tests.unit.workflows.test_executing import Notes, definition

STEPS = """
import os, time
from pathlib import Path

def greet(state, config):
    print("hello", config["token"])
    os.write(1, b"noise that belongs to nobody\\n")
    return {"n": state["data"]["n"] + 1}

def fill(state):
    kept = []
    while True:
        kept.append(b"x" * 10_000_000)

def leave(state):
    os._exit(7)

def hold(state):
    Path(state["data"]["began"]).write_text(str(os.getpid()))
    time.sleep(600)
"""


@pytest.fixture
def prepared(tmp_path: Path) -> Any:
    (tmp_path / "steps.py").write_text(STEPS)

    def prepare(function: str, body: Any, *, memory_mb: int | None = None) -> tuple[IsolatedExecution, Notes]:
        config = {"callable": f"./steps.py:{function}", "config": {"token": "s3cret-token"}}
        defined = definition({"name": "a", "kind": "python", "config": config}, edges="kafka>a", folder=str(tmp_path))
        task = RunTask(
            id="run",
            project_id="p",
            snapshot_id="s",
            starting_step=None,
            trigger="kafka",
            dataclip_id="input",
            input_type="kafka",
            body=json.dumps(body),
            request="{}",
            timeout=60.0,
        )
        notes = Notes()
        alone = IsolatedRun(task=task, definition=defined, secrets=["s3cret-token"], memory_mb=memory_mb)
        return IsolatedExecution(alone, "penstock.worker.isolated", notes), notes

    return prepare


def test_a_process_reports_steps_logs_and_states_as_a_thread_does(prepared: Any) -> None:
    execution, notes = prepared("greet", {"n": 1}, memory_mb=400)
    end = execution.run()
    assert (end.state, notes.clips[end.final_dataclip_id]) == ("success", {"n": 2})
    assert notes.steps == [("a", "success")]
    assert notes.said == [("info", "hello ********")]


@pytest.mark.parametrize(
    ("function", "state", "error_type"), [("fill", "killed", "OOMError"), ("leave", "crashed", "ProcessDied")]
)
def test_a_process_that_dies_ends_its_run_and_step(prepared: Any, function: str, state: str, error_type: str) -> None:
    execution, notes = prepared(function, {}, memory_mb=300)
    end = execution.run()
    assert (end.state, end.error_type) == (state, error_type)
    assert notes.steps == [("a", "kill" if state == "killed" else "crash")]
    assert notes.said[-1][0] == "error"


def test_a_process_is_killed_when_its_run_is_given_up_or_cancelled(prepared: Any, tmp_path: Path) -> None:
    for way in ("give up", "cancel"):
        began = tmp_path / way
        execution, notes = prepared("hold", {"began": str(began)})
        ends: list[Any] = []
        thread = threading.Thread(target=lambda: ends.append(execution.run()), daemon=True)  # noqa: B023 - joined below
        thread.start()
        until(lambda: began.exists() and began.read_text(), 30, "not begun")  # noqa: B023 - as above
        if way == "give up":
            end = execution.give_up("kill", "TimeoutError", "too slow")
            assert (end.state, notes.steps, notes.said) == ("killed", [("a", "kill")], [("error", "too slow")])
        else:
            execution.cancel()
        thread.join(20)
        assert ends == [None]
        with pytest.raises(ProcessLookupError):
            os.kill(int(began.read_text()), 0)
