"""What `penstock doctor` looks at: whether this machine has what a run needs."""

from __future__ import annotations

import os
import platform
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from penstock.config.settings import Settings
from penstock.core.errors import PenstockError
from penstock.core.secrets import mask_url
from penstock.service.opening import opened_store

JAVA_VERSIONS = (17, 21)
"""Spark 4.3 is built for these."""
_SPACE_WANTED = 200 * 1024 * 1024

Verdict = Literal["ok", "warning", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    name: str
    verdict: Verdict
    detail: str
    hint: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def check_python() -> Check:
    detail = f"{platform.python_version()} at {sys.executable}"
    if sys.version_info < (3, 11):  # noqa: UP036 - told to people who run the source with an older interpreter
        return Check(name="python", verdict="failed", detail=detail, hint="Penstock needs Python 3.11 or newer")
    return Check(name="python", verdict="ok", detail=detail)


def find_java() -> Path | None:
    """The `java` that Spark will start: JAVA_HOME's, else the one on the PATH."""
    home = os.environ.get("JAVA_HOME")
    if home:
        own = Path(home) / "bin" / "java"
        return own if own.exists() else None
    found = shutil.which("java")
    return Path(found) if found else None


def check_java() -> Check:
    hint = f"install Java {JAVA_VERSIONS[0]} and put it on the PATH, or set JAVA_HOME"
    java = find_java()
    if java is None:
        home = os.environ.get("JAVA_HOME")
        where = f"JAVA_HOME={home} has no bin/java" if home else "no java on the PATH, and JAVA_HOME is not set"
        return Check(name="java", verdict="failed", detail=where, hint=hint)
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=20, check=False)  # noqa: S603 - the java of the user's own PATH
    except (OSError, subprocess.TimeoutExpired) as error:
        return Check(name="java", verdict="failed", detail=f"{java} cannot be run: {error}", hint=hint)
    found = re.search(r'version "(\d+)(?:\.(\d+))?', answer.stderr + answer.stdout)
    if found is None:
        return Check(name="java", verdict="failed", detail=f"{java} does not tell its version", hint=hint)
    # Java 8 calls itself 1.8.
    version = int(found[2]) if found[1] == "1" and found[2] else int(found[1])
    detail = f"{version} at {java.resolve()}"
    if version < min(JAVA_VERSIONS):
        return Check(name="java", verdict="failed", detail=detail, hint=hint)
    if version not in JAVA_VERSIONS:
        return Check(name="java", verdict="warning", detail=detail, hint="Spark 4.3 is built for Java 17 and 21")
    return Check(name="java", verdict="ok", detail=detail)


def check_spark() -> Check:
    spec = find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        return Check(name="spark", verdict="failed", detail="pyspark is not installed", hint="make setup")
    folder = Path(spec.submodule_search_locations[0])
    version = metadata.version("pyspark")
    if not (folder / "jars").is_dir():
        return Check(name="spark", verdict="failed", detail=f"{version} at {folder} has no jars", hint="make setup")
    home = os.environ.get("SPARK_HOME")
    if home and Path(home).resolve() != folder.resolve():
        hint = "unset SPARK_HOME unless that Spark has the same version"
        return Check(name="spark", verdict="warning", detail=f"{version}; SPARK_HOME={home}", hint=hint)
    return Check(name="spark", verdict="ok", detail=f"{version} at {folder}")


def check_kafka_client() -> Check:
    try:
        import penstock.kafka.client  # noqa: F401, PLC0415 - loading the native library is the check
    except ImportError as error:
        return Check(name="kafka client", verdict="failed", detail=str(error), hint="make setup")
    return Check(name="kafka client", verdict="ok", detail=f"confluent-kafka {metadata.version('confluent-kafka')}")


def check_home(home: Path) -> Check:
    """The folder can be written to, or can be made."""
    nearest = next(folder for folder in (home, *home.absolute().parents) if folder.exists())
    hint = "set PENSTOCK_HOME to a folder of your own"
    if not nearest.is_dir():
        return Check(name="home", verdict="failed", detail=f"{nearest} is not a folder", hint=hint)
    if not os.access(nearest, os.W_OK | os.X_OK):
        return Check(name="home", verdict="failed", detail=f"no right to write to {nearest}", hint=hint)
    free = shutil.disk_usage(nearest).free
    detail = f"{home}, {free // 1024 // 1024:,} MB free"
    if free < _SPACE_WANTED:
        return Check(name="home", verdict="warning", detail=detail, hint="dead letters need room on this disk")
    return Check(name="home", verdict="ok", detail=detail)


def check_port(host: str, port: int, *, asked_for: bool) -> Check:
    """The HTTP port is free; a default one that is taken only means another one will be used."""
    name = "http port"
    address = "127.0.0.1" if host == "localhost" else host.strip("[]")
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            detail = f"{host}:{port}: {error.strerror}"
            if asked_for:
                hint = "stop what listens there, or set PENSTOCK_HTTP_PORT to another port"
                return Check(name=name, verdict="failed", detail=detail, hint=hint)
            return Check(name=name, verdict="warning", detail=detail, hint="run takes the next free port instead")
    return Check(name=name, verdict="ok", detail=f"{host}:{port} is free")


def guarded(name: str, check: Callable[[], Check]) -> Check:
    """One part that fails in an unforeseen way must not hide what the others say."""
    try:
        return check()
    except PenstockError as error:
        return Check(name=name, verdict="failed", detail=error.message, hint=error.hint)
    except Exception as error:  # noqa: BLE001 - as above
        return Check(name=name, verdict="failed", detail=f"{type(error).__name__}: {error}")


def machine_checks() -> Iterator[Check]:
    """Everything that needs no settings."""
    yield check_python()
    yield guarded("java", check_java)
    yield guarded("spark", check_spark)
    yield guarded("kafka client", check_kafka_client)


def examine() -> Iterator[Check]:
    """The machine, then what the settings name."""
    yield from machine_checks()
    try:
        settings = Settings.load()
    except PenstockError as error:
        yield Check(name="settings", verdict="failed", detail=error.message, hint=error.hint)
        return
    for warning in settings.warnings:
        yield Check(name="settings", verdict="warning", detail=f"{warning.file}: {warning.message}", hint=warning.hint)
    where = str(settings.file) if settings.file else "defaults and environment"
    yield Check(name="settings", verdict="ok", detail=where)
    yield guarded("home", lambda: check_home(settings.home))
    yield guarded("store", lambda: check_store(settings))
    if settings.http.enabled:
        http = settings.http
        yield guarded("http port", lambda: check_port(http.host, http.port, asked_for=http.port_was_set))


def check_store(settings: Settings) -> Check:
    """It answers, and what its schema's version is; one that does not exist yet is made by the first run."""
    with opened_store(settings) as store:
        if store is None:
            return Check(name="store", verdict="ok", detail=f"{mask_url(settings.store_url)}, made by the first run")
        store.ping()
        return Check(name="store", verdict="ok", detail=f"{mask_url(settings.store_url)}, version {store.version()}")
