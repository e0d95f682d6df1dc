"""Messages of 300 B become work orders in PostgreSQL: exactly once, beside a program that writes Lightning's rows."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from argparse import Namespace
from typing import Final

import orjson
import psycopg
from tests.support.desk import Desk
from tests.support.instance import PenstockProcess
from tests.support.postgres import PostgresServer
from tests.support.waiting import until

from bench.engine.producer import payload
from bench.engine.rig import ROOT, Rig
from bench.report import Bar, Result
from penstock.act.work_order import WorkOrder
from penstock.core.event import Event, Record
from penstock.core.plugin import PipelineContext
from penstock.tables.action import Chunk
from penstock.tables.cursor import Place

MESSAGES: Final = 300_000
REFERENCE_MESSAGES: Final = 4_000
WRITTEN: Final = 200_000
PARTITIONS: Final = 4
_AT_ONCE: Final = 5_000


def intake(rig: Rig, options: Namespace) -> list[Result]:
    """Work orders per second into PostgreSQL, against Lightning's four rows in one transaction per message."""
    (topic,) = rig.topics("messages", 1, PARTITIONS)
    rig.produce("preload", [topic], partitions=PARTITIONS, count=MESSAGES)
    rates: dict[str, list[float]] = {"penstock": [], "lightning": []}
    problems: list[str] = []
    with _server() as server:
        for number in range(options.rounds):
            rates["penstock"].append(_ours(rig, server, topic, number, problems))
            rates["lightning"].append(_reference(rig, server, topic, number))
        written = write_path(server)
    medians = {name: statistics.median(found) for name, found in rates.items()}
    figures = {
        "work_orders_per_s": round(medians["penstock"]),
        "reference_per_s": round(medians["lightning"]),
        "times_reference": round(medians["penstock"] / medians["lightning"], 1),
        "write_path_per_s": round(written),
        "rounds": {name: [round(rate) for rate in found] for name, found in rates.items()},
    }
    what = (
        f"{MESSAGES:,} messages of 300 B in {PARTITIONS} partitions become dataclip, work order and run in PostgreSQL "
        f"with fsync and synchronous_commit on; medians of {options.rounds} alternating runs. `write_path`: without "
        "Kafka and Spark, one process."
    )
    bars = [Bar(figure="work_orders_per_s", at_least=10_000), Bar(figure="times_reference", at_least=20)]
    return [Result(name="intake", what=what, figures=figures, bars=bars, problems=problems)]


def _server() -> PostgresServer:
    # As a server is run: what is committed is on disk, for both sides.
    return PostgresServer(fsync="on", synchronous_commit="on", shared_buffers="512MB", max_wal_size="4GB")


def _ours(rig: Rig, server: PostgresServer, topic: str, number: int, problems: list[str]) -> float:
    """Between the moments at which a tenth and all of the messages are taken in; each round has a store of its own."""
    desk = Desk(server.create_database())
    # Intake alone is measured: no run of the project is claimed.
    desk.execute("UPDATE penstock_projects SET concurrency = 0")
    name = f"trigger-{desk.trigger}"
    folder = rig.folder / name
    folder.mkdir()
    source = {"connection": {"bootstrap": rig.broker.bootstrap}, "topics": [topic], "format": "raw"}
    spec = {
        "name": name,
        "source": {"type": "kafka", "config": {**source, "start": "earliest"}},
        "action": desk.action(backlog=10 * MESSAGES),
    }
    (folder / "pipeline.yaml").write_bytes(orjson.dumps(spec))
    env = {"PENSTOCK_HOME": str(rig.home), "PENSTOCK_STORE_URL": desk.url}
    with PenstockProcess(["run", folder / "pipeline.yaml"], folder=folder / "run", env=env) as process:
        until(
            lambda: _taken(desk) >= MESSAGES // 10,
            300,
            lambda: f"the first messages\n{process.log[-3000:]}",
            every_s=0.1,
        )
        before, first = _taken(desk), time.perf_counter()
        until(lambda: _taken(desk) >= MESSAGES, 300, "all messages", every_s=0.1)
        seconds = time.perf_counter() - first
        until(lambda: rig.broker.lag(name, topic) == 0, 60, "all is committed")
        process.stop(60)
    counts = {table: desk.count(table) for table in ("dataclips", "work_orders", "runs")}
    if set(counts.values()) != {MESSAGES}:
        problems.append(f"round {number}: {MESSAGES:,} messages became {counts}")
    desk.close()
    return (MESSAGES - before) / seconds


def _taken(desk: Desk) -> int:
    """By the cursors: counting rows would take the server's time."""
    try:
        with psycopg.connect(desk.url, autocommit=True) as connection:
            found = connection.execute("SELECT coalesce(sum(next_offset), 0) FROM penstock_cursors").fetchone()
    except psycopg.errors.UndefinedTable:
        return 0
    return int(found[0]) if found else 0


def _reference(rig: Rig, server: PostgresServer, topic: str, number: int) -> float:
    url = server.create_database()
    command = [sys.executable, "-m", "bench.triggers.lightning", "--bootstrap", rig.broker.bootstrap]
    command += ["--topic", topic, "--group", f"lightning-{number}", "--url", url, "--count", str(REFERENCE_MESSAGES)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    told = json.loads(done.stdout)
    return float(told["messages"] / told["seconds"])


def write_path(server: PostgresServer, messages: int = WRITTEN) -> float:
    """Messages per second from memory into the store, by one process."""
    desk = Desk(server.create_database())
    place = Place("trigger-write-path", "topic-id", 0, "messages")
    action = WorkOrder.create(desk.action(backlog=10 * messages)["config"], PipelineContext(place.pipeline))
    action.open(place, 0)
    value = payload(1, 1)
    began = time.perf_counter()
    for start in range(0, messages, _AT_ONCE):
        end = min(start + _AT_ONCE, messages)
        events = [Event(Record("messages", 0, n, b"key", value, None, 1, 1), value, "") for n in range(start, end)]
        action.put(Chunk(place, start, end, events))
    seconds = time.perf_counter() - began
    action.close()
    desk.close()
    return messages / seconds


if __name__ == "__main__":
    # The write path alone, for profiling: `python -m bench.triggers.intake [MESSAGES]`.
    with _server() as alone:
        print(round(write_path(alone, int(sys.argv[1]) if len(sys.argv) > 1 else WRITTEN)))
