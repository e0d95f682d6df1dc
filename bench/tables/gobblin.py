"""Gobblin's tracking events through their processors into the staging tables of WhereHows."""

from __future__ import annotations

import statistics
import threading
import time
from argparse import Namespace

from tests.support.instance import PenstockProcess
from tests.support.postgres import PostgresServer
from tests.support.waiting import until

from bench.engine.rig import Rig
from bench.report import Bar, Result
from bench.tables.database import counted, plain, taken
from penstock.config.spec import ConnectionSpec
from penstock.service.samples import Produced, SampleRegistry, job_text, produce_samples
from penstock.tables.creation import create_tables
from penstock.tables.target import Target

TOPICS = ("GobblinTrackingEvent", "GobblinTrackingEvent_distcp_ng", "GobblinTrackingEvent_lumos")
PARTITIONS = 2
EVENTS = 100_000
"""Of each topic."""


def gobblin(rig: Rig, options: Namespace) -> list[Result]:
    """Rows per second of Gobblin tracking events in Avro, exactly once, into PostgreSQL."""
    registry = SampleRegistry("127.0.0.1:0")
    threading.Thread(target=registry.serve, daemon=True).start()
    for topic in TOPICS:
        rig.broker.create_topic(topic, PARTITIONS)
    produced = produce_samples(
        ConnectionSpec(bootstrap=rig.broker.bootstrap), TOPICS, EVENTS, registry=None, dialect="linkedin"
    )
    job = job_text(rig.broker.bootstrap, registry.url, "linkedin", produced)
    problems: list[str] = []
    with PostgresServer(fsync="on", synchronous_commit="on") as server:
        rates = []
        for number in range(options.rounds):
            url = server.create_database()
            rates.append(_rate(rig, url, job, number))
            problems += _wrong(url, produced)
    what = (
        f"{EVENTS:,} events of each of {', '.join(TOPICS)} through their processors, "
        f"into PostgreSQL with fsync and synchronous_commit on; median of {options.rounds}."
    )
    figures = {"rows_per_s": round(statistics.median(rates)), "rounds": [round(rate) for rate in rates]}
    bars = [Bar(figure="rows_per_s", at_least=20_000)]
    return [Result(name="gobblin", what=what, figures=figures, bars=bars, problems=problems)]


def _rate(rig: Rig, url: str, job: str, number: int) -> float:
    """Between the moments at which a tenth and all of the events are taken; each round has a group of its own."""
    target = Target(url)
    create_tables(target)
    target.close()
    folder = rig.folder / f"gobblin-{number}"
    folder.mkdir()
    file = folder / "gobblin.job"
    file.write_text(job.replace("group.id=wherehows-samples", f"group.id=gobblin-{number}"))
    env = {"PENSTOCK_HOME": str(rig.home), "WHZ_DB_URL": url}
    total = EVENTS * len(TOPICS)
    with PenstockProcess(["run", file], folder=folder / "run", env=env) as process:
        until(lambda: taken(url) >= total // 10, 180, lambda: process.log[-3000:], every_s=0.1)
        before, first = taken(url), time.perf_counter()
        until(lambda: taken(url) >= total, 300, lambda: process.log[-3000:], every_s=0.1)
        seconds = time.perf_counter() - first
        process.stop(60)
    return (total - before) / seconds


def _wrong(url: str, produced: list[Produced]) -> list[str]:
    rows = {each.table: counted(plain(url), each.table) for each in produced}
    return [f"{found:,} rows in {table} of {EVENTS:,} events" for table, found in rows.items() if found != EVENTS]
