"""The walk from step to step, and each kind of step."""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from penstock.core.errors import ConfigError, Unavailable
from penstock.core.secrets import Scrubber
from penstock.store.work.results import LogLine, RunEnd, StepResult, StepRow
from penstock.workflows import StepFailed
from penstock.workflows.executing import SharedExecution
from penstock.workflows.graph import Graph
from penstock.workflows.task import RunTask
from tests.behaviour.act.hook_server import Answer, HookServer
from tests.support.children import alive
from tests.support.waiting import until

HERE = "tests.unit.workflows.test_executing"


class Notes:
    """Everything that was recorded."""

    def __init__(self) -> None:
        self.rows: list[StepRow] = []
        self.clips: dict[str, Any] = {}
        self.lines: list[LogLine] = []

    def step(self, row: StepRow) -> None:
        self.rows.append(row)

    def result(self, clip: StepResult) -> None:
        self.clips[clip.id] = json.loads(clip.body)

    def line(self, line: LogLine) -> None:
        self.lines.append(line)

    @property
    def steps(self) -> list[tuple[str, str | None]]:
        return [(row.name, row.exit_reason) for row in self.rows if row.finished_at is not None]

    @property
    def said(self) -> list[tuple[str, str]]:
        return [(line.level, line.message) for line in self.lines]


def python(name: str, function: str, **config: Any) -> dict[str, Any]:
    return {"name": name, "kind": "python", "config": {"callable": f"{HERE}:{function}", "config": config}}


def definition(*steps: dict[str, Any], edges: str = "", **more: Any) -> dict[str, Any]:
    """Edges as `a>b:when`; the trigger is `kafka`."""
    parts = [edge.partition(":") for edge in edges.split()]
    pairs = [(*ends.split(">"), when.replace("_", " ")) for ends, _, when in parts]
    every = [{"from": source, "to": target, "when": when or "always"} for source, target, when in pairs]
    return {"steps": list(steps), "edges": every, "triggers": ["kafka"]} | more


def executed(
    defined: dict[str, Any], body: Any = None, *, secrets: list[str] | None = None, **task: Any
) -> tuple[RunEnd, Notes]:
    execution, notes = prepared(defined, body, secrets=secrets, **task)
    end = execution.run()
    assert end is not None
    return end, notes


def prepared(
    defined: dict[str, Any], body: Any = None, *, secrets: list[str] | None = None, **task: Any
) -> tuple[SharedExecution, Notes]:
    given = {
        "id": "run",
        "project_id": "p",
        "snapshot_id": "s",
        "starting_step": None,
        "trigger": "kafka",
        "dataclip_id": "input",
        "input_type": "kafka",
        "body": json.dumps({"n": 1} if body is None else body),
        "request": json.dumps({"topic": "labs"}),
        "timeout": 10.0,
    }
    notes = Notes()
    graph = Graph(defined, _make_action)
    return SharedExecution(RunTask(**(given | task)), lambda: graph, Scrubber(secrets or []), notes), notes


def _make_action(kind: str, config: dict[str, Any], _folder: str | None) -> Any:
    if kind == "away":
        raise Unavailable("the broker is away")
    return config["seen"].append, lambda: None


# -- functions that steps call ---------------------------------------------------------------


def add(state: dict[str, Any], config: dict[str, Any]) -> dict[str, Any]:
    return {**state, "trail": [*state.get("trail", ()), config["mark"]]}


def keep(state: dict[str, Any]) -> None:
    state["kept"] = True


async def later(state: dict[str, Any]) -> dict[str, Any]:
    return {**state, "later": True}


def fail(_state: dict[str, Any]) -> None:
    raise StepFailed("the patient is unknown: s3cret-token")


def crash(_state: dict[str, Any]) -> None:
    raise KeyError("name")


def leave(_state: dict[str, Any]) -> None:
    sys.exit(3)


def a_list(_state: dict[str, Any]) -> Any:
    return [1]


def talk(_state: dict[str, Any]) -> None:
    print("one", 2)  # noqa: T201 - as steps do
    print("half ", end="")  # noqa: T201 - as steps do
    print("a line")  # noqa: T201 - as steps do
    logging.getLogger("labs").warning("careful with %s", "s3cret-token")
    logging.info("well")  # noqa: LOG015 - as steps do
    print("no feed", end="")  # noqa: T201 - as steps do


def chatter(_state: dict[str, Any]) -> None:
    for number in range(10_100):
        print(number)  # noqa: T201 - as steps do
    print("x" * 20_000)  # noqa: T201 - as steps do


def loop(state: dict[str, Any]) -> None:
    while not state.get("stop"):
        time.sleep(0.01)


# -- the walk --------------------------------------------------------------------------------


def test_the_state_goes_from_step_to_step_and_every_step_keeps_its_input_and_output() -> None:
    steps = python("a", "add", mark="a"), python("b", "keep"), python("c", "later")
    end, notes = executed(definition(*steps, edges="kafka>a a>b a>c:success"), {"n": 7})
    assert (end.state, end.error_type) == ("success", None)
    assert notes.steps == [("a", "success"), ("b", "success"), ("c", "success")]
    began = {row.name: row for row in notes.rows if row.finished_at is None}
    ended = {row.name: row for row in notes.rows if row.finished_at is not None}
    first = {"data": {"n": 7}, "request": {"topic": "labs"}, "trail": ["a"]}
    assert notes.clips[str(ended["a"].output_dataclip_id)] == first
    assert notes.clips[str(ended["b"].output_dataclip_id)] == first | {"kept": True}
    # What one branch changes the other does not see.
    assert notes.clips[str(ended["c"].output_dataclip_id)] == first | {"later": True}
    assert began["a"].input_dataclip_id == "input"
    assert began["b"].input_dataclip_id == began["c"].input_dataclip_id == ended["a"].output_dataclip_id
    assert end.final_dataclip_id == ended["c"].output_dataclip_id


@pytest.mark.parametrize(
    ("edges", "steps", "state"),
    [
        ("kafka>bad bad>a:success", [("bad", "fail")], "failed"),
        ("kafka>bad bad>a:failure", [("bad", "fail"), ("a", "success")], "success"),
        ("kafka>bad bad>a", [("bad", "fail"), ("a", "success")], "success"),
        ("kafka>a a>bad:failure", [("a", "success")], "success"),
        ("kafka>a a>bad:state.data.n==1", [("a", "success"), ("bad", "fail")], "failed"),
        ("kafka>a a>bad:state.data.n==2", [("a", "success")], "success"),
        ("kafka>bad bad>a:has(state.errors.bad)", [("bad", "fail"), ("a", "success")], "success"),
        # Of two ends the worse counts.
        ("kafka>a kafka>bad", [("a", "success"), ("bad", "fail")], "failed"),
        ("kafka>a:state.data.n>5", [], "success"),
    ],
)
def test_edges_lead_on_by_how_a_step_ended(edges: str, steps: list[Any], state: str) -> None:
    end, notes = executed(definition(python("a", "add", mark="a"), python("bad", "fail"), edges=edges))
    assert notes.steps == steps
    assert end.state == state


@pytest.mark.parametrize(
    ("function", "reason", "state", "error_type"),
    [
        ("fail", "fail", "failed", "StepFailed"),
        ("crash", "crash", "crashed", "KeyError"),
        ("leave", "crash", "crashed", "SystemExit"),
        ("a_list", "crash", "crashed", "StateError"),
        ("missing", "crash", "crashed", "PluginError"),
    ],
)
def test_how_a_step_fails_is_how_the_run_ends(function: str, reason: str, state: str, error_type: str) -> None:
    end, notes = executed(definition(python("a", function), edges="kafka>a"), secrets=["s3cret-token"])
    assert notes.steps == [("a", reason)]
    assert (end.state, end.error_type) == (state, error_type)
    assert notes.said[-1][0] == "error"
    [output] = notes.clips.values()
    assert output["errors"]["a"]["type"] == error_type
    assert "s3cret" not in str(notes.lines) + str(output)


def test_a_run_may_begin_at_a_step_with_what_it_was_given_then() -> None:
    defined = definition(python("a", "add", mark="a"), python("b", "add", mark="b"), edges="kafka>a a>b")
    end, notes = executed(defined, {"trail": ["a"]}, starting_step="b", input_type="step_result", request=None)
    assert (end.state, notes.steps) == ("success", [("b", "success")])
    assert notes.clips[str(end.final_dataclip_id)] == {"trail": ["a", "b"]}


def test_a_workflow_without_triggers_begins_with_the_steps_that_follow_nothing() -> None:
    steps = python("a", "add", mark="a"), python("b", "add", mark="b")
    _, notes = executed(definition(*steps, edges="a>b", triggers=[]), trigger=None)
    assert [name for name, _ in notes.steps] == ["a", "b"]


def test_an_edge_that_cannot_be_evaluated_crashes_the_run() -> None:
    defined = definition(python("a", "add", mark="a"), python("b", "keep"), edges="kafka>a a>b:state.none.such")
    end, notes = executed(defined)
    assert (end.state, end.error_type) == ("crashed", "EdgeConditionError")
    assert "state.none.such" in notes.said[-1][1]


def test_states_are_not_kept_where_the_workflow_says_so() -> None:
    end, notes = executed(definition(python("a", "keep"), edges="kafka>a"), save_dataclips=False)
    assert (notes.clips, end.state) == ({}, "success")


# -- ends from outside -----------------------------------------------------------------------


def test_a_run_that_is_given_up_is_killed_with_its_step_and_says_nothing_more() -> None:
    execution, notes = prepared(definition(python("a", "loop"), edges="kafka>a"), timeout=0.1)
    thread = threading.Thread(target=execution.run, daemon=True)
    thread.start()
    until(lambda: notes.rows, 10, "no step began")
    end = execution.give_up("kill", "TimeoutError", "too slow")
    assert end is not None
    assert (end.state, end.error_type) == ("killed", "TimeoutError")
    assert notes.steps == [("a", "kill")]
    assert notes.said == [("error", "too slow")]
    assert execution.give_up("kill", "TimeoutError", "again") is None


# -- logs ------------------------------------------------------------------------------------


def test_prints_and_logging_are_lines_of_the_step_without_secrets() -> None:
    _, notes = executed(definition(python("a", "talk"), edges="kafka>a"), secrets=["s3cret-token"])
    assert notes.said == [
        ("info", "one 2"),
        ("info", "half a line"),
        ("warn", "careful with ********"),
        ("info", "well"),
        ("info", "no feed"),
    ]
    assert {line.step_id for line in notes.lines} == {notes.rows[0].id}
    assert {line.source for line in notes.lines} == {"JOB"}
    times = [line.timestamp for line in notes.lines]
    assert times == sorted(set(times))


def test_logs_are_bounded_and_can_be_switched_off() -> None:
    defined = definition(python("a", "chatter"), edges="kafka>a")
    _, notes = executed(defined)
    assert len(notes.lines) == 10_001
    assert "dropped" in notes.said[-1][1]
    _, silent = executed(defined, logs=False)
    assert silent.lines == []


# -- the other kinds -------------------------------------------------------------------------


def command(*argv: str, **config: Any) -> dict[str, Any]:
    step = {"name": "a", "kind": "command", "config": {"argv": [sys.executable, "-c", *argv]} | config}
    return definition(step, edges="kafka>a")


def test_a_command_reads_the_state_and_writes_the_next_one() -> None:
    program = """
import json, os, sys
state = json.load(sys.stdin)
print("seen", state["data"]["n"], file=sys.stderr)
print("s3cret-token", file=sys.stderr)
json.dump({"answer": state["data"]["n"] + 1, "env": os.environ["LAB"]}, sys.stdout)
"""
    end, notes = executed(command(program, env={"LAB": "north"}), {"n": 4}, secrets=["s3cret-token"])
    assert notes.clips[str(end.final_dataclip_id)] == {"answer": 5, "env": "north"}
    assert notes.said == [("info", "seen 4"), ("info", "********")]


@pytest.mark.parametrize(
    ("program", "reason", "said"),
    [
        ("pass", "success", None),
        ("print('[1]')", "crash", "list"),
        ("print('hello')", "crash", "not JSON"),
        ("raise SystemExit(3)", "fail", "exit code 3"),
        ("import os; os.kill(os.getpid(), 9)", "fail", "SIGKILL"),
    ],
)
def test_how_a_command_ends_is_how_its_step_ends(program: str, reason: str, said: str | None) -> None:
    _, notes = executed(command(program))
    assert notes.steps == [("a", reason)]
    assert said is None or said in notes.said[-1][1]


def test_a_command_that_takes_too_long_is_killed_with_what_it_started(tmp_path: Path) -> None:
    noted = tmp_path / "pid"
    program = f"""
import pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
pathlib.Path({str(noted)!r}).write_text(str(child.pid))
time.sleep(60)
"""
    end, notes = executed(command(program, timeout=3))
    assert (end.state, end.error_type) == ("killed", "TimeoutError")
    assert notes.steps == [("a", "kill")]
    pid = int(noted.read_text())
    until(lambda: not alive(pid), 20, f"child {pid} is still running")


def http(server: HookServer, **config: Any) -> dict[str, Any]:
    step = {"name": "a", "kind": "http", "config": {"url": server.url(), "allow_private": True} | config}
    return definition(step, edges="kafka>a")


def test_an_answer_over_http_becomes_part_of_the_state() -> None:
    with HookServer(lambda _: Answer(body=b'{"id": 9}')) as server:
        defined = http(
            server, body="state.data", header_expressions={"x-topic": "state.request.topic"}, headers={"a": "b"}
        )
        end, notes = executed(defined, {"n": 5})
        [call] = server.requests
        assert json.loads(call.body) == {"n": 5}
        assert (call.headers["x-topic"], call.headers["a"]) == ("labs", "b")
        response = notes.clips[str(end.final_dataclip_id)]["response"]
        assert (response["status"], response["body"]) == (200, {"id": 9})


def test_from_400_on_the_step_fails_and_the_answer_is_in_the_state() -> None:
    with HookServer(lambda _: Answer(422, body=b"no such patient")) as server:
        end, notes = executed(http(server))
        assert (end.state, end.error_type) == ("failed", "StepFailed")
        [clip] = notes.clips.values()
        assert clip["response"]["status"] == 422
        assert "no such patient" in clip["errors"]["a"]["message"]


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/", "http://localhost/", "http://10.0.0.1/", "http://[::1]/"])
def test_private_addresses_are_not_called(url: str) -> None:
    step = {"name": "a", "kind": "http", "config": {"url": url}}
    end, _ = executed(definition(step, edges="kafka>a"))
    assert (end.state, end.error_type) == ("crashed", ConfigError.__name__)


def test_an_action_is_given_the_state_and_its_outage_is_an_exception() -> None:
    seen: list[Any] = []
    step = {"name": "a", "kind": "action", "config": {"type": "note", "config": {"seen": seen}}}
    end, _ = executed(definition(step, edges="kafka>a"), {"n": 3})
    assert end.state == "success"
    step = {"name": "a", "kind": "action", "config": {"type": "away"}}
    end, _ = executed(definition(step, edges="kafka>a"))
    assert (end.state, end.error_type) == ("exception", "Unavailable")
