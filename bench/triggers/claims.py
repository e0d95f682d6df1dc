"""What a claim costs beside a long history, and beside a workflow whose backlog must wait."""

from __future__ import annotations

import statistics
import time
from argparse import Namespace
from typing import Final

import psycopg
from tests.support.postgres import PostgresServer
from tests.support.work import Work

from bench.engine.rig import Rig
from bench.report import Bar, Result
from penstock.store import Store
from penstock.store.work.claims import Claims
from penstock.workflows.states import derived

HISTORY: Final = 1_000_000
BACKLOG: Final = 100_000
_CLAIMS: Final = 40
_AT_ONCE: Final = 50
_MANY: Final = """
INSERT INTO penstock_runs (id, work_order_id, project_id, workflow_id, snapshot_id, state, order_key, options,
  inserted_at, updated_at, finished_at)
SELECT gen_random_uuid(), gen_random_uuid(), %(project)s, %(workflow)s, %(snapshot)s, %(state)s, %(key)s, '{}', n, n, n
FROM generate_series(1, %(count)s) AS n
"""


def claims(rig: Rig, options: Namespace) -> list[Result]:  # noqa: ARG001 - as of the other benchmarks
    """Milliseconds of a claim of 50 runs: in an empty store, beside a million ended ones, beside backlogs."""
    with PostgresServer(fsync="on", synchronous_commit="on", shared_buffers="256MB") as server:
        url = server.create_database()
        with Store.open(url) as store:
            work = Work(store.database)
            project = work.project()
            flow = work.workflow(project, "measured")
            figures = {"claim_ms_empty": _timed(store, work, flow)}
            _fill(url, flow, "success", HISTORY)
            figures["claim_ms_history"] = _timed(store, work, flow)
            _fill(url, work.workflow(project, "limited", concurrency=0), "available", BACKLOG)
            _fill(url, work.workflow(project, "ordered"), "available", BACKLOG, key="one/key")
            figures["claim_ms_backlogs"] = _timed(store, work, flow)
    what = (
        f"Median of {_CLAIMS} claims of {_AT_ONCE} runs: in an empty store; beside {HISTORY:,} runs that have ended; "
        f"also beside {BACKLOG:,} runs of a workflow that may run none, and {BACKLOG:,} of one order key."
    )
    bars = [Bar(figure="claim_ms_backlogs", at_most=round(3 * figures["claim_ms_empty"] + 5, 1))]
    return [Result(name="claims", what=what, figures=figures, bars=bars)]


def _fill(url: str, flow: tuple[str, str, str], state: str, count: int, key: str | None = None) -> None:
    given = dict(zip(("project", "workflow", "snapshot"), flow, strict=True)) | {"state": state, "key": key}
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_MANY, given | {"count": count})
        connection.execute("VACUUM ANALYZE penstock_runs")


def _timed(store: Store, work: Work, flow: tuple[str, str, str]) -> float:
    work.orders(flow, [None] * (_CLAIMS + 1) * _AT_ONCE)
    found, taken = Claims(store.database, derived), []
    for number in range(_CLAIMS + 1):
        began = time.perf_counter()
        claimed = found.claim(f"bench-{number}", _AT_ONCE)
        taken.append(1_000 * (time.perf_counter() - began))
        assert claimed, "nothing was claimed"
    return round(statistics.median(taken[1:]), 2)
