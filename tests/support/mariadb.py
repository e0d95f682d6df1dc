"""A real MariaDB for tests: Debian's server in a temporary folder, which can be killed and restarted on its port."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Self

import pymysql

from tests.support.children import CHILDREN
from tests.support.fetch import CACHE, made_once
from tests.support.ports import free_port
from tests.support.waiting import until

START_S = 60.0
_PACKAGES = ("mariadb-server-core", "libaio1", "libnuma1", "liburing2")


class MariaDbServer:
    """One server on a free loopback port; user `root` needs no password."""

    def __init__(self) -> None:
        self.port = free_port()
        self._numbers = itertools.count(1)
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: Path | None = None
        self._home = _installed()

    def __enter__(self) -> Self:
        self._folder = CHILDREN.folder(Path(tempfile.mkdtemp(prefix="penstock-mariadb-")))
        try:
            self._data.mkdir()
            self._bootstrap()
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
    def pid(self) -> int:
        """For SIGSTOP and the like."""
        assert self._process is not None, "the server is not running"
        return self._process.pid

    def create_database(self) -> str:
        """Make an empty database nobody else uses; its URL is returned."""
        name = f"test_{os.getpid()}_{next(self._numbers)}"
        with self._connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {name}")
        return f"mysql+pymysql://root@127.0.0.1:{self.port}/{name}"

    def start(self) -> None:
        """Start, and wait until it lets clients in."""
        assert self._process is None, "the server is running"
        socket = self._data.with_name("socket")
        own = ("--skip-grant-tables", "--bind-address=127.0.0.1", f"--port={self.port}", f"--socket={socket}")
        with self._log.open("ab") as log:
            self._process = CHILDREN.spawn(
                self._command(*own), name="mariadb", output=log, cwd=self._folder, env=self._environ
            )
        until(self._answers, START_S, lambda: f"MariaDB started\n{self._log.read_text()[-2000:]}")

    def kill(self) -> None:
        """End it as a power cut does."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """As an operator does: everything is written."""
        self._end(signal.SIGTERM)
        self.start()

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(timeout=START_S)
            CHILDREN.ended(self._process)
            self._process = None

    @property
    def _data(self) -> Path:
        assert self._folder is not None
        return self._folder / "data"

    @property
    def _log(self) -> Path:
        return self._data.with_name("log")

    @property
    def _environ(self) -> dict[str, str]:
        libraries = [str(path) for path in (*self._home.glob("usr/lib/*-linux-gnu"), *self._home.glob("lib/*"))]
        return os.environ | {"LD_LIBRARY_PATH": os.pathsep.join(libraries)}

    def _command(self, *arguments: str) -> list[str]:
        share = self._home / "usr" / "share" / "mysql"
        place = ("--no-defaults", f"--datadir={self._data}", f"--lc-messages-dir={share}", f"--basedir={share.parent}")
        user = ("--user=root",) if os.geteuid() == 0 else ()
        return [str(self._home / "usr" / "sbin" / "mariadbd"), *place, *user, *arguments]

    def _bootstrap(self) -> None:
        tables = (self._home / "usr" / "share" / "mysql" / "mysql_system_tables.sql").read_text()
        done = subprocess.run(
            self._command("--bootstrap"),
            input=f"CREATE DATABASE mysql;\nUSE mysql;\n{tables}",
            env=self._environ,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"MariaDB's first tables: {done.stderr[-2000:]}"

    def _connect(self) -> pymysql.Connection:
        return pymysql.connect(host="127.0.0.1", port=self.port, user="root", autocommit=True, connect_timeout=2)

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, f"MariaDB ended\n{self._log.read_text()[-2000:]}"
        try:
            self._connect().close()
        except pymysql.OperationalError:
            return False
        return True


def _installed() -> Path:
    """The root of an installation: the system's, or Debian's packages unpacked into the cache."""
    if shutil.which("mariadbd"):
        return Path("/")
    return made_once(CACHE / "mariadb", _fetch)


def _fetch(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as packages:
        subprocess.run(["apt-get", "--quiet", "download", *_PACKAGES], cwd=packages, check=True, capture_output=True)
        for package in Path(packages).glob("*.deb"):
            subprocess.run(["dpkg", "-x", str(package), str(folder)], check=True)
