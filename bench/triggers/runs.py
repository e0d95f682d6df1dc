"""Messages of 300 B become finished runs: how many per second, and how long a single one takes."""

from __future__ import annotations

import statistics
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import orjson
import psycopg
from tests.support.instance import PenstockProcess
from tests.support.postgres import PostgresServer
from tests.support.waiting import until

from bench.engine.rig import Rig
from bench.report import Bar, Result

MESSAGES: Final = 20_000
PARTITIONS: Final = 4
_PAUSE: Final = 2.0
STEP: Final = Path(__file__).with_name("trivial.py")
_FINISHED: Final = "SELECT count(*) FROM penstock_runs WHERE finished_at IS NOT NULL"
_LATENCY: Final = """
SELECT r.finished_at / 1000.0 - (d.request::json ->> 'ts')::bigint FROM penstock_runs r
JOIN penstock_dataclips d ON d.id = r.dataclip_id ORDER BY r.finished_at DESC LIMIT %s
"""


def runs(rig: Rig, options: Namespace) -> list[Result]:
    """Runs per second from Kafka to their end in PostgreSQL, and from a produced message to its finished run."""
    rates, results = [], []
    problems: list[str] = []
    # As a server is run: what is committed is on disk.
    with PostgresServer(fsync="on", synchronous_commit="on", shared_buffers="256MB") as server:
        for number in range(options.rounds):
            with _instance(rig, server.create_database(), f"round-{number}") as (process, url, topic):
                rates.append(_rate(rig, process, url, topic, problems))
                if number == 0:
                    results.append(_idle(rig, process, url, topic, options.samples))
    what = (
        f"{MESSAGES:,} messages of 300 B in {PARTITIONS} partitions: intake, then one trivial Python step per run in "
        f"shared processes, logs and dataclips on; PostgreSQL with fsync and synchronous_commit on; between a tenth "
        f"and all of the runs, median of {options.rounds}."
    )
    figures = {"runs_per_s": round(statistics.median(rates)), "rounds": [round(rate) for rate in rates]}
    bars = [Bar(figure="runs_per_s", at_least=500)]
    return [Result(name="runs", what=what, figures=figures, bars=bars, problems=problems), *results]


@contextmanager
def _instance(rig: Rig, url: str, name: str) -> Iterator[tuple[PenstockProcess, str, str]]:
    """The product with one workflow; ended gracefully."""
    (topic,) = rig.topics(name, 1, PARTITIONS)
    folder = rig.folder / name
    folder.mkdir()
    kafka = {"hosts": [rig.broker.bootstrap], "topics": [topic], "initial_offset_reset_policy": "earliest"}
    workflow = {
        "kind": "workflow",
        "project": "bench",
        "name": name,
        "triggers": [{"name": "kafka", **kafka}],
        "steps": [{"name": "greet", "python": f"{STEP}:greet"}],
    }
    (folder / "workflow.yaml").write_bytes(orjson.dumps(workflow, option=orjson.OPT_INDENT_2))
    env = {"PENSTOCK_HOME": str(rig.home), "PENSTOCK_STORE_URL": url}
    process = PenstockProcess(["run", folder / "workflow.yaml"], folder=folder / "run", env=env)
    with process:
        process.wait_ready(120)
        yield process, url, topic
        if (code := process.stop(60)) != 0:
            raise RuntimeError(f"penstock ended with {code}:\n{process.log[-3000:]}")


def _rate(rig: Rig, process: PenstockProcess, url: str, topic: str, problems: list[str]) -> float:
    rig.produce("preload", [topic], partitions=PARTITIONS, count=MESSAGES)
    until(lambda: _count(url) >= MESSAGES // 10, 120, lambda: process.log[-3000:], every_s=0.2)
    before, began = _count(url), time.perf_counter()
    until(lambda: _count(url) >= MESSAGES, 300, lambda: f"{_count(url)} of {MESSAGES}", every_s=0.2)
    seconds = time.perf_counter() - began
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute("SELECT count(*) FROM penstock_runs WHERE state = 'success'").fetchone()
        lines = connection.execute("SELECT count(*) FROM penstock_log_lines").fetchone()
    if found != (MESSAGES,) or lines != (MESSAGES,):
        problems.append(f"of {MESSAGES:,} messages {found} runs succeeded, with {lines} log lines")
    return (MESSAGES - before) / seconds


def _idle(rig: Rig, process: PenstockProcess, url: str, topic: str, samples: int) -> Result:
    """Single messages with pauses between them."""
    for number in range(samples):
        # The pause is what is measured here: nothing may happen in it.
        time.sleep(_PAUSE)
        rig.produce("pace", [topic], rate=1, seconds=1, first=MESSAGES + number)
    until(lambda: _count(url) >= MESSAGES + samples, 60, lambda: process.log[-3000:])
    with psycopg.connect(url, autocommit=True) as connection:
        taken = sorted(float(row[0]) for row in connection.execute(_LATENCY, (samples,)))
    figures = {
        "p50_ms": round(statistics.median(taken)),
        "p90_ms": round(taken[int(len(taken) * 0.9)]),
        "max_ms": round(taken[-1]),
    }
    what = (
        f"From a produced message to its finished run, idle otherwise: {samples} messages, {_PAUSE:g} s and more apart."
    )
    return Result(name="run latency", what=what, figures=figures, bars=[Bar(figure="p50_ms", at_most=300)])


def _count(url: str) -> int:
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute(_FINISHED).fetchone()
    return int(found[0]) if found else 0
