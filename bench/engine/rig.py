"""What every engine benchmark stands on: a broker, pipeline files, the product as a process, a producer as another."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import orjson
import psutil
from tests.support.children import CHILDREN
from tests.support.instance import PenstockProcess
from tests.support.kafka import KafkaBroker
from tests.support.waiting import until

from bench.engine.seen import Seen

ROOT = Path(__file__).resolve().parents[2]
SINK = Path(__file__).with_name("sink.py")
# More memory than the tests' broker. The second compiler stays off: it takes a core for the first minutes, of two.
_BROKER_JVM = (
    "-Xms768m",
    "-Xmx768m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)


class Rig:
    """One broker and a folder; a benchmark may run several instances after each other on it."""

    def __init__(self) -> None:
        self.broker = KafkaBroker(jvm=_BROKER_JVM)
        self.folder = CHILDREN.folder(Path(tempfile.mkdtemp(prefix="penstock-bench-")))
        # Class-data archive and store live in the home: shared by all runs, as on a user's machine.
        self.home = self.folder / "home"
        self._runs = 0

    def __enter__(self) -> Self:
        self.broker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.broker.close()
        CHILDREN.remove(self.folder)

    def topics(self, stem: str, count: int, partitions: int) -> list[str]:
        names = [f"{stem}-{number:03d}" for number in range(count)]
        config = {"message.timestamp.type": "LogAppendTime"}
        return [self.broker.create_topic(name, partitions, config) for name in names]

    def pipelines(
        self,
        stem: str,
        topics: Sequence[str],
        function: str,
        start: str = "earliest",
        options: Mapping[str, Any] | None = None,
    ) -> Path:
        """One pipeline file per topic, in a folder; pipelines and groups are named after it."""
        folder = self.folder / stem
        folder.mkdir()
        for topic in topics:
            connection = {"bootstrap": self.broker.bootstrap}
            spec = {
                "name": f"{stem}-{topic}",
                "source": {
                    "type": "kafka",
                    "config": {"connection": connection, "topics": [topic], "format": "json", "start": start},
                },
                "action": {"type": "python", "config": {"callable": f"{SINK}:{function}"}},
                "options": dict(options or {}),
            }
            # JSON is YAML, and this way nothing here depends on how YAML quotes.
            (folder / f"{topic}.yaml").write_bytes(orjson.dumps(spec, option=orjson.OPT_INDENT_2))
        return folder

    @contextmanager
    def instance(self, pipelines: Path, env: Mapping[str, str] | None = None) -> Iterator[tuple[PenstockProcess, Seen]]:
        """The product, ready, and what its sink sees; ended gracefully."""
        process, seen = self.prepared(pipelines, env)
        with process:
            process.wait_ready(120)
            yield process, seen
            code = process.stop(60)
            if code != 0:
                raise RuntimeError(f"penstock ended with {code}:\n{process.log[-3000:]}")

    def prepared(self, pipelines: Path, env: Mapping[str, str] | None = None) -> tuple[PenstockProcess, Seen]:
        """The product, not started yet."""
        self._runs += 1
        folder = self.folder / f"run-{self._runs}"
        sink = folder / "sink"
        sink.mkdir(parents=True)
        given = {"BENCH_SINK": str(sink), "PENSTOCK_HOME": str(self.home), **(env or {})}
        return PenstockProcess(["run", pipelines], folder=folder, env=given), Seen(sink)

    def producer(self, mode: str, topics: Sequence[str], **options: float) -> subprocess.Popen[bytes]:
        """Start the producer; it runs beside whatever is measured."""
        command = [sys.executable, "-m", "bench.engine.producer", mode, "--bootstrap", self.broker.bootstrap]
        command += ["--topics", ",".join(topics)]
        for name, value in options.items():
            command += [f"--{name}", str(value)]
        return subprocess.Popen(command, cwd=ROOT)

    def produce(self, mode: str, topics: Sequence[str], **options: float) -> None:
        """Run the producer to its end."""
        if self.producer(mode, topics, **options).wait() != 0:
            raise RuntimeError("the producer failed")

    def primed(self, topics: Sequence[str], seen: Seen, deadline_s: float = 120) -> int:
        """Send one event through every topic, so that what follows is not about starting; returns their number."""
        self.produce("pace", topics, rate=len(topics), seconds=1)
        self.wait_seen(seen, len(topics), deadline_s)
        return len(topics)

    def wait_seen(self, seen: Seen, count: int, deadline_s: float) -> None:
        until(lambda: seen.count() >= count, deadline_s, lambda: f"{count} events at the sink, it saw {seen.count()}")


class Usage:
    """Processor time and memory of a process tree, sampled once a second until closed."""

    def __init__(self, root: PenstockProcess) -> None:
        self._root = root
        self._cpu: dict[int, float] = {}
        self._first: dict[int, float] | None = None
        self.rss_mb: list[float] = []
        self._began = time.monotonic()
        self._over = threading.Event()
        self._sample()
        self._first = dict(self._cpu)
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._over.wait(1.0):
            self._sample()

    def _sample(self) -> None:
        rss = 0
        for process in self._root.tree():
            try:
                times = process.cpu_times()
                rss += process.memory_info().rss
            except psutil.Error:
                continue
            # The last figure of a process that has ended stays: its time was spent in this run.
            self._cpu[process.pid] = times.user + times.system
        self.rss_mb.append(round(rss / 2**20, 1))

    def close(self) -> dict[str, Any]:
        """Per cent of one core since the start, and memory."""
        self._over.set()
        self._thread.join()
        self._sample()
        elapsed = time.monotonic() - self._began
        before = self._first or {}
        spent = sum(total - before.get(pid, 0.0) for pid, total in self._cpu.items())
        return {
            "cpu_percent_of_a_core": round(100 * spent / elapsed, 1),
            "rss_mb_first": self.rss_mb[0],
            "rss_mb_last": self.rss_mb[-1],
            "rss_mb_max": max(self.rss_mb),
            "rss_mb_each_second": self.rss_mb,
        }
