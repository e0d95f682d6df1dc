"""JSON events of eight columns into PostgreSQL: exactly once, beside consumers as people write them."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from argparse import Namespace

import orjson
from tests.support.instance import PenstockProcess
from tests.support.postgres import PostgresServer
from tests.support.waiting import until

from bench.engine.rig import ROOT, Rig
from bench.report import Bar, Result
from bench.tables.database import counted, execute, plain, taken

EVENTS = 600_000
MANY_EVENTS = 60_000
ROW_EVENTS = 6_000
PARTITIONS = 4
COLUMNS = {
    "number": {"from": "n", "type": "bigint"},
    "made_at": {"from": "t", "type": "bigint"},
    "id": {"from": "order.id", "type": "text"},
    "status": {"from": "order.status", "type": "text"},
    "total": {"from": "order.total", "type": "float"},
    "currency": {"from": "order.currency", "type": "text"},
    "customer": {"from": "customer.name", "type": "text"},
    "email": {"from": "customer.email", "type": "text"},
}
_MAKE = (
    "CREATE TABLE {table} (number bigint, made_at bigint, id text, status text, total double precision,"
    " currency text, customer text, email text)"
)


def tables(rig: Rig, options: Namespace) -> list[Result]:
    """Rows per second into PostgreSQL, exactly once, against a row at a time and `executemany` of 500."""
    # As a server is run: what is committed is on disk, for both sides.
    with PostgresServer(fsync="on", synchronous_commit="on") as server:
        url = server.create_database()
        (topic,) = rig.topics("rows", 1, PARTITIONS)
        rig.produce("preload", [topic], partitions=PARTITIONS, count=EVENTS)
        rates: dict[str, list[float]] = {"penstock": [], "row": [], "many": []}
        problems: list[str] = []
        for number in range(options.rounds):
            rates["penstock"].append(rate(rig, url, topic, f"tables-{number}", problems, events=EVENTS))
            rates["many"].append(_reference(rig, url, topic, "many", number=number, count=MANY_EVENTS))
            rates["row"].append(_reference(rig, url, topic, "row", number=number, count=ROW_EVENTS))
    medians = {name: statistics.median(found) for name, found in rates.items()}
    figures = {f"{name}_rows_per_s": round(rate) for name, rate in medians.items()}
    figures["times_row_by_row"] = round(medians["penstock"] / medians["row"], 1)
    figures["times_executemany"] = round(medians["penstock"] / medians["many"], 1)
    what = (
        f"{EVENTS:,} JSON events of 300 B, eight columns, {PARTITIONS} partitions, into PostgreSQL with fsync and "
        f"synchronous_commit on; medians of {options.rounds} alternating runs."
    )
    bars = [
        Bar(figure="penstock_rows_per_s", at_least=40_000),
        Bar(figure="times_row_by_row", at_least=20),
        Bar(figure="times_executemany", at_least=3),
    ]
    return [Result(name="tables", what=what, figures=figures, bars=bars, problems=problems)]


def rate(
    rig: Rig, url: str, topic: str, name: str, problems: list[str], *, events: int, fill: str = "", there: int = 0
) -> float:
    """Between the moments at which a tenth and all of the rows are there; each round has a group of its own.

    `fill` puts in rows before, `there` of them."""
    table = name.replace("-", "_")
    execute(url, _MAKE.format(table=table))
    if fill:
        execute(url, fill.format(table=table))
        execute(url, f"VACUUM ANALYZE {table}")
    # What was written before is nobody's burden.
    execute(url, "CHECKPOINT")
    folder = rig.folder / name
    folder.mkdir()
    spec = {
        "name": name,
        "source": {
            "type": "kafka",
            "config": {
                "connection": {"bootstrap": rig.broker.bootstrap},
                "topics": [topic],
                "format": "json",
                "start": "earliest",
            },
        },
        "action": {"type": "table", "config": {"url": url, "table": table, "columns": COLUMNS}},
    }
    (folder / "pipeline.yaml").write_bytes(orjson.dumps(spec))
    process = PenstockProcess(["run", folder], folder=folder / "run", env={"PENSTOCK_HOME": str(rig.home)})
    with process:
        # By the cursor, which is four rows: counting hundreds of thousands again and again takes from both cores.
        until(lambda: taken(url, name) >= events // 10, 180, "the first rows", every_s=0.1)
        before, first = taken(url, name), time.perf_counter()
        until(lambda: taken(url, name) >= events, 300, "all rows", every_s=0.1)
        seconds = time.perf_counter() - first
        until(lambda: rig.broker.lag(name, topic) == 0, 60, "all is committed")
        process.stop(60)
    found = counted(url, table)
    if found != events + there:
        problems.append(f"{name}: {found:,} rows of {events:,} events and {there:,} before")
    execute(url, f"DROP TABLE {table}")
    return (events - before) / seconds


def _reference(rig: Rig, url: str, topic: str, way: str, *, number: int, count: int) -> float:
    table = f"{way}_{number}"
    execute(url, _MAKE.format(table=table))
    execute(url, "CHECKPOINT")
    command = [sys.executable, "-m", "bench.tables.reference", way, "--bootstrap", rig.broker.bootstrap]
    command += ["--topic", topic, "--group", f"{way}-{number}", "--url", plain(url), "--table", table]
    done = subprocess.run([*command, "--count", str(count)], cwd=ROOT, capture_output=True, text=True, check=True)
    execute(url, f"DROP TABLE {table}")
    told = json.loads(done.stdout)
    return float(told["rows"] / told["seconds"])
