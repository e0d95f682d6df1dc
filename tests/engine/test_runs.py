"""Runs of workflows on Spark: work orders are put into the store, and end as their steps do."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.store import Store
from penstock.workflows.bell import ring
from tests.behaviour.act.hook_server import Answer, HookServer
from tests.support.engine import Engine
from tests.support.instance import PenstockProcess
from tests.support.postgres import PostgresServer, postgres_server
from tests.support.waiting import until
from tests.support.work import Work

__all__ = ["postgres_server"]

STEPS = """
import json, os, time
from pathlib import Path
from penstock.workflows import StepFailed

def greet(state, config):
    print("hello", config["who"], config.get("token"))
    return {"greeted": config["who"], "data": state["data"]}

def refuse(state):
    raise StepFailed("not today")

def mend(state):
    return {"mended": state["errors"]["refuse"]["message"]}

def note(state):
    with open(state["data"]["file"], "a") as out:
        out.write(json.dumps([state["data"]["key"], state["data"]["n"]]) + "\\n")

def hold(state):
    Path(state["data"]["began"]).write_text(str(os.getpid()))
    while Path(state["data"]["hold"]).exists():
        time.sleep(0.01)
    return {"done": True}

def fill(state):
    kept = []
    while True:
        kept.append(b"x" * 10_000_000)
"""


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory, postgres_server: PostgresServer) -> Iterator[Engine]:
    url = postgres_server.create_database()
    with Engine(tmp_path_factory.mktemp("engine"), environ={"PENSTOCK_STORE_URL": url}) as running:
        running.module("steps.py", STEPS)
        yield running


@pytest.fixture(scope="module")
def work(engine: Engine) -> Work:
    return Work(engine.store.database)


@pytest.fixture(scope="module")
def project(work: Work) -> str:
    return work.project("engine")


def python(name: str, config: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"name": name, "kind": "python", "config": {"callable": f"./steps.py:{name}", "config": config or {}}}


def definition(folder: Path, *steps: dict[str, Any], edges: str = "", **more: Any) -> dict[str, Any]:
    """Edges as `a>b:when`."""
    parts = [edge.partition(":") for edge in edges.split()]
    every = [{"from": e.split(">")[0], "to": e.split(">")[1], "when": when or "always"} for e, _, when in parts]
    return {"steps": list(steps), "edges": every, "triggers": [], "folder": str(folder)} | more


def ended(work: Work, run: str, state: str, seconds: float = 120.0) -> None:
    def story() -> Any:
        return work.run(run), work.steps(run), work.logs(run)

    until(lambda: work.run(run)["finished_at"], seconds, story)
    assert work.run(run)["state"] == state, story()


def holding(folder: Path) -> dict[str, str]:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "hold").touch()
    return {"began": str(folder / "began"), "hold": str(folder / "hold")}


def began(held: dict[str, str], seconds: float = 120.0) -> int:
    """The process that executes the step."""
    until(lambda: Path(held["began"]).exists() and Path(held["began"]).read_text(), seconds, "the step began")
    return int(Path(held["began"]).read_text())


def test_the_four_kinds_of_steps_hand_the_state_on(engine: Engine, work: Work, project: str) -> None:
    written = engine.folder / "written.jsonl"
    with HookServer(lambda _: Answer(body=b'{"id": 4}')) as server:
        flow = work.workflow(
            project,
            "kinds",
            definition=definition(
                engine.folder,
                python("greet", {"who": "you", "token": "s3cret-t0ken"}),
                {"name": "count", "kind": "command", "config": {"argv": ["python3", "-c", _COUNT]}},
                {"name": "post", "kind": "http", "config": {"url": server.url(), "allow_private": True}},
                {"name": "file", "kind": "action", "config": {"type": "file", "config": {"path": str(written)}}},
                edges="greet>count count>post post>file:state.response.status==200",
            ),
        )
        run = work.order(flow, {"n": 1})
        ended(work, run, "success")
    assert [(step["name"], step["exit_reason"]) for step in work.steps(run)] == [
        ("greet", "success"),
        ("count", "success"),
        ("post", "success"),
        ("file", "success"),
    ]
    assert work.logs(run) == [("info", "hello you ********"), ("info", "counting")]
    last = work.body(work.run(run)["final_dataclip_id"])
    assert (last["keys"], last["response"]["body"]) == (["data", "greeted"], {"id": 4})
    assert '"keys"' in written.read_text()
    assert work.state(run)[2] == "success"


_COUNT = """
import json, sys
state = json.load(sys.stdin)
print('counting', file=sys.stderr)
print(json.dumps({'keys': sorted(state)}))
"""


def test_a_failure_is_mended_along_its_edge_or_ends_the_run(engine: Engine, work: Work, project: str) -> None:
    steps = python("refuse"), python("mend")
    mended = work.workflow(project, "mended", definition=definition(engine.folder, *steps, edges="refuse>mend:failure"))
    plain = work.workflow(project, "plain", definition=definition(engine.folder, *steps, edges="refuse>mend:success"))
    one, other = work.order(mended), work.order(plain)
    ended(work, one, "success")
    assert work.body(work.run(one)["final_dataclip_id"]) == {"mended": "not today"}
    ended(work, other, "failed")
    assert work.state(other)[1:] == ("StepFailed", "failed")


def test_a_run_begins_when_the_bell_rings(
    engine: Engine, work: Work, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = work.workflow(project, "bell", definition=definition(engine.folder, python("greet", {"who": "you"})))
    ended(work, work.order(flow), "success")
    # Nobody looks: only the bell can tell.
    monkeypatch.setattr("penstock.engine.runs.scheduler._LOOK_EVERY", 3_600.0)
    ring(engine.instance.spark.bell)
    try:
        until(lambda: not engine.instance.runs.lanes[0].in_window, 60, "not idle")
        run = work.order(flow)
        ring(engine.instance.spark.bell)
        ended(work, run, "success")
    finally:
        monkeypatch.undo()
        ring(engine.instance.spark.bell)


def test_runs_of_a_key_end_in_order_and_a_workflow_keeps_to_its_limit(engine: Engine, work: Work, project: str) -> None:
    file = engine.folder / "order.jsonl"
    flow = work.workflow(project, "order", concurrency=3, definition=definition(engine.folder, python("note")))
    made = []
    for n in range(60):
        key = f"k{n % 5}"
        made.append(work.order(flow, {"file": str(file), "key": key, "n": n}, order_key=f"t/{key}"))
    until(lambda: all(work.run(run)["finished_at"] for run in made), 90, work.states)
    seen: dict[str, list[int]] = {}
    for line in file.read_text().splitlines():
        key, n = json.loads(line)
        seen.setdefault(key, []).append(n)
    assert all(numbers == sorted(set(numbers)) for numbers in seen.values())
    assert sum(map(len, seen.values())) == 60


def test_a_run_over_its_time_is_killed_and_its_neighbours_are_not(
    engine: Engine, work: Work, project: str, tmp_path: Path
) -> None:
    slow = work.workflow(
        project,
        "slow",
        definition=definition(engine.folder, python("hold"), options={"run_timeout_ms": 500}),
    )
    quick = work.workflow(project, "quick", definition=definition(engine.folder, python("greet", {"who": "you"})))
    held = holding(tmp_path)
    hung, others = work.order(slow, held), work.orders(quick, [None] * 5)
    pid = began(held)
    ended(work, hung, "killed")
    assert work.state(hung)[1] == "TimeoutError"
    for run in others:
        ended(work, run, "success")
    # The thread hangs still: its process goes.
    until(lambda: not Path(f"/proc/{pid}").exists(), 60, "the process lives")
    ended(work, work.order(quick), "success")


def test_a_cancelled_run_stays_cancelled(engine: Engine, work: Work, project: str, tmp_path: Path) -> None:
    flow = work.workflow(project, "cancelled", definition=definition(engine.folder, python("hold"), python("greet")))
    held = holding(tmp_path)
    run = work.order(flow, held)
    began(held)
    work.cancel(run)
    until(lambda: engine.instance.runs.lanes[0].active == 0, 20, "it was not let go")
    Path(held["hold"]).unlink()
    other = work.order(flow, holding(tmp_path / "other") | {"hold": "/nonexistent"})
    ended(work, other, "crashed")
    assert work.run(run)["state"] == "cancelled"


def test_a_run_of_its_own_process_may_use_so_much_memory(engine: Engine, work: Work, project: str) -> None:
    alone: dict[str, Any] = {"isolation": "process", "options": {"run_memory_limit_mb": 300}}
    greedy = work.workflow(project, "greedy", definition=definition(engine.folder, python("fill"), **alone))
    modest = work.workflow(
        project, "modest", definition=definition(engine.folder, python("greet", {"who": "you"}), **alone)
    )
    one, other = work.order(greedy), work.order(modest)
    ended(work, one, "killed")
    assert work.state(one)[1] == "OOMError"
    ended(work, other, "success")
    assert work.logs(other) == [("info", "hello you None")]


@pytest.mark.parametrize("policy", ["lost", "rerun"])
def test_i10_a_killed_worker_loses_its_run_or_it_runs_again(
    engine: Engine, work: Work, project: str, tmp_path: Path, policy: str
) -> None:
    flow = work.workflow(
        project, f"killed {policy}", definition=definition(engine.folder, python("hold"), on_lost=policy)
    )
    held = holding(tmp_path)
    run = work.order(flow, held)
    pid = began(held)
    until(lambda: work.run(run)["state"] == "started" and work.steps(run), 10, "not written")
    Path(held["began"]).unlink()
    os.kill(pid, signal.SIGKILL)
    ended(work, run, "lost")
    assert work.state(run)[1] == "LostAfterStart"
    assert work.steps(run)[0]["exit_reason"] == "lost"
    if policy == "lost":
        assert [row["state"] for row in work.runs_of(run)] == ["lost"]
        return
    assert began(held) != pid
    Path(held["hold"]).unlink()
    [_, again] = work.runs_of(run)
    ended(work, again["id"], "success")
    assert work.state(run)[2] == "success"


def test_i10_a_killed_instance_loses_its_runs_or_they_run_again_elsewhere(tmp_path: Path) -> None:
    """Two instances over one SQLite file."""
    home = tmp_path / "home"
    home.mkdir()
    url = f"sqlite:///{home / 'penstock.db'}"
    (tmp_path / "steps.py").write_text(STEPS)
    env = {"PENSTOCK_HOME": str(home), "PENSTOCK_STORE_URL": url}
    with Store.open(url) as store:
        work = Work(store.database)
        project = work.project()
        held = {policy: holding(tmp_path / policy) for policy in ("lost", "rerun")}
        made = {
            policy: work.order(
                work.workflow(project, policy, definition=definition(tmp_path, python("hold"), on_lost=policy)),
                held[policy],
            )
            for policy in held
        }
        with PenstockProcess(["run"], folder=tmp_path / "first", env=env) as first:
            first.wait_ready(240)
            for each in held.values():
                began(each)
            until(lambda: {work.run(run)["state"] for run in made.values()} == {"started"}, 10, work.states)
            for each in held.values():
                Path(each["began"]).unlink()
            first.kill()
        with PenstockProcess(["run"], folder=tmp_path / "second", env=env) as second:
            second.wait_ready(240)
            ended(work, made["lost"], "lost")
            ended(work, made["rerun"], "lost", 10)
            began(held["rerun"])
            Path(held["rerun"]["hold"]).unlink()
            [_, again] = work.runs_of(made["rerun"])
            ended(work, again["id"], "success")
            assert second.stop() == 0
        assert [row["state"] for row in work.runs_of(made["lost"])] == ["lost"]


def test_i10_a_stop_waits_for_runs_under_way(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    url = f"sqlite:///{home / 'penstock.db'}"
    (tmp_path / "steps.py").write_text(STEPS)
    with Store.open(url) as store:
        work = Work(store.database)
        held = holding(tmp_path / "run")
        flow = work.workflow(work.project(), definition=definition(tmp_path, python("hold")))
        run = work.order(flow, held)
        env = {"PENSTOCK_HOME": str(home), "PENSTOCK_STORE_URL": url}
        with PenstockProcess(["run"], folder=tmp_path / "one", env=env) as instance:
            instance.wait_ready(240)
            began(held)
            instance.terminate()
            Path(held["hold"]).unlink()
            assert instance.wait(60) == 0
        assert work.state(run)[0] == "success"
