"""A real Spark standalone cluster: a master and one worker from the pyspark package, joined by a secret."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import httpx
import psutil
import pyspark

from tests.support.children import CHILDREN
from tests.support.ports import free_port
from tests.support.waiting import until

START_S = 90.0
_SPARK_HOME = Path(pyspark.__file__).parent


class SparkCluster:
    """Drivers need the master's address and the secret."""

    def __init__(self, *, cores: int = 2) -> None:
        self.cores = cores
        self.secret = secrets.token_urlsafe(24)
        self.folder = CHILDREN.folder(Path(tempfile.mkdtemp(prefix="penstock-spark-")))
        self._port, self._ui = free_port(), free_port()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        conf = self.folder / "conf"
        conf.mkdir()
        # A file and not JVM options: the secret shall not be seen on a command line.
        (conf / "spark-defaults.conf").write_text(f"spark.authenticate true\nspark.authenticate.secret {self.secret}\n")

    @property
    def master(self) -> str:
        return f"spark://127.0.0.1:{self._port}"

    @property
    def environ(self) -> dict[str, str]:
        """Settings of an instance that uses this cluster."""
        return {
            "PENSTOCK_SPARK_MASTER": self.master,
            "PENSTOCK_SPARK_CONF_SPARK_AUTHENTICATE_SECRET": self.secret,
            # Two executors instead of one with all cores: the windows of a lane run now here, now there.
            "PENSTOCK_SPARK_CONF_SPARK_EXECUTOR_CORES": "1",
            "PENSTOCK_SPARK_CONF_SPARK_EXECUTOR_MEMORY": "512m",
            "PENSTOCK_SPARK_CONF_spark__executor__extraJavaOptions": f"-Djava.io.tmpdir={self.folder}",
            "PENSTOCK_SPARK_CONF_SPARK_DRIVER_HOST": "127.0.0.1",
            "PENSTOCK_SPARK_CONF_spark__driver__bindAddress": "127.0.0.1",
        }

    @property
    def worker_pid(self) -> int:
        """The process whose children are the executors."""
        return self._processes["worker"].pid

    def executor_pids(self) -> list[int]:
        """Processes of the executors that run now: not one that is dead and not yet waited for, nor a helper."""
        return [pid for pid, command in self._children() if "CoarseGrainedExecutorBackend" in command]

    def _children(self) -> Iterator[tuple[int, str]]:
        for child in psutil.Process(self.worker_pid).children():
            with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
                yield child.pid, " ".join(child.cmdline())

    def start(self) -> Self:
        common = ["--host", "127.0.0.1"]
        self._spawn("master", "master.Master", *common, "--port", str(self._port), "--webui-port", str(self._ui))
        self._until(lambda: self._state() is not None, "the master to answer")
        size = ["--cores", str(self.cores), "--memory", "2g", "--work-dir", str(self.folder / "work")]
        ports = ["--port", str(free_port()), "--webui-port", str(free_port())]
        self._spawn("worker", "worker.Worker", *common, *ports, *size, self.master)
        self._until(lambda: (self._state() or {}).get("aliveworkers") == 1, "the worker to join")
        return self

    def applications(self) -> list[dict[str, Any]]:
        """Drivers that use the cluster now."""
        return list((self._state() or {})["activeapps"])

    def _spawn(self, name: str, main: str, *arguments: str) -> None:
        environ = os.environ | {
            "SPARK_HOME": str(_SPARK_HOME),
            "SPARK_CONF_DIR": str(self.folder / "conf"),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(self.folder / "local"),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": f"-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Djava.io.tmpdir={self.folder}",
        }
        command = [str(_SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{main}", *arguments]
        with (self.folder / f"{name}.log").open("ab") as log:
            self._processes[name] = CHILDREN.spawn(
                command, name=f"Spark {name}", output=log, env=environ, cwd=self.folder
            )

    def _state(self) -> dict[str, Any] | None:
        try:
            answer = httpx.get(f"http://127.0.0.1:{self._ui}/json/", timeout=5)
        except httpx.HTTPError:
            return None
        return dict(answer.json()) if answer.is_success else None

    def _until(self, condition: Any, what: str) -> None:
        def checked() -> bool:
            ended = [name for name, process in self._processes.items() if process.poll() is not None]
            assert not ended, f"Spark's {ended} ended:\n{self.logs()}"
            return bool(condition())

        until(checked, START_S, lambda: f"{what}\n{self.logs()}")

    def logs(self) -> str:
        """Ends of all logs, for messages of failed tests."""
        return "\n".join(f"-- {file.name}\n{file.read_text()[-3000:]}" for file in self._log_files())

    def _log_files(self) -> Iterator[Path]:
        yield from sorted(self.folder.glob("*.log"))
        yield from sorted(self.folder.glob("work/*/*/stderr"))

    def close(self) -> None:
        for name in ("worker", "master"):
            if process := self._processes.pop(name, None):
                process.kill()
                process.wait(timeout=20)
                CHILDREN.ended(process)
        CHILDREN.remove(self.folder)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()
