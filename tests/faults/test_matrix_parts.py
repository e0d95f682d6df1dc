"""Faults of what surrounds the pipeline: registry, store, disk, database, clock."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sqlite3
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import fastavro
import psutil
import pytest

from tests.faults.checker import NOTHING
from tests.faults.outcome import Row
from tests.faults.scene import WAIT_S, Scene, fed
from tests.support.freezing import frozen
from tests.support.instance import PenstockProcess
from tests.support.kafka import KafkaBroker
from tests.support.postgres import PostgresServer
from tests.support.registry import RegistryServer
from tests.support.waiting import until

pytestmark = pytest.mark.faults
CLOCK = Path(__file__).parent / "clock"


def poisoned(seq: int) -> bytes:
    """One in ten fails."""
    return json.dumps({"seq": seq, "do": "raise" if seq % 10 == 7 else None}).encode()


def letters_expected(scene: Scene) -> int:
    return sum(record.seq % 10 == 7 for record in scene.feed.produced)


def timed(scene: Scene) -> float:
    began = time.monotonic()
    scene.more(100)
    return time.monotonic() - began


@pytest.mark.parametrize("fault", ["down", "slow", "5xx", "garbage"])
def test_registry(kafka: KafkaBroker, registry: RegistryServer, tmp_path: Path, row: Row, fault: str) -> None:
    def schema(version: int) -> dict[str, object]:
        fields = [{"name": "seq", "type": "long"}, {"name": f"v{version}", "type": "long", "default": 0}]
        return {"type": "record", "name": "Numbered", "fields": fields}

    ids = [registry.register("numbered-value", json.dumps(schema(version))) for version in range(50)]
    parsed = [fastavro.parse_schema(schema(version)) for version in range(50)]

    def value(seq: int) -> bytes:
        # A new schema now and then: what is known already outlives the registry.
        version = min(seq // 200, 49)
        out = io.BytesIO()
        out.write(struct.pack(">bI", 0, ids[version]))
        fastavro.schemaless_writer(out, parsed[version], {"seq": seq, f"v{version}": 0})
        return out.getvalue()

    connection = {"bootstrap": kafka.bootstrap, "schema_registry_url": registry.url}
    source = {"format": "avro", "connection": connection}
    with Scene(kafka, tmp_path, f"registry-{fault}", values=value, source=source) as scene:
        with fed(scene):
            instance = scene.start()
            scene.more(200)
            if fault == "down":
                registry.down()
            registry.faults.latency_s = 60.0 if fault == "slow" else 0.0
            registry.faults.status = 502 if fault == "5xx" else None
            registry.faults.garbage = b"<html>maintenance</html>" if fault == "garbage" else None
            instance.wait_log("state=waiting", WAIT_S)
            if fault == "down":
                registry.up()
            registry.faults.latency_s, registry.faults.status, registry.faults.garbage = 0.0, None, None
            recovered = timed(scene)
        scene.stop_all()
    report = scene.verdict()
    assert report.dead_letters == 0
    row.kept(report, NOTHING, recovered)


def test_the_store_is_locked(kafka: KafkaBroker, tmp_path: Path, row: Row) -> None:
    with Scene(kafka, tmp_path, "locked", values=poisoned) as scene:
        with fed(scene):
            instance = scene.start()
            scene.more(200)
            store = sqlite3.connect(tmp_path / "home" / "penstock.db", isolation_level=None, timeout=30)
            store.execute("BEGIN EXCLUSIVE")
            instance.wait_log("dead letters cannot be stored", WAIT_S)
            store.execute("ROLLBACK")
            store.close()
            recovered = timed(scene)
        scene.stop_all()
    report = scene.verdict()
    assert report.dead_letters == letters_expected(scene)
    row.kept(report, NOTHING, recovered)


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Path | None]:
    """A file system of three megabytes; None where we may not mount one."""
    folder.mkdir()
    mounted = os.geteuid() == 0 and not subprocess.call(["mount", "-t", "tmpfs", "-o", "size=3m", "none", str(folder)])
    try:
        yield folder if mounted else None
    finally:
        if mounted:
            subprocess.call(["umount", "-l", str(folder)])


def test_the_disk_of_the_store_is_full(kafka: KafkaBroker, tmp_path: Path, row: Row) -> None:
    with small_disk(tmp_path / "disk") as disk:
        url = f"sqlite:///{(disk or tmp_path) / 'penstock.db'}"
        with Scene(kafka, tmp_path, "full", values=poisoned, env={"PENSTOCK_STORE_URL": url}) as scene:
            with fed(scene):
                instance = scene.start()
                scene.more(200)
                with no_room(instance, disk, Path(url.removeprefix("sqlite:///"))):
                    instance.wait_log("dead letters cannot be stored", WAIT_S)
                recovered = timed(scene)
            scene.stop_all()
            report = scene.verdict()
    assert report.dead_letters == letters_expected(scene)
    row.kept(report, NOTHING, recovered)


@contextlib.contextmanager
def no_room(instance: PenstockProcess, disk: Path | None, store: Path) -> Iterator[None]:
    """Fill the disk up; or, without one of our own, forbid the driver to make its files any larger."""
    if disk is not None:
        ballast = disk / "ballast"
        file = os.open(ballast, os.O_WRONLY | os.O_CREAT)
        with contextlib.suppress(OSError):
            while True:
                os.write(file, b"\0" * 4096)
        os.close(file)
        yield
        ballast.unlink()
        return
    driver = psutil.Process(instance.pid)
    sizes = [file.stat().st_size for file in (store, Path(f"{store}-wal"), instance.log_file) if file.exists()]
    before = driver.rlimit(psutil.RLIMIT_FSIZE)
    driver.rlimit(psutil.RLIMIT_FSIZE, (max(sizes) + 65_536, before[1]))
    yield
    driver.rlimit(psutil.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("how", ["restart", "kill", "freeze"])
def test_postgresql(kafka: KafkaBroker, tmp_path: Path, row: Row, how: str) -> None:
    with PostgresServer() as server:
        url = server.create_database()
        with Scene(kafka, tmp_path, f"postgres-{how}", values=poisoned, env={"PENSTOCK_STORE_URL": url}) as scene:
            with fed(scene):
                instance = scene.start()
                scene.more(200)
                if how == "freeze":
                    with frozen(server.pid):
                        instance.wait_log("dead letters cannot be stored", WAIT_S)
                else:
                    (server.stop if how == "restart" else server.kill)()
                    instance.wait_log("dead letters cannot be stored", WAIT_S)
                    server.start()
                recovered = timed(scene)
            scene.stop_all()
            report = scene.verdict()
    assert report.dead_letters == letters_expected(scene)
    row.kept(report, NOTHING, recovered)


class Clock:
    """The wall clock of an instance, which a file shifts."""

    def __init__(self, file: Path) -> None:
        self._file = file
        path = os.pathsep.join(filter(None, [str(CLOCK), os.environ.get("PYTHONPATH")]))
        self.env = {"PENSTOCK_TEST_CLOCK": str(file), "PYTHONPATH": path}

    def jump(self, hours: float) -> None:
        half = self._file.with_suffix(".half")
        half.write_text(str(hours * 3600))
        half.rename(self._file)


@pytest.mark.parametrize("way", ["plain", "keyed", "batch"])
@pytest.mark.parametrize("hours", [26.0, -26.0], ids=["forwards", "backwards"])
def test_the_clock_jumps(kafka: KafkaBroker, tmp_path: Path, row: Row, hours: float, way: str) -> None:
    """F22: events wait for their second attempt, in a worker and (over a restart) in the commit's metadata, when the
    clock jumps: they must neither be given up for their age nor wait for a day."""
    sent, partitions = 40, 4

    def value(seq: int) -> bytes:
        # The last two events of each partition: order holds nobody up.
        return json.dumps({"seq": seq, "fails": 2 if seq % sent >= sent - 2 * partitions else 0}).encode()

    def tried(scene: Scene, rounds: int) -> bool:
        """Whether every event that fails in these rounds has been tried, or is behind one that waits."""
        places = {file.name.rpartition("-")[0] for file in tmp_path.glob("tries-*")}
        done = {effect.seq for effect in scene.effects()}
        good = {n + sent * r for r in range(rounds) for n in range(sent - 2 * partitions)}
        return len(places) == partitions and good <= done

    clock = Clock(tmp_path / "clock")
    options = {"retry": {"attempts": 5, "backoff": "5s", "factor": 1.0, "jitter": 0.0, "max_age": "1h"}}
    name = f"clock-{way}-{hours:g}"
    with Scene(kafka, tmp_path, name, values=value, way=way, env=clock.env, options=options) as scene:
        first = scene.start()
        scene.feed.send(sent)
        until(lambda: tried(scene, 1), WAIT_S, scene.story)
        clock.jump(hours)
        began = time.monotonic()
        scene.caught_up()
        recovered = time.monotonic() - began
        scene.feed.send(sent)
        until(lambda: tried(scene, 2), WAIT_S, scene.story)
        assert first.stop() == 0
        clock.jump(2 * hours)
        scene.start()
        scene.caught_up()
        scene.stop_all_living()
    report = scene.verdict()
    row.kept(report, NOTHING, recovered)
    assert report.dead_letters == 0
