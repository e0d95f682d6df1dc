"""Three hundred enabled triggers of which few have messages: what one instance takes."""

from __future__ import annotations

from argparse import Namespace
from typing import Final

import orjson
from tests.support.instance import PenstockProcess
from tests.support.postgres import PostgresServer
from tests.support.waiting import until

from bench.engine.rig import Rig, Usage
from bench.report import Bar, Result
from bench.tables.database import counted
from bench.triggers.runs import STEP

TRIGGERS: Final = 300
BUSY: Final = 6
"""Triggers that have messages."""
RATE: Final = 1
"""Messages a second, of all of them together."""
SECONDS: Final = 60
_ORDERS: Final = "penstock_work_orders"


def resting(rig: Rig, _: Namespace) -> list[Result]:
    """Processor and memory of an instance with 300 enabled triggers, of which six have a message every six seconds."""
    topics = rig.topics("resting", TRIGGERS, 1)
    folder = rig.folder / "workflows"
    folder.mkdir()
    for number, topic in enumerate(topics):
        kafka = {"hosts": [rig.broker.bootstrap], "topics": [topic], "initial_offset_reset_policy": "earliest"}
        workflow = {
            "kind": "workflow",
            "project": "bench",
            "name": f"w{number}",
            "triggers": [{"name": "kafka", **kafka}],
            "steps": [{"name": "greet", "python": f"{STEP}:greet"}],
        }
        (folder / f"w{number}.yaml").write_bytes(orjson.dumps(workflow))
    with PostgresServer(fsync="on", synchronous_commit="on") as server:
        url = server.create_database()
        env = {"PENSTOCK_HOME": str(rig.home), "PENSTOCK_STORE_URL": url}
        with PenstockProcess(["run", folder], folder=rig.folder / "run", env=env) as process:
            process.wait_ready(300)
            rig.produce("pace", topics, rate=TRIGGERS, seconds=1)
            until(lambda: counted(url, _ORDERS) == TRIGGERS, 300, lambda: f"{counted(url, _ORDERS)} of {TRIGGERS}")
            until(lambda: _resting(process) >= TRIGGERS - BUSY, 300, lambda: f"{_resting(process)} triggers rest")
            usage = Usage(process)
            rig.produce("pace", topics[:BUSY], rate=RATE, seconds=SECONDS, first=TRIGGERS)
            used = usage.close()
            total = TRIGGERS + RATE * SECONDS
            until(lambda: counted(url, _ORDERS) == total, 120, lambda: f"{counted(url, _ORDERS)} of {total}")
            code = process.stop(120)
    figures = {"cpu_percent_of_a_core": used["cpu_percent_of_a_core"], "rss_mb": used["rss_mb_max"]}
    what = (
        f"{TRIGGERS} enabled triggers with a topic each in one instance, {BUSY} of them with {RATE} message a second "
        f"together, for {SECONDS} s: processor time and memory of all its processes, Spark included, the databases not."
    )
    bars = [Bar(figure="cpu_percent_of_a_core", at_most=25), Bar(figure="rss_mb", at_most=1_536)]
    problems = [] if code == 0 else [f"penstock ended with {code}"]
    return [Result(name="resting triggers", what=what, figures=figures, bars=bars, problems=problems)]


def _resting(process: PenstockProcess) -> int:
    pipelines = process.get("/health/ready").json()["pipelines"]
    return sum(pipeline["state"] == "idle" for pipeline in pipelines)
