"""How workers take runs and report them, on every database."""

from __future__ import annotations

import json
import random
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa
import time_machine

from penstock.core import ids
from penstock.core.clock import Clock
from penstock.core.ids import new_id
from penstock.store import Store, StoreUnavailable
from penstock.store.work.claims import PER_WORKFLOW, Claims
from penstock.store.work.losing import RERUNS, Losses
from penstock.store.work.results import LogLine, Report, Results, RunEnd, StepResult, StepRow
from penstock.store.workflow_tables import runs
from penstock.tables.cursor import Place
from penstock.workflows.intake import Owner, intake_of
from penstock.workflows.message import Message
from penstock.workflows.states import derived
from tests.support.postgres import PostgresServer
from tests.support.work import Work, now


def ended(run: str, state: str = "success") -> RunEnd:
    at = now()
    return RunEnd(id=run, state=state, error_type=None, final_dataclip_id=None, started_at=at, finished_at=at)


def step(run: str, snapshot: str, **more: object) -> StepRow:
    values = {"id": new_id(), "name": "one", "input_dataclip_id": None, "started_at": now()}
    return StepRow(run_id=run, snapshot_id=snapshot, **(values | more))  # type: ignore[arg-type]  # of mixed types


class Monotonic:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def _away() -> None:
    raise StoreUnavailable("the store is away")


class RunsBehaviour:
    """A backend gives `store`."""

    @pytest.fixture
    def work(self, store: Store) -> Work:
        return Work(store.database)

    @pytest.fixture
    def claims(self, store: Store) -> Claims:
        return Claims(store.database, derived)

    @pytest.fixture
    def results(self, store: Store) -> Results:
        return Results(store.database, derived)

    @pytest.fixture
    def monotonic(self) -> Monotonic:
        return Monotonic()

    @pytest.fixture
    def losses(self, store: Store, monotonic: Monotonic) -> Losses:
        return Losses(store.database, derived, Clock(monotonic=monotonic))

    def test_a_claim_brings_the_run_with_its_input_and_its_order_runs(self, work: Work, claims: Claims) -> None:
        flow = work.workflow(work.project())
        run = work.order(flow, {"patient": "p-88"}, options={"run_timeout_ms": 5}, starting_step="two")
        assert claims.waiting()
        [claim] = claims.claim("w1", 10)
        assert (claim.id, claim.snapshot_id, claim.starting_step) == (run, flow[2], "two")
        assert (claim.input_type, claim.body) == ("kafka", '{"patient": "p-88"}')
        assert claim.request is not None
        assert claim.options == {"run_timeout_ms": 5}
        assert work.state(run) == ("claimed", None, "running")
        assert not claims.waiting()
        assert claims.claim("w2", 10) == []

    def test_queues_come_before_priority_and_priority_before_age(self, work: Work, claims: Claims) -> None:
        project = work.project()
        one, two = work.workflow(project, "one"), work.workflow(project, "two")
        last = work.order(one)
        fourth = work.order(two, priority=0)
        third = work.order(one, queue="manual")
        second = work.order(two, queue="fast_lane")
        first = work.order(one, queue="fast_lane", priority=0)
        assert [claim.id for claim in claims.claim("w", 10)] == [first, second, third, fourth, last]

    def test_runs_of_many_workflows_come_by_age_and_no_workflow_fills_a_claim(self, work: Work, claims: Claims) -> None:
        project = work.project()
        flows = [work.workflow(project, f"flow {n}") for n in range(40)]
        runs_ = [work.order(flow) for _ in range(2) for flow in flows]
        assert [claim.id for claim in claims.claim("w", 50)] == runs_[:50]
        long = work.orders(flows[0], [None] * 80)
        taken = [claim.id for claim in claims.claim("w", 500)]
        assert taken == [*runs_[50:], *long[: PER_WORKFLOW - (runs_[40] in taken)]]

    def test_concurrency_of_a_workflow_and_of_the_rest_of_its_project(
        self, work: Work, claims: Claims, results: Results
    ) -> None:
        project = work.project(concurrency=3)
        own, one, two = (
            work.workflow(project, name, concurrency=limit)
            for name, limit in (("own", 2), ("one", None), ("two", None))
        )
        for flow in (own, one, two):
            work.orders(flow, [None] * 5)
        first = claims.claim("w", 100)
        assert Counter(claim.workflow_id for claim in first)[own[1]] == 2
        assert len(first) == 5
        assert claims.claim("w", 100) == []
        results.write("w", Report(ends=[ended(first[0].id)]))
        assert len(claims.claim("w", 100)) == 1

    def test_an_order_key_is_worked_on_one_run_after_the_other(
        self, work: Work, claims: Claims, results: Results
    ) -> None:
        flow = work.workflow(work.project())
        hot = work.orders(flow, [None] * 900, order_key="t/hot")
        cold = work.order(flow, order_key="t/zz")
        free = work.order(flow)
        # The backlog of one key hides none of the others, however long.
        assert {claim.id for claim in claims.claim("w", 10)} <= {hot[0], cold, free}
        assert {claim.id for claim in claims.claim("w", 10)} <= {cold, free}
        assert work.state(hot[0])[0] == work.state(cold)[0] == "claimed"
        assert work.state(hot[1])[0] == "available"
        results.write("w", Report(ends=[ended(hot[0], "crashed")]))
        assert hot[1] in {claim.id for claim in claims.claim("w", 10)}

    def test_what_is_reported_is_written_and_only_by_the_holder(
        self, work: Work, claims: Claims, results: Results
    ) -> None:
        flow = work.workflow(work.project())
        mine, other = work.orders(flow, [None] * 2)
        claims.claim("w1", 10)
        assert results.heartbeat("w1") == {mine, other}
        begun = step(mine, flow[2])
        line = LogLine(
            id=new_id(), run_id=mine, step_id=begun.id, source="JOB", level="info", message="\0hi", timestamp=now()
        )
        assert results.write("w1", Report(steps=[begun], log_lines=[line])) == set()
        assert work.state(mine) == ("started", None, "running")
        assert work.run(mine)["started_at"] == begun.started_at
        clip = StepResult(id=new_id(), run_id=mine, project_id=flow[0], body='{"a":1}', inserted_at=now())
        done = step(mine, flow[2], id=begun.id, output_dataclip_id=clip.id, exit_reason="success", finished_at=now())
        report = Report(steps=[done], dataclips=[clip], log_lines=[line], ends=[ended(mine)])
        assert results.write("w2", report) == {mine}
        assert work.state(mine) == ("started", None, "running")
        assert results.write("w1", report) == set()
        assert work.state(mine) == ("success", None, "success")
        [row] = work.steps(mine)
        assert (row["exit_reason"], work.body(row["output_dataclip_id"])) == ("success", {"a": 1})
        assert len(work.logs(mine)) == 1
        # Again, as after an answer that was lost: nothing changes.
        assert results.write("w1", report) == {mine}
        assert len(work.logs(mine)) == 1
        assert results.heartbeat("w1") == {other}

    def test_runs_that_are_given_back_are_as_if_never_claimed(
        self, work: Work, claims: Claims, results: Results, losses: Losses
    ) -> None:
        flow = work.workflow(work.project(), definition={"on_lost": "rerun"})
        first, second = work.orders(flow, [None] * 2, order_key="t/k")
        before = work.run(first)
        assert [claim.id for claim in claims.claim("w1", 10)] == [first]
        assert results.give_back("w2", [first]) == set(), "only its holder may"
        assert work.state(first) == ("claimed", None, "running")
        assert results.give_back("w1", [first, second]) == {first}
        assert work.state(first) == ("available", None, "pending")
        assert {**work.run(first), "updated_at": 0} == {**before, "updated_at": 0}
        assert losses.lose({"w1"}) == []
        assert results.heartbeat("w1") == set()
        assert [claim.id for claim in claims.claim("w2", 10)] == [first], "it keeps its place in the order of its key"

    def test_a_claim_may_leave_workflows_to_others(self, work: Work, claims: Claims) -> None:
        project = work.project()
        one, two = work.workflow(project, "one"), work.workflow(project, "two")
        left, taken = work.order(one), work.order(two)
        assert [claim.id for claim in claims.claim("w", 10, without={one[1]})] == [taken]
        assert [claim.id for claim in claims.claim("w", 10)] == [left]

    def test_lost_runs_say_when_they_were_lost(
        self, work: Work, claims: Claims, results: Results, losses: Losses
    ) -> None:
        flow = work.workflow(work.project())
        claimed, started, kept = work.orders(flow, [None] * 3)
        claims.claim("w1", 2)
        claims.claim("w2", 1)
        results.write("w1", Report(steps=[step(started, flow[2])]))
        assert {lost.run for lost in losses.lose({"w1"})} == {claimed, started}
        assert work.state(claimed) == ("lost", "LostAfterClaim", "lost")
        assert work.state(started) == ("lost", "LostAfterStart", "lost")
        assert work.steps(started)[0]["exit_reason"] == "lost"
        # It turns out to live: too late.
        assert results.write("w1", Report(ends=[ended(started)])) == {started}
        assert work.state(kept)[0] == "claimed"

    def test_a_run_is_lost_when_its_heartbeat_has_not_changed_for_longer_than_the_limit(
        self, work: Work, claims: Claims, results: Results, losses: Losses, monotonic: Monotonic
    ) -> None:
        silent, alive = work.orders(work.workflow(work.project()), [None] * 2)
        assert [[claim.id] for claim in (*claims.claim("w1", 1), *claims.claim("w2", 1))] == [[silent], [alive]]
        for _ in range(7):
            assert losses.lose_silent(60) == []
            monotonic.now += 10
            results.heartbeat("w2")
        assert [lost.run for lost in losses.lose_silent(60)] == [silent]
        assert (work.state(silent)[0], work.state(alive)[0]) == ("lost", "claimed")

    def test_i06_a_run_is_not_lost_because_the_store_could_not_be_reached(
        self, work: Work, claims: Claims, losses: Losses, monotonic: Monotonic
    ) -> None:
        # F7: while the store is away no worker can write a heartbeat; after it is back, the sweep comes first.
        run = work.order(work.workflow(work.project()))
        claims.claim("w1", 1)
        with work.database.write() as connection:
            connection.execute(sa.update(runs).values(heartbeat_at=now() - 3_600_000_000))
        assert losses.lose_silent(60) == [], "the first look of an instance knows nothing"
        for outage in (losses.note_outage, lambda: None):
            for _ in range(3):
                monotonic.now += 15
                assert losses.lose_silent(60) == []
            # Also an outage that only showed as a call that took long.
            outage()
            monotonic.now += 40
            assert losses.lose_silent(60) == [], "silent for longer than the limit, of which the store was away a part"
        assert work.state(run)[0] == "claimed"

    def test_i06_a_look_that_fails_makes_every_silence_begin_anew(
        self, work: Work, claims: Claims, losses: Losses, monotonic: Monotonic, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run = work.order(work.workflow(work.project()))
        claims.claim("w1", 1)
        for failing in (True, False):
            for _ in range(4):
                assert losses.lose_silent(60) == []
                monotonic.now += 15.5
            if failing:
                with monkeypatch.context() as patched:
                    patched.setattr(losses, "_heartbeats", _away)
                    with pytest.raises(StoreUnavailable):
                        losses.lose_silent(60)
        assert [lost.run for lost in losses.lose_silent(60)] == [run]

    def test_i06_a_step_of_the_wall_clock_loses_no_run_and_hides_none(
        self, work: Work, claims: Claims, losses: Losses, monotonic: Monotonic
    ) -> None:
        # With SQLite heartbeats are times of the wall clock.
        run = work.order(work.workflow(work.project()))
        claims.claim("w1", 1)
        assert losses.lose_silent(60) == []
        with time_machine.travel(datetime.now(UTC) + timedelta(hours=26)):
            monotonic.now += 15
            assert losses.lose_silent(60) == []
        with work.database.write() as connection:
            connection.execute(sa.update(runs).values(heartbeat_at=now() + 3_600_000_000))
        for _ in range(5):
            assert losses.lose_silent(60) == []
            monotonic.now += 15
        assert [lost.run for lost in losses.lose_silent(60)] == [run]

    def test_a_heartbeat_written_after_the_look_keeps_the_run(
        self, work: Work, claims: Claims, results: Results, losses: Losses, monotonic: Monotonic
    ) -> None:
        run = work.order(work.workflow(work.project()))
        claims.claim("w1", 1)
        for _ in range(5):
            assert losses.lose_silent(60) == []
            monotonic.now += 15
        silent = losses._silent(60)
        assert list(silent) == [run]
        results.heartbeat("w1")
        assert losses._lose_unchanged(silent) == []
        assert work.state(run)[0] == "claimed"

    def test_a_workflow_may_have_lost_runs_run_again_in_their_place_but_not_for_ever(
        self, work: Work, claims: Claims, losses: Losses
    ) -> None:
        flow = work.workflow(work.project(), definition={"on_lost": "rerun"})
        first, second = work.orders(flow, [{"n": 1}, {"n": 2}], order_key="t/k", starting_step="two")
        for attempt in range(RERUNS + 1):
            [claim] = claims.claim(f"w{attempt}", 10)
            assert (claim.body, claim.starting_step) == ('{"n": 1}', "two")
            [lost] = losses.lose({f"w{attempt}"})
            assert (lost.rerun is not None) == (attempt < RERUNS)
        assert [row["state"] for row in work.runs_of(first)] == ["lost"] * (RERUNS + 1)
        assert work.state(first)[2] == "lost"
        assert [claim.id for claim in claims.claim("w", 10)] == [second]

    @pytest.mark.parametrize("hours", [-1, 1])
    def test_i04_runs_of_a_key_come_in_order_although_the_clocks_of_the_hosts_differ(
        self,
        store: Store,
        work: Work,
        claims: Claims,
        results: Results,
        *,
        monkeypatch: pytest.MonkeyPatch,
        hours: int,
    ) -> None:
        # F22: ids were made from the clock of the host that took the message in.
        project, workflow, snapshot = work.workflow(work.project())
        owner = Owner(project, workflow, snapshot, None)
        place = Place("labs", "id-1", 0, "labs")
        for turn in range(4):
            monkeypatch.setattr(ids, "_last", 0)  # another process
            with time_machine.travel(datetime.now(UTC) + timedelta(hours=hours * (turn % 2))):
                # A chunk is more than a message, and messages of a chunk share no microsecond.
                messages = [Message(turn * 5 + n, f'{{"n": {turn * 5 + n}}}', "{}", None, b"k") for n in range(5)]
                with store.database.write() as connection:
                    intake = intake_of(connection.dialect.name)
                    intake.write(connection, owner, place, messages, order_key=lambda _: "labs/k")
        bodies = []
        while claimed := claims.claim("w", 10):
            assert len(claimed) == 1
            bodies.append(json.loads(claimed[0].body or "")["n"])
            results.write("w", Report(ends=[ended(claimed[0].id)]))
        assert bodies == list(range(20))

    def test_i04_a_retry_comes_behind_what_waits_although_the_clock_of_the_host_lags(
        self, store: Store, work: Work, claims: Claims, results: Results, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        definition = {"steps": [], "edges": [], "triggers": []}
        first, second, third = work.orders(
            work.workflow(work.project(), definition=definition), [None] * 3, order_key="t/k"
        )
        claims.claim("w", 10)
        results.write("w", Report(ends=[ended(first, "failed")]))
        assert [claim.id for claim in claims.claim("w", 10)] == [second]
        monkeypatch.setattr(ids, "_last", 0)
        with time_machine.travel(datetime.now(UTC) - timedelta(hours=1)):
            [retried] = store.orders.retry([work.run(first)["work_order_id"]])
        assert retried.why is None
        assert claims.claim("w", 10) == [], "the second is being executed"
        for expected in (third, retried.run_id):
            results.write("w", Report(ends=[ended(second)]))
            [claim] = claims.claim("w", 10)
            assert claim.id == expected
            second = claim.id

    @pytest.mark.parametrize("seed", range(3))
    def test_many_workers_take_each_run_once_in_order_and_within_limits(
        self, store: Store, work: Work, seed: int
    ) -> None:
        chance = random.Random(seed)
        project = work.project(concurrency=4)
        flows = [work.workflow(project, f"flow {n}", concurrency=limit) for n, limit in enumerate((None, 3, None))]
        limits = {flow[1]: limit for flow, limit in zip(flows, (None, 3, None), strict=True)}
        keys: dict[str, str] = {}
        for _ in range(120):
            flow = chance.choice(flows)
            key = chance.choice([None, *(f"{flow[1]}/{n}" for n in range(4))])
            run = work.order(flow, order_key=key, queue=chance.choice(["default", "manual"]))
            if key:
                keys[run] = key
        lock = threading.Lock()
        order: list[str] = []
        flying: dict[str, str] = {}

        def worker(name: str) -> None:
            claims, results = Claims(store.database, derived), Results(store.database, derived)
            mine = random.Random(name)
            idle = 0
            while idle < 200 and len(order) < 120:
                taken = claims.claim(name, mine.randint(1, 6))
                idle = 0 if taken else idle + 1
                with lock:
                    for claim in taken:
                        assert claim.id not in order
                        assert keys.get(claim.id) is None or keys[claim.id] not in {keys.get(run) for run in flying}
                        order.append(claim.id)
                        flying[claim.id] = claim.workflow_id
                    for flow, limit in limits.items():
                        assert limit is None or Counter(flying.values())[flow] <= limit
                    assert sum(limits[flow] is None for flow in flying.values()) <= 4
                for claim in taken:
                    with lock:
                        # Before it is written: a claim of another may come right after.
                        del flying[claim.id]
                    results.write(name, Report(ends=[ended(claim.id)]))

        with ThreadPoolExecutor(3) as pool:
            for future in [pool.submit(worker, f"{seed}-{n}") for n in range(3)]:
                future.result()
        assert len(order) == 120
        assert set(work.states().values()) == {"success"}
        for key in set(keys.values()):
            its = [run for run in order if keys.get(run) == key]
            assert its == sorted(its)


class TestSqlite(RunsBehaviour):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        with Store.open(f"sqlite:///{tmp_path / 'store.db'}") as opened:
            yield opened

    def test_i06_a_lock_that_keeps_heartbeats_out_is_an_outage_although_the_store_can_be_read(
        self, store: Store, work: Work, claims: Claims, losses: Losses, monotonic: Monotonic
    ) -> None:
        run = work.order(work.workflow(work.project()))
        claims.claim("w1", 1)
        for _ in range(4):
            assert losses.lose_silent(60) == []
            monotonic.now += 15.5
        other = sqlite3.connect(str(store.database.engine.url.database), isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        store.database.engine.dispose()
        with store.database.read() as connection:
            connection.exec_driver_sql("PRAGMA busy_timeout = 50")
        with pytest.raises(StoreUnavailable, match="locked"):
            losses.lose_silent(60)
        other.execute("ROLLBACK")
        other.close()
        assert losses.lose_silent(60) == []
        assert work.state(run)[0] == "claimed"


class TestPostgres(RunsBehaviour):
    @pytest.fixture
    def store(self, postgres_server: PostgresServer) -> Iterator[Store]:
        with Store.open(postgres_server.create_database()) as opened:
            yield opened
