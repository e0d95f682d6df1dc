"""Both sides as processes on common ground: one broker, one registry, topics that were filled once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import orjson
import psutil
from tests.support.children import CHILDREN
from tests.support.instance import PENSTOCK, PenstockProcess
from tests.support.registry import RegistryServer
from tests.support.waiting import until

from bench.datahub.cases import Case
from bench.datahub.environment import ROOT, datahub_penstock, peer_environment, schema
from bench.datahub.records import MCL_SCHEMA, MCL_TOPIC, PE_SCHEMA, PE_TOPIC
from bench.engine.rig import Rig
from bench.engine.seen import Seen

PARTITIONS = 4
SETTLED_S = 15.0
"""Lanes start one after the other behind the first ones; what is measured is not about starting."""


class PeerProcess:
    """`datahub-actions` in its own environment."""

    def __init__(self, pipeline: Path, *, folder: Path, env: dict[str, str]) -> None:
        self._pipeline = pipeline
        self._folder = folder
        self._env = os.environ | {"DATAHUB_TELEMETRY_ENABLED": "false"} | env
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        command = [str(peer_environment() / "bin" / "datahub-actions"), "actions", "run", "-c", str(self._pipeline)]
        with (self._folder / "log.txt").open("ab") as log:
            self._process = CHILDREN.spawn(command, name="datahub-actions", output=log, env=self._env, cwd=ROOT)
        return self

    def tree(self) -> list[psutil.Process]:
        assert self._process
        root = psutil.Process(self._process.pid)
        return [root, *root.children(recursive=True)]

    def stop(self, deadline_s: float = 45.0) -> int:
        assert self._process
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(timeout=deadline_s)

    def __exit__(self, *_: object) -> None:
        assert self._process
        self._process.kill()
        self._process.wait(timeout=10)
        CHILDREN.ended(self._process)


class Ground:
    """Broker, registry and topics; runs take place on it one after the other."""

    def __init__(self, rig: Rig, *, logs: int, changes: int) -> None:
        self.rig = rig
        self.totals = {MCL_TOPIC: logs, PE_TOPIC: changes}
        self.registry = RegistryServer()
        self._runs = 0

    def __enter__(self) -> Self:
        self.registry.start()
        self._schema_ids = {
            name: self.registry.register(f"{topic}-value", schema(name))
            for name, topic in ((MCL_SCHEMA, MCL_TOPIC), (PE_SCHEMA, PE_TOPIC))
        }
        for what, topic in (("logs", MCL_TOPIC), ("changes", PE_TOPIC)):
            self.rig.broker.create_topic(topic, PARTITIONS)
            self.produce(what, topic, partitions=PARTITIONS, count=self.totals[topic])
        return self

    def __exit__(self, *_: object) -> None:
        self.registry.close()

    def produce(self, what: str, topic: str, **options: float) -> None:
        """Run the producer to its end."""
        number = self._schema_ids[MCL_SCHEMA if what == "logs" else PE_SCHEMA]
        command = [sys.executable, "-m", "bench.datahub.producer", what, "--bootstrap", self.rig.broker.bootstrap]
        command += ["--topic", topic, "--schema-id", str(number)]
        for name, value in options.items():
            command += [f"--{name}", str(value)]
        subprocess.run(command, cwd=ROOT, check=True)

    def prepared(self, case: Case) -> tuple[PeerProcess | PenstockProcess, Seen, str]:
        """The case's process, not started yet, what its sink will see, and the pipeline's name, which is its group."""
        self._runs += 1
        folder = self.rig.folder / f"datahub-{self._runs}"
        sink = folder / "sink"
        sink.mkdir(parents=True)
        name = f"run-{self._runs}"
        file = folder / "pipeline.yaml"
        made = case.pipeline(name, self.rig.broker.bootstrap, self.registry.url, str(folder / "failed"))
        file.write_bytes(orjson.dumps(made, option=orjson.OPT_INDENT_2))
        env = {"BENCH_SINK": str(sink), "PYTHONPATH": str(ROOT)}
        if case.side == "peer":
            return PeerProcess(file, folder=folder, env=env), Seen(sink), name
        env["PENSTOCK_HOME"] = str(self.rig.home)
        executable = datahub_penstock() if case.side == "penstock[datahub]" else PENSTOCK
        return PenstockProcess(["run", file], folder=folder, env=env, executable=executable), Seen(sink), name

    @contextmanager
    def steady(self, case: Case) -> Iterator[tuple[PeerProcess | PenstockProcess, Seen, str]]:
        """The case's process at work on its backlog, its start behind it."""
        process, seen, name = self.prepared(case)
        with process:
            if isinstance(process, PenstockProcess):
                process.wait_ready(120)
                self._told(name, "pause")
                time.sleep(SETTLED_S)
                self._told(name, "resume")
            before = seen.count()
            until(lambda: seen.count() > before, 90, lambda: f"{case.name}: the sink sees events")
            yield process, seen, name

    def _told(self, name: str, what: str) -> None:
        env = os.environ | {"PENSTOCK_HOME": str(self.rig.home)}
        subprocess.run([PENSTOCK, "pipelines", what, name, "--timeout", "90"], env=env, check=True, capture_output=True)
