"""The demo: an embedded broker, a generator of events, and pipelines of every kind in a folder of their own."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Self

from penstock.config.http_settings import HttpSettings, is_loopback
from penstock.config.settings import LogSettings, Settings, StoreSettings
from penstock.config.spec import ConnectionSpec
from penstock.kafka.admin import ClusterView
from penstock.kafka.client import KafkaClientConfig
from penstock.kafka.embedded import EmbeddedCluster
from penstock.kafka.partition_reader import PartitionReader
from penstock.service.demo_events import TOPICS
from penstock.service.topics import readable
from penstock.service.trigger_specs import PREFIX

_FILES = Path(__file__).with_name("demo_files")
_TAIL = 4096
_WORKFLOW = "refunds"


class Demo:
    """Everything the demo's pipelines need, from `with` to its end; the folder is removed with it."""

    def __init__(self, rate: float = 300) -> None:
        self._rate = rate
        self.folder = Path(tempfile.mkdtemp(prefix="penstock-demo-"))
        self.pipelines = self.folder / "pipelines"
        self._cluster: EmbeddedCluster | None = None
        self._generator: subprocess.Popen[bytes] | None = None
        self._samples: Samples | None = None

    def __enter__(self) -> Self:
        try:
            self._open()
        except BaseException:
            self._close()
            raise
        return self

    def _open(self) -> None:
        self._cluster = EmbeddedCluster()
        for topic in (*TOPICS, "large-orders"):
            self._cluster.create_topic(topic)
        self.pipelines.mkdir()
        for file in _FILES.iterdir():
            if file.is_file():
                shutil.copy(file, self.pipelines / file.name)
        # The files name these, as a pipeline of yours would name its own.
        os.environ["PENSTOCK_DEMO_BOOTSTRAP"] = self._cluster.bootstrap
        os.environ["PENSTOCK_DEMO_FOLDER"] = str(self.folder)
        self._samples = Samples(self.folder, self._cluster.bootstrap)

    @property
    def files(self) -> list[Path]:
        """The pipeline files."""
        return sorted(file for file in self.pipelines.glob("*.yaml") if not file.name.endswith(".test.yaml"))

    @staticmethod
    def title(pipeline: str) -> str:
        """What people call it: the pipeline of a trigger is named after the trigger's id."""
        return _WORKFLOW if pipeline.startswith(PREFIX) else pipeline

    @property
    def bootstrap(self) -> str:
        return os.environ["PENSTOCK_DEMO_BOOTSTRAP"]

    def settings(self) -> Settings:
        """The user's own Spark settings and caches, but a store that ends with the demo."""
        own = Settings.load()
        host = own.http.host if is_loopback(own.http.host) else "127.0.0.1"
        url = f"sqlite:///{self.folder / 'penstock.db'}"
        return own.model_copy(
            update={
                "store": StoreSettings(url=url),
                "http": HttpSettings(enabled=own.http.enabled, console=own.http.console, host=host, port=own.http.port),
                "log": LogSettings(level="warning", format=own.log.format),
            }
        )

    def start_events(self) -> None:
        """Begin to produce; a process of its own, as producers are."""
        argv = [sys.executable, "-m", "penstock.service.demo_events"]
        options = ["--bootstrap", self.bootstrap, "--rate", str(self._rate)]
        self._generator = subprocess.Popen(  # noqa: S603 - our own module
            [*argv, *options], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True
        )

    def samples(self) -> list[tuple[str, str]]:
        """The latest thing that each pipeline's action did, by pipeline."""
        return self._samples.latest() if self._samples else []

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def stop_events(self) -> None:
        if self._generator is not None:
            self._generator.terminate()
            self._generator.wait(timeout=10)
            self._generator = None

    def _close(self) -> None:
        self.stop_events()
        if self._samples is not None:
            self._samples.close()
        if self._cluster is not None:
            self._cluster.close()
        for name in ("PENSTOCK_DEMO_BOOTSTRAP", "PENSTOCK_DEMO_FOLDER"):
            os.environ.pop(name, None)
        shutil.rmtree(self.folder, ignore_errors=True)


class Samples:
    """Looks at where the demo's actions put their results."""

    def __init__(self, folder: Path, bootstrap: str) -> None:
        self._folder = folder
        self._latest: dict[str, str] = {}
        client = KafkaClientConfig.of(ConnectionSpec(bootstrap=bootstrap))
        partitions = ClusterView(client).topics().get("large-orders", 0)
        self._reader = PartitionReader(client, name="penstock-demo-samples")
        self._reader.place({("large-orders", p): 0 for p in range(partitions)})

    def latest(self) -> list[tuple[str, str]]:
        """A line per pipeline that has done something yet."""
        batch = self._reader.read(2000, 0)
        if batch is not None and batch.records:
            self._latest["large-orders"] = f"produced {readable(batch.records[-1].value())}"
        for pipeline, file, verb in (("page-views", "page-views.jsonl", "wrote"), ("payments", "ledger.txt", "booked")):
            line = _last_line(self._folder / file)
            if line:
                self._latest[pipeline] = f"{verb} {line}"
        if rows := _row_count(self._folder / "shop.db"):
            self._latest["orders"] = f"keeps {rows:,} rows in the table orders"
        return sorted(self._latest.items())

    def close(self) -> None:
        self._reader.close()


def _row_count(path: Path) -> int:
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=0.1)) as database:
            return int(database.execute("SELECT count(*) FROM orders").fetchone()[0])
    except sqlite3.Error:
        return 0  # not made yet, or being written


def _last_line(path: Path) -> str:
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL))
            # Without what stands behind the last line break: a line that is being written.
            lines = file.read().rpartition(b"\n")[0].splitlines()
    except OSError:
        return ""
    return lines[-1].decode(errors="replace") if lines else ""
