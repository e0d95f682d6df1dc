"""The loop that executes runs, as a lane's process has it, over a store of its own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from penstock.config.secret_values import hidden
from penstock.core.cipher import Cipher
from penstock.core.clock import Clock
from penstock.core.deadline import Deadline
from penstock.store import Store
from penstock.store.errors import StoreError, StoreUnavailable
from penstock.store.work.losing import Losses
from penstock.store.workflow_tables import runs
from penstock.worker.protocol import RunsOutcome, RunsRequest
from penstock.worker.run_executor import RunExecutor
from penstock.workflows.states import derived
from tests.support.waiting import until
from tests.support.work import Work

HERE = "tests.unit.worker.test_run_executor"


def hello(state: dict[str, Any]) -> dict[str, Any]:
    print("hello", state["data"].get("n"))  # noqa: T201 - as steps do
    return {"n": state["data"].get("n", 0) + 1}


def hold(state: dict[str, Any]) -> None:
    Path(state["data"]["began"]).touch()
    while Path(state["data"]["hold"]).exists():
        time.sleep(0.01)


def one_step(function: str, **more: Any) -> dict[str, Any]:
    step = {"name": "one", "kind": "python", "config": {"callable": f"{HERE}:{function}"}}
    return {"steps": [step], "edges": [], "triggers": []} | more


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(f"sqlite:///{tmp_path / 'store.db'}") as opened:
        yield opened


@pytest.fixture
def work(store: Store) -> Work:
    return Work(store.database)


@pytest.fixture
def request_(tmp_path: Path) -> RunsRequest:
    return RunsRequest(f"sqlite:///{tmp_path / 'store.db'}", None, "lane/1")


@pytest.fixture
def held(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "hold").touch()
    return {"began": str(tmp_path / "began"), "hold": str(tmp_path / "hold")}


class ShiftedClock:
    """The real monotonic clock and a shift."""

    def __init__(self) -> None:
        self.shift = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.shift


def window(running: RunExecutor, request: RunsRequest, seconds: float = 20.0) -> RunsOutcome:
    return running.window(request, Deadline.after(seconds, running._clock), detach=True)


def test_a_window_executes_what_waits_and_returns_when_there_is_nothing_more(work: Work, request_: RunsRequest) -> None:
    flow = work.workflow(work.project(), definition=one_step("hello"))
    made = work.orders(flow, [{"n": n} for n in range(120)])
    began = time.monotonic()
    outcome = window(RunExecutor(request_), request_, 120.0)
    assert time.monotonic() - began < 120, "it does not wait for its deadline"
    assert (outcome.claimed, outcome.ended, outcome.flying) == (120, {"success": 120}, 0)
    assert {work.state(run) for run in made} == {("success", None, "success")}
    assert work.logs(made[7]) == [("info", "hello 7")]
    [step] = work.steps(made[7])
    assert work.body(step["output_dataclip_id"]) == {"n": 8}
    row = work.run(made[7])
    assert (row["worker_name"], row["final_dataclip_id"]) == ("lane/1", step["output_dataclip_id"])
    assert row["claimed_at"] <= row["started_at"] <= row["finished_at"]


def test_a_run_over_its_time_is_killed_and_its_process_is_to_be_replaced(
    work: Work, request_: RunsRequest, held: dict[str, str]
) -> None:
    flow = work.workflow(work.project(), definition=one_step("hold", options={"run_timeout_ms": 60_000}))
    other = work.workflow(work.project("other"), definition=one_step("hello"))
    slow, quick = work.order(flow, held), work.order(other)
    monotonic = ShiftedClock()
    running = RunExecutor(request_, clock=Clock(monotonic=monotonic))
    until(lambda: window(running, request_, 0.1).flying == 1 and Path(held["began"]).exists(), 10, "not begun")
    monotonic.shift += 62
    outcome = window(running, request_)
    assert outcome.flying == 0
    assert work.state(slow) == ("killed", "TimeoutError", "killed")
    assert work.state(quick)[0] == "success"
    assert work.steps(slow)[0]["exit_reason"] == "kill"
    assert running.tainted
    # It claims nothing more, until the thread comes back by itself.
    late = work.order(other)
    assert window(running, request_).claimed == 0
    Path(held["hold"]).unlink()
    until(lambda: not running.tainted, 10, "the thread did not return")
    assert window(running, request_).claimed == 1
    assert work.state(late)[0] == "success"
    assert work.state(slow)[0] == "killed"


def test_a_long_run_outlives_its_window_and_goes_on_in_the_next(
    work: Work, request_: RunsRequest, held: dict[str, str]
) -> None:
    flow = work.workflow(work.project(), definition=one_step("hold"))
    run = work.order(flow, held)
    running = RunExecutor(request_)
    outcome = window(running, request_, 0.5)
    assert (outcome.claimed, outcome.flying) == (1, 1)
    until(lambda: work.state(run)[0] == "started", 10, "not started")
    Path(held["hold"]).unlink()
    later = work.order(flow, held)
    # The instance stops: nothing else is begun.
    assert window(running, RunsRequest(request_.url, None, "lane/2", claims=False)).flying == 0
    assert work.state(run)[0] == "success"
    assert work.run(run)["worker_name"] == "lane/1"
    assert work.state(later)[0] == "available"


def test_a_run_that_someone_else_ended_stays_as_they_left_it(
    store: Store, work: Work, request_: RunsRequest, held: dict[str, str]
) -> None:
    flow = work.workflow(work.project(), definition=one_step("hold"))
    cancelled = work.order(flow, held)
    monotonic = ShiftedClock()
    running = RunExecutor(request_, clock=Clock(monotonic=monotonic))
    window(running, request_, 0.1)
    until(lambda: work.state(cancelled)[0] == "started", 10, "not started")
    work.cancel(cancelled)
    monotonic.shift += 3
    until(lambda: window(running, request_, 0.1).flying == 0, 10, "it was not noticed")
    lost = work.order(flow, held | {"began": held["began"] + "2"})
    window(running, request_, 0.1)
    until(Path(held["began"] + "2").exists, 10, "not begun")
    Losses(store.database, derived).lose({"lane/1"})
    Path(held["hold"]).unlink()
    monotonic.shift += 3
    until(lambda: window(running, request_, 0.1).flying == 0, 10, "it was not noticed")
    assert work.state(cancelled)[0] == "cancelled"
    assert work.state(lost)[0] == "lost"


def test_a_run_whose_version_cannot_be_used_ends_of_it(work: Work, request_: RunsRequest) -> None:
    edge = {"from": "one", "to": "two", "when": "state.(("}
    flow = work.workflow(work.project(), definition=one_step("hello", edges=[edge]))
    run = work.order(flow)
    window(RunExecutor(request_), request_)
    assert work.state(run)[0] == "crashed"
    assert work.logs(run)[0][0] == "error"


def test_i06_a_store_outage_right_behind_a_claim_gives_the_run_back(
    work: Work, request_: RunsRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    # F23: the run ended as `exception` although nothing of it was executed.
    run = work.order(work.workflow(work.project(), definition=one_step("hello")), {"n": 1})
    monotonic = ShiftedClock()
    running = RunExecutor(request_, clock=Clock(monotonic=monotonic))
    plain = running._definitions._read

    def read(_claim: Any) -> Any:
        raise StoreUnavailable("the store is away: connection refused")

    monkeypatch.setattr(running._definitions, "_read", read)
    outcome = window(running, request_)
    assert (outcome.ended, outcome.flying, outcome.away) == ({}, 0, "the store is away: connection refused")
    assert work.state(run) == ("available", None, "pending")
    row = work.run(run)
    assert (row["worker_name"], row["claimed_at"], row["heartbeat_at"], row["started_at"]) == (None, None, None, None)
    paused = window(running, request_)
    assert (paused.claimed, paused.away) == (0, "the store is away: connection refused"), "claims pause, and say why"
    monkeypatch.setattr(running._definitions, "_read", plain)
    monotonic.shift += 60
    assert window(running, request_).ended == {"success": 1}
    assert work.logs(run) == [("info", "hello 1")]
    assert len(work.runs_of(run)) == 1


def test_i06_runs_wait_for_the_key_of_their_secrets_and_others_do_not(work: Work, request_: RunsRequest) -> None:
    # F23: between `db rotate-key` and the restart of an instance its key is the wrong one.
    new, old = Cipher(b"n" * 32), Cipher(b"o" * 32)
    config = {"callable": f"{HERE}:hello", "config": hidden({"token": "hunter2"}, lambda: new)}
    step = {"name": "one", "kind": "python", "config": config}
    secret = work.workflow(work.project(), definition={"steps": [step], "edges": [], "triggers": []})
    plain = work.workflow(work.project("other"), definition=one_step("hello"))
    waiting, done = work.order(secret, {"n": 1}), work.order(plain, {"n": 2})
    running = RunExecutor(RunsRequest(request_.url, old.text, "lane/1"))
    for key in (old.text, None):
        outcome = window(running, RunsRequest(request_.url, key, "lane/1"))
        assert outcome.away is not None
        assert "key" in outcome.away
        assert work.state(waiting) == ("available", None, "pending")
    assert work.state(done)[0] == "success"
    late = work.order(plain, {"n": 3})
    assert window(running, RunsRequest(request_.url, None, "lane/1")).ended == {"success": 1}
    assert work.state(late)[0] == "success"
    # The new key is known: at once, not when the pause is over.
    assert window(running, RunsRequest(request_.url, new.text, "lane/1")).ended == {"success": 1}
    assert work.state(waiting)[0] == "success"


def test_an_unexpected_error_does_not_end_the_control_loop(
    work: Work, request_: RunsRequest, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # F29: only errors of Penstock were caught; the thread ended, and with it every later run of the process.
    run = work.order(work.workflow(work.project(), definition=one_step("hello")), {"n": 1})
    running = RunExecutor(request_)
    plain = running._claims.claim

    def claim(*_args: Any, **_more: Any) -> Any:
        monkeypatch.setattr(running._claims, "claim", plain)
        raise ValueError("nobody has expected this")

    monkeypatch.setattr(running._claims, "claim", claim)
    assert window(running, request_).away == "ValueError: nobody has expected this"
    assert "control loop failed" in caplog.text
    until(lambda: window(running, request_).ended == {"success": 1}, 20, "the loop goes on")
    assert work.state(run)[0] == "success"


def test_a_report_with_an_unexpected_error_ends_its_own_run(
    work: Work, request_: RunsRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = work.orders(work.workflow(work.project(), definition=one_step("hello")), [{"n": 1}, {"n": 2}])
    running = RunExecutor(request_)
    plain = running._results.write

    def write(token: str, report: Any) -> set[str]:
        if any(clip.run_id == bad for clip in report.dataclips):
            raise TypeError("not serializable")
        return plain(token, report)

    monkeypatch.setattr(running._results, "write", write)
    window(running, request_)
    assert work.state(bad)[:2] == ("exception", "TypeError")
    assert work.state(good)[0] == "success"


def test_what_the_store_refuses_ends_its_own_run_and_no_other(
    work: Work, request_: RunsRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = work.workflow(work.project(), definition=one_step("hello"))
    bad, good = work.orders(flow, [{"n": 1}, {"n": 2}])
    running = RunExecutor(request_)
    plain = running._results.write

    def write(token: str, report: Any) -> set[str]:
        if any(clip.run_id == bad for clip in report.dataclips):
            raise StoreError("the store refused")
        return plain(token, report)

    monkeypatch.setattr(running._results, "write", write)
    window(running, request_)
    assert work.state(bad)[:2] == ("exception", "StoreError")
    assert work.state(good)[0] == "success"


def test_an_outage_of_the_store_ends_nothing(work: Work, request_: RunsRequest, held: dict[str, str]) -> None:
    flow = work.workflow(work.project(), definition=one_step("hold"))
    run = work.order(flow, held)
    running = RunExecutor(request_)
    window(running, request_, 0.3)
    with work.database.write() as connection:
        # Nobody else can write while this is open.
        connection.execute(sa.update(runs).where(runs.c.id == run).values(priority=1))
        Path(held["hold"]).unlink()
        assert window(running, request_, 0.5).flying == 1
    assert window(running, request_).flying == 0
    assert work.state(run)[0] == "success"


def test_a_report_that_found_no_store_is_written_later(
    work: Work, request_: RunsRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = work.workflow(work.project(), definition=one_step("hello"))
    made = work.orders(flow, [{"n": 1}, {"n": 2}])
    running = RunExecutor(request_)
    plain, tries = running._results.write, []

    def write(token: str, report: Any) -> set[str]:
        tries.append(token)
        if len(tries) <= 2:
            raise StoreUnavailable("the store is away")
        return plain(token, report)

    monkeypatch.setattr(running._results, "write", write)
    outcome = window(running, request_)
    assert (outcome.ended, outcome.away) == ({"success": 2}, None)
    assert {work.state(run) for run in made} == {("success", None, "success")}
    assert [len(work.logs(run)) for run in made] == [1, 1]
