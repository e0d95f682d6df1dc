"""`penstock run` (or any other command) as a real process: its home, log, readiness, signals and exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import httpx
import psutil

from tests.support.children import CHILDREN
from tests.support.home import prepared_home
from tests.support.ports import free_port
from tests.support.waiting import until

PENSTOCK = Path(sys.executable).with_name("penstock")
READY_S = 60.0


class PenstockProcess:
    """One instance. Standard output and the log (standard error) go to files of their own under `folder`."""

    def __init__(
        self,
        args: Sequence[str | Path],
        *,
        folder: Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        executable: Path = PENSTOCK,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.args = [str(arg) for arg in args]
        self.folder = folder
        self.home = Path((env or {}).get("PENSTOCK_HOME", folder / "home"))
        self.http_port = int((env or {}).get("PENSTOCK_HTTP_PORT", free_port()))
        self.stdout_file = folder / "stdout.txt"
        self.log_file = folder / "log.txt"
        clean = {key: value for key, value in os.environ.items() if not key.startswith("PENSTOCK_")}
        own = {"PENSTOCK_HOME": str(self.home), "PENSTOCK_HTTP_PORT": str(self.http_port)}
        self._env = clean | {"PYTHONUNBUFFERED": "1"} | own | dict(env or {})
        self._cwd = cwd or folder
        self._executable = executable
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        assert self._process is None, "the instance runs already"
        if self.args[0] in ("run", "actions"):
            prepared_home(self.home)
        with self.stdout_file.open("ab") as out, self.log_file.open("ab") as log:
            self._process = CHILDREN.spawn(
                [str(self._executable), *self.args],
                name=f"penstock {' '.join(self.args[:2])}",
                output=log,
                stdout=out,
                env=self._env,
                cwd=self._cwd,
            )
        return self

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process, "the instance was not started"
        return self._process

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http_port}"

    @property
    def stdout(self) -> str:
        return self.stdout_file.read_text(errors="replace") if self.stdout_file.exists() else ""

    @property
    def log(self) -> str:
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def get(self, path: str) -> httpx.Response:
        return httpx.get(self.url + path, timeout=5)

    def is_ready(self) -> bool:
        """Whether `/health/ready` says yes; fails at once when the process has ended."""
        assert self.running, f"penstock ended with {self.process.poll()}:\n{self._story()}"
        try:
            return self.get("/health/ready").is_success
        except httpx.HTTPError:
            return False

    def wait_ready(self, deadline_s: float = READY_S) -> Self:
        until(self.is_ready, deadline_s, lambda: f"penstock is ready; {self._story()}")
        return self

    def wait_log(self, text: str, deadline_s: float = READY_S) -> None:
        """Wait for a text in the log or on standard output."""

        def seen() -> bool:
            return text in self.log or text in self.stdout

        until(seen, deadline_s, lambda: f"{text!r} in the log; {self._story()}")

    def signal(self, which: signal.Signals) -> None:
        self.process.send_signal(which)

    def terminate(self) -> None:
        self.signal(signal.SIGTERM)

    def pause(self) -> None:
        """SIGSTOP the whole tree: driver, JVM and workers."""
        for process in reversed(self.tree()):
            process.suspend()

    def unpause(self) -> None:
        for process in self.tree():
            process.resume()

    def kill(self) -> None:
        """SIGKILL the driver alone, as the kernel would; what it leaves behind must end by itself."""
        self.process.kill()
        self.process.wait(timeout=10)

    def wait(self, deadline_s: float = 60.0) -> int:
        """The exit code, once the process has ended by itself or after a signal."""
        try:
            return self.process.wait(timeout=deadline_s)
        except subprocess.TimeoutExpired:
            msg = f"penstock still runs after {deadline_s:g} s; {self._story()}"
            raise AssertionError(msg) from None

    def stop(self, deadline_s: float = 45.0) -> int:
        """SIGTERM and the exit code."""
        self.terminate()
        return self.wait(deadline_s)

    def tree(self) -> list[psutil.Process]:
        """The driver and everything below it."""
        driver = psutil.Process(self.pid)
        return [driver, *driver.children(recursive=True)]

    def workers(self) -> list[psutil.Process]:
        """The processes that act."""
        return worker_processes(self.pid)

    def summary(self) -> Any:
        """The JSON that `--json` ends standard output with."""
        text = self.stdout.strip()
        try:
            return json.loads(text)
        except ValueError:
            return json.loads(text.splitlines()[-1])

    def metric(self, name: str, **labels: str) -> float:
        """Sum of a Prometheus metric over all label sets that match."""
        return metric_sum(self.get("/metrics").text, name, labels)

    def close(self) -> None:
        """End everything, at once."""
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait(timeout=10)
        CHILDREN.ended(self._process)
        self._process = None

    def _story(self) -> str:
        return f"stdout ends with\n{self.stdout[-1500:]}\nlog ends with\n{self.log[-4000:]}"

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()


def worker_processes(driver: int) -> list[psutil.Process]:
    """The processes below a driver that act: forked from a lane's daemon, which is not among them."""

    def is_daemon(process: psutil.Process | None) -> bool:
        try:
            return process is not None and "penstock.worker.daemon" in process.cmdline()
        except psutil.NoSuchProcess:
            return False

    def is_worker(process: psutil.Process) -> bool:
        try:
            return is_daemon(process) and is_daemon(process.parent())
        except psutil.NoSuchProcess:
            return False

    return [process for process in psutil.Process(driver).children(recursive=True) if is_worker(process)]


def metric_sum(text: str, name: str, labels: Mapping[str, str]) -> float:
    """Sum of the samples called `name` whose labels include the given ones, in Prometheus text."""
    from prometheus_client.parser import text_string_to_metric_families  # noqa: PLC0415 - slow to import, seldom used

    return sum(
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )
