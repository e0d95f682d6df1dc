"""A million work orders: lists by every filter, full-text search, the index that is filled behind intake, retention."""

from __future__ import annotations

import statistics
import time
from argparse import Namespace
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import sqlalchemy as sa
from tests.support.postgres import PostgresServer

from bench.engine.rig import Rig
from bench.report import Bar, Result
from penstock.core.ids import first_id, new_id
from penstock.store import Store
from penstock.store.work.history_model import Order, WorkOrderFilter
from penstock.store.work.model import TriggerRow, WorkflowRow

COUNT: Final = 1_000_000
ROUNDS: Final = 7
FLOWS: Final = 20
PROJECTS: Final = 3
DAY: Final = 86_400_000_000
SPREAD: Final = 90 * DAY
FRESH: Final = 50_000
LIST_MS: Final = 200
SEARCH_MS: Final = 1_000

# Ids as `core.ids` makes them, from the time of each row; skewed workflows, of which the last was used only long ago;
# states as production has them, some rare; some retried long after.
_ORDERS: Final = """
CREATE TEMP TABLE made AS
SELECT n, at, id, overlay(id PLACING 'c' FROM 20 FOR 1) AS clip, overlay(id PLACING 'b' FROM 20 FOR 1) AS run,
  CASE WHEN n < :count / 4 AND n % 3 = 0 THEN :flows ELSE 1 + floor((:flows - 1) * power(random(), 2))::int END AS flow,
  CASE WHEN n % 100003 = 7 THEN 'killed' WHEN n % 997 = 0 THEN 'rejected' WHEN n % 100 = 1 THEN 'crashed'
    WHEN n % 100 < 5 THEN 'failed' WHEN n > :count - 500 THEN 'pending' ELSE 'success' END AS state,
  at + CASE WHEN n % 211 = 0 THEN (random() * (:last - at))::bigint ELSE 2000000 END AS active
FROM (
  SELECT n, at, lpad(to_hex(at / 1000), 12, '0') || '7' || lpad(to_hex(at % 1000), 3, '0') || '8'
    || lpad(to_hex(n), 15, '0') AS id
  FROM (SELECT n, :first + n::bigint * :step AS at FROM generate_series(1, :count) n) times
) ids
"""
_FILL: Final = (
    """
INSERT INTO penstock_dataclips (id, project_id, type, body, request, trigger_id, topic, topic_id, partition, "offset",
  inserted_at)
SELECT m.clip::uuid, f.project, 'kafka', format(
  '{"patient": "p-%s", "name": "%s", "facility": "facility-%s", "digest": "%s", "note": "%s %s", "status": "%s", '
  '"items": [{"code": "c%s", "quantity": %s}, {"code": "c%s", "quantity": 2}], "total": 12.5, '
  '"origin": "hl7 gateway %s"}',
  n, (ARRAY['Anna','Bert','Chen','Dalia','Eve','Fatou','Goran','Hana'])[1 + n % 8], n % 500, md5(n::text),
  CASE WHEN n % 1000 = 3 THEN 'urgent' ELSE 'routine' END, CASE WHEN n < :count / 2 THEN 'legacy' ELSE 'modern' END,
  m.state, n % 9973, n % 7, n % 89, n % 12), '{}', f.usual, 't', 'T', n % 12, n, at
FROM made m JOIN flows f ON f.number = m.flow
""",
    """
INSERT INTO penstock_work_orders (id, project_id, workflow_id, snapshot_id, trigger_id, dataclip_id, state,
  last_activity, inserted_at, updated_at)
SELECT m.id::uuid, f.project, f.id, f.snapshot, CASE WHEN n % 50021 = 5 THEN f.rare ELSE f.usual END, m.clip::uuid,
  state, active, at, active
FROM made m JOIN flows f ON f.number = m.flow
""",
    """
INSERT INTO penstock_runs (id, work_order_id, project_id, workflow_id, snapshot_id, dataclip_id, state, inserted_at,
  updated_at)
SELECT m.run::uuid, m.id::uuid, f.project, f.id, f.snapshot, m.clip::uuid,
  CASE state WHEN 'pending' THEN 'available' ELSE state END, at, active
FROM made m JOIN flows f ON f.number = m.flow WHERE state <> 'rejected'
""",
    """
INSERT INTO penstock_log_lines (id, run_id, source, level, message, timestamp)
SELECT overlay(m.id PLACING 'a' FROM 20 FOR 1)::uuid, m.run::uuid, 'job', 'info',
  format('posted patient %s to the registry in %s ms', n, n % 1000), at
FROM made m WHERE n % 10 = 0
""",
)

# What the index would hold of the older ones, made within the database; the newest are indexed as in production.
_WORDS: Final = (
    """
INSERT INTO penstock_work_search (work_order_id, part, words)
SELECT m.id::uuid, m.clip::uuid, array_to_tsvector(string_to_array(format(
  'patient p %s name %s facility %s digest %s note %s %s status %s items code c%s quantity %s c%s 2 total 12 5 origin '
  'hl7 gateway %s', n, (ARRAY['anna','bert','chen','dalia','eve','fatou','goran','hana'])[1 + n % 8], n % 500,
  md5(n::text), CASE WHEN n % 1000 = 3 THEN 'urgent' ELSE 'routine' END,
  CASE WHEN n < :count / 2 THEN 'legacy' ELSE 'modern' END, m.state, n % 9973, n % 7, n % 89, n % 12)
  || :body || replace(f.project::text, '-', '') || :owner || replace(f.id::text, '-', ''), ' '))
FROM made m JOIN flows f ON f.number = m.flow WHERE n <= :count - :fresh ORDER BY n
""",
    """
INSERT INTO penstock_work_search (work_order_id, part, words)
SELECT m.id::uuid, overlay(m.id PLACING 'a' FROM 20 FOR 1)::uuid, array_to_tsvector(string_to_array(
  format('posted patient %s to the registry in %s ms', n, n % 1000)
  || :log || replace(f.project::text, '-', '') || :owner || replace(f.id::text, '-', ''), ' '))
FROM made m JOIN flows f ON f.number = m.flow WHERE n % 10 = 0 AND n <= :count - :fresh ORDER BY n
""",
    """
INSERT INTO penstock_positions (name, position, updated_at)
SELECT name, (SELECT id::uuid::text FROM made WHERE n = :count - :fresh), 0 FROM unnest(ARRAY['search/bodies/soon',
  'search/bodies/late', 'search/logs/soon', 'search/logs/late']) name
""",
)


def history(_: Rig, options: Namespace) -> list[Result]:
    """A million work orders: lists by every filter, full-text search, the index of words, retention."""
    server = PostgresServer(fsync="on", synchronous_commit="on", shared_buffers="512MB", max_wal_size="4GB")
    with server, Store.open(server.create_database()) as store:
        world = _World(store, options.work_orders)
        indexed = _indexing(store, world)
        with store.database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            # As the server's own housekeeping does within minutes.
            connection.exec_driver_sql("VACUUM ANALYZE")
        return [indexed, _lists(store, world), _searches(store, world), _retention(store, world)]


class _World:
    """What the store holds."""

    def __init__(self, store: Store, count: int) -> None:
        self.count = count
        began = time.perf_counter()
        self.last = time.time_ns() // 1_000 - 600_000_000
        self.first = self.last - SPREAD
        self.projects = [store.projects.save(new_id(), f"project {number}").id for number in range(PROJECTS)]
        self.flows = [self._flow(store, number) for number in range(FLOWS)]
        with store.database.write() as connection:
            rows = [flow | {"number": number} for number, flow in enumerate(self.flows, start=1)]
            columns = ("number int", "id uuid", "project uuid", "snapshot uuid", "usual uuid", "rare uuid")
            connection.exec_driver_sql(f"CREATE TEMP TABLE flows ({', '.join(columns)})")
            names = ", ".join(column.split()[0] for column in columns)
            given = ", ".join(f":{column.split()[0]}" for column in columns)
            connection.execute(sa.text(f"INSERT INTO flows ({names}) VALUES ({given})"), rows)  # noqa: S608 - our own names
            numbers = {"count": count, "flows": FLOWS, "first": self.first, "last": self.last}
            connection.execute(sa.text(_ORDERS), numbers | {"step": SPREAD // count})
            connection.exec_driver_sql("ANALYZE made")
            for statement in _FILL:
                connection.execute(sa.text(statement.replace(":count", str(count))))
            # An index is made in one go much faster than row by row.
            connection.exec_driver_sql("DROP INDEX ix_penstock_work_search_words")
            marks = {"body": " \ue001body \ue000", "log": " \ue001log \ue000", "owner": " \ue000"}
            for statement in _WORDS:
                text = sa.text(statement.replace(":count", str(count)).replace(":fresh", str(min(FRESH, count - 1))))
                connection.execute(text, {name: value for name, value in marks.items() if f":{name}" in statement})
            connection.exec_driver_sql("SET LOCAL maintenance_work_mem = '512MB'")
            connection.exec_driver_sql(
                "CREATE INDEX ix_penstock_work_search_words ON penstock_work_search USING gin (words)"
            )

        self.seconds = round(time.perf_counter() - began)

    def _flow(self, store: Store, number: int) -> dict[str, Any]:
        project = self.projects[number % PROJECTS]
        given = WorkflowRow(id=new_id(), project_id=project, name=f"workflow {number}")
        usual, rare = (TriggerRow(id=new_id(), workflow_id="", name=name) for name in ("usual", "rare"))
        made = store.workflows.apply(given, {}, "v1", [usual, rare])
        return {"id": made.id, "project": project, "snapshot": made.snapshot_id, "usual": usual.id, "rare": rare.id}

    def filters(self) -> dict[str, WorkOrderFilter]:
        """Every filter alone, frequent and rare, and combinations that no index begins with."""
        busy, quiet, old = (self.flows[at]["id"] for at in (0, FLOWS - 2, FLOWS - 1))
        middle = self.first + SPREAD // 2
        flow = WorkOrderFilter(workflow_id=busy)
        return {
            "none": WorkOrderFilter(),
            "project": WorkOrderFilter(project_id=self.projects[0]),
            "workflow": flow,
            "workflow (quiet)": WorkOrderFilter(workflow_id=quiet),
            "workflow (only long ago)": WorkOrderFilter(workflow_id=old),
            "trigger": WorkOrderFilter(trigger_id=self.flows[0]["usual"]),
            "trigger (rare)": WorkOrderFilter(trigger_id=self.flows[0]["rare"]),
            "state": WorkOrderFilter(states=("success",)),
            "states": WorkOrderFilter(states=("failed", "crashed", "lost")),
            "state (rare)": WorkOrderFilter(states=("killed",)),
            "state (absent)": WorkOrderFilter(states=("lost",)),
            "received after": WorkOrderFilter(received_after=self.last - DAY),
            "received before": WorkOrderFilter(received_before=middle),
            "received within": WorkOrderFilter(received_after=middle, received_before=middle + DAY),
            "active after": WorkOrderFilter(active_after=self.last - DAY),
            "active before": WorkOrderFilter(active_before=middle),
            "active within": WorkOrderFilter(active_after=middle, active_before=middle + DAY),
            "active of late, received long ago": WorkOrderFilter(active_after=self.last - DAY, received_before=middle),
            "the usual thirty days": WorkOrderFilter(project_id=self.projects[1], active_after=self.last - 30 * DAY),
            "one work order": WorkOrderFilter(ids=(first_id(0),)),
            "workflow, state": replace(flow, states=("failed",)),
            "workflow, state (rare)": replace(flow, states=("killed",)),
            "workflow, rare trigger, state": replace(flow, trigger_id=self.flows[0]["rare"], states=("success",)),
            "workflow, state, both times": replace(
                flow, states=("success",), received_before=middle, active_after=self.last - DAY
            ),
            "project, state, long ago": WorkOrderFilter(
                project_id=self.projects[0], states=("crashed",), received_before=self.first + DAY
            ),
        }

    def terms(self) -> dict[str, WorkOrderFilter]:
        some = self.count // 3
        return {
            "one word in all": WorkOrderFilter(term="gateway"),
            "one patient": WorkOrderFilter(term=f"p {some}"),
            "a digest's beginning": WorkOrderFilter(term="c4ca4238"),
            "in one of a thousand": WorkOrderFilter(term="urgent"),
            "in half, long ago": WorkOrderFilter(term="legacy"),
            "in half, long ago, with a rare state": WorkOrderFilter(term="legacy", states=("killed",)),
            "three words": WorkOrderFilter(term="dalia urgent facility"),
            "a beginning": WorkOrderFilter(term="urg"),
            "one letter": WorkOrderFilter(term="u"),
            "nowhere": WorkOrderFilter(term="zebra"),
            "logs": WorkOrderFilter(term=f"posted {some // 10 * 10}"),
            "logs only": WorkOrderFilter(term="registry", fields=frozenset({"log"})),
            "in one workflow": WorkOrderFilter(term="dalia", workflow_id=self.flows[5]["id"]),
            "in a workflow of long ago": WorkOrderFilter(term="modern", workflow_id=self.flows[FLOWS - 1]["id"]),
            "in one project, failed": WorkOrderFilter(
                term="urgent", project_id=self.projects[2], states=("failed", "crashed")
            ),
            "an id's beginning": WorkOrderFilter(term=first_id(self.last)[:13]),
        }


def _indexing(store: Store, world: _World) -> Result:
    began, cpu, rows = time.perf_counter(), time.process_time(), 0
    took = []
    while True:
        before = time.perf_counter()
        done = store.search.index_some(5_000)
        if not done:
            break
        took.append(time.perf_counter() - before)
        rows += done
    seconds = time.perf_counter() - began
    texts = FRESH + FRESH // 10
    figures = {
        "texts_per_s": round(texts / seconds),
        "longest_call_ms": round(max(took) * 1000),
        "own_cpu_s": round(time.process_time() - cpu, 1),
        "server_and_own_s": round(seconds, 1),
        "rows_looked_at": rows,
        "fill_s": world.seconds,
        **_sizes(store),
    }
    what = (
        f"{texts:,} bodies of 300 B and log lines, 5,000 per call, made searchable with nothing else running, "
        f"behind {world.count - FRESH:,} work orders that are so already."
    )
    return Result(name="history: index of words", what=what, figures=figures)


def _lists(store: Store, world: _World) -> Result:
    def page(which: WorkOrderFilter, order: Order) -> Callable[[], int]:
        return lambda: len(store.history.list(which, order=order))

    figures: dict[str, Any] = {}
    rows: dict[str, int] = {}
    for name, which in world.filters().items():
        for order in ("created", "activity"):
            what = f"{name}, by {order}: ms"
            figures[what], rows[what] = _timed(page(which, order))
    bars = [Bar(figure=name, at_most=LIST_MS) for name in figures]
    for name in ("none", "project", "workflow", "states"):
        which = world.filters()[name]
        figures[f"count, {name}: ms"], _ = _timed(lambda which=which: store.history.count(which).number)  # type: ignore[misc]
    what = f"A page of 10 with its runs out of {world.count:,} work orders, the slowest of {ROUNDS} times."
    return Result(name="history: lists", what=what, figures=figures | {"rows": rows}, bars=bars)


def _searches(store: Store, world: _World) -> Result:
    figures: dict[str, Any] = {}
    rows: dict[str, int] = {}
    for name, which in world.terms().items():
        for order in ("created", "activity"):
            what = f"{name}, by {order}: ms"
            figures[what], rows[what] = _timed(
                lambda which=which, order=order: len(store.history.list(which, order=order))  # type: ignore[misc]
            )
        figures[f"{name}, count: ms"], _ = _timed(lambda which=which: store.history.count(which).number)  # type: ignore[misc]
    bars = [Bar(figure=name, at_most=SEARCH_MS) for name in figures]
    what = f"The same with a term; counts end at 50. The slowest of {ROUNDS} times."
    return Result(name="history: search", what=what, figures=figures | {"rows": rows}, bars=bars)


def _retention(store: Store, world: _World) -> Result:
    store.projects.save(world.projects[0], "project 0", history_retention=80)
    store.projects.save(world.projects[1], "project 1", dataclip_retention=80, retention_policy="retain_with_errors")
    took, deleted, wiped = [], 0, 0
    for _ in range(40):
        began = time.perf_counter()
        piece = store.retention.sweep()
        took.append((time.perf_counter() - began) * 1000)
        deleted, wiped = deleted + piece.deleted, wiped + piece.wiped
    figures = {
        "sweep_median_ms": round(statistics.median(took)),
        "sweep_longest_ms": round(max(took)),
        "deleted_per_s": round(deleted / sum(took) * 1000),
        "wiped_per_s": round(wiped / sum(took) * 1000),
    }
    what = "Work orders deleted and dataclips wiped, 40 pieces, three transactions in each."
    return Result(name="history: retention", what=what, figures=figures)


def _timed(work: Callable[[], int]) -> tuple[float, int]:
    """Milliseconds of the slowest time, the first one included, and what was found."""
    took, found = [], 0
    for _ in range(ROUNDS):
        began = time.perf_counter()
        found = work()
        took.append((time.perf_counter() - began) * 1000)
    return round(max(took), 1), found


def _sizes(store: Store) -> dict[str, Any]:
    tables = ("work_orders", "runs", "dataclips", "work_search")
    size = sa.text("SELECT pg_total_relation_size(:table) / 1000000")
    with store.database.read() as connection:
        return {f"{name}_mb": connection.scalar(size, {"table": f"penstock_{name}"}) for name in tables}
