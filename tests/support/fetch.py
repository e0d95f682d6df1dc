"""Fetches Maven artifacts that the tests need into `.cache`, once: by the Ivy jar inside pyspark, else by `mvn`."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

CACHE = Path(__file__).resolve().parents[2] / ".cache"
KAFKA_VERSION = "4.3.1"
APICURIO_VERSION = "3.3.2"


class FetchError(RuntimeError):
    """A download failed by every way there is; the message holds the output of each."""


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """Coordinates of one Maven artifact; with a classifier it is fetched alone, without what it depends on."""

    group: str
    name: str
    version: str
    classifier: str | None = None
    kind: str = "jar"

    @property
    def alone(self) -> bool:
        return self.classifier is not None

    @property
    def coordinates(self) -> str:
        tail = f":{self.kind}:{self.classifier}" if self.classifier else ""
        return f"{self.group}:{self.name}:{self.version}{tail}"


KAFKA = (
    Artifact(group="org.apache.kafka", name="kafka_2.13", version=KAFKA_VERSION),
    Artifact(group="org.apache.kafka", name="kafka-tools", version=KAFKA_VERSION),
    Artifact(group="org.slf4j", name="slf4j-simple", version="1.7.36"),
)
APICURIO = (
    Artifact(
        group="io.apicurio", name="apicurio-registry-app", version=APICURIO_VERSION, classifier="all", kind="tar.gz"
    ),
)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock file; parallel test runs wait here for the one that fetches."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def made_once(folder: Path, make: Callable[[Path], None]) -> Path:
    """Fill `folder` with `make` unless that was done before; a half-made folder is never seen under its name."""
    if folder.exists():
        return folder
    with locked(folder.with_name(f".{folder.name}.lock")):
        if folder.exists():
            return folder
        half = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        try:
            make(half)
            half.chmod(0o755)
            half.rename(folder)
        except BaseException:
            shutil.rmtree(half, ignore_errors=True)
            raise
    return folder


def kafka_libs() -> Path:
    """Folder with the jars of Apache Kafka (about 54 MB)."""
    return made_once(CACHE / "kafka" / KAFKA_VERSION / "libs", lambda folder: _fetch(KAFKA, folder))


def apicurio_home() -> Path:
    """Folder with the unpacked Apicurio registry (about 160 MB); `quarkus-run.jar` lies in it."""
    return made_once(CACHE / "apicurio" / APICURIO_VERSION, _fetch_apicurio)


def _fetch_apicurio(folder: Path) -> None:
    packed = folder / "packed"
    packed.mkdir()
    _fetch(APICURIO, packed)
    (archive,) = packed.iterdir()
    shutil.unpack_archive(archive, folder, format="gztar", filter="data")
    shutil.rmtree(packed)
    (start,) = folder.rglob("quarkus-run.jar")
    for entry in list(start.parent.iterdir()) if start.parent != folder else []:
        entry.rename(folder / entry.name)


def java() -> str:
    """The `java` to start servers with."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin") if home else None
    found = found or shutil.which("java")
    if not found:
        msg = "no java found: install Java 17 or set JAVA_HOME"
        raise FetchError(msg)
    return found


def _fetch(artifacts: tuple[Artifact, ...], folder: Path) -> None:
    names = ", ".join(a.coordinates for a in artifacts)
    sys.stderr.write(f"\nfetching {names} into .cache\n")
    sys.stderr.flush()
    failures = []
    for way in (_with_ivy, _with_maven):
        failure = way(artifacts, folder)
        if failure is None:
            return
        failures.append(failure)
    msg = f"cannot fetch {names}:\n" + "\n".join(failures)
    raise FetchError(msg)


def _run(command: list[str], cwd: Path) -> str | None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=900, check=False)
    if done.returncode == 0:
        return None
    return f"{Path(command[0]).name}: exit {done.returncode}\n{(done.stdout + done.stderr)[-2000:]}"


def _with_ivy(artifacts: tuple[Artifact, ...], folder: Path) -> str | None:
    spec = importlib.util.find_spec("pyspark")
    jars = sorted(Path(spec.origin).parent.glob("jars/ivy-*.jar")) if spec and spec.origin else []
    if not jars:
        return "ivy: no ivy jar in pyspark"
    with tempfile.TemporaryDirectory(prefix=".ivy-", dir=CACHE) as work:
        here = Path(work)
        (here / "ivy.xml").write_text(_ivy_file(artifacts))
        (here / "settings.xml").write_text(_ivy_settings(alone=artifacts[0].alone))
        pattern = f"{folder}/[artifact]-[revision](-[classifier]).[ext]"
        command = [java(), "-jar", str(jars[-1]), "-settings", "settings.xml", "-cache", str(here)]
        return _run([*command, "-ivy", "ivy.xml", "-confs", "default", "-retrieve", pattern], here)


def _ivy_file(artifacts: tuple[Artifact, ...]) -> str:
    wanted = []
    for a in artifacts:
        head = f'<dependency org="{a.group}" name="{a.name}" rev="{a.version}"'
        if a.alone:
            inner = f'<artifact name="{a.name}" type="{a.kind}" ext="{a.kind}" m:classifier="{a.classifier}"/>'
            wanted.append(f"{head}>{inner}</dependency>")
        else:
            wanted.append(f'{head} conf="default-&gt;runtime,master"/>')
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="penstock" module="tests"/><configurations><conf name="default"/></configurations>'
        f"<dependencies>{''.join(wanted)}</dependencies></ivy-module>"
    )


def _ivy_settings(*, alone: bool) -> str:
    # Without its pom Ivy knows of no dependencies, which is right for an archive that holds everything.
    poms = "false" if alone else "true"
    return (
        '<ivysettings><settings defaultResolver="public"/><resolvers>'
        f'<ibiblio name="public" m2compatible="true" usepoms="{poms}"/></resolvers></ivysettings>'
    )


def _with_maven(artifacts: tuple[Artifact, ...], folder: Path) -> str | None:
    mvn = shutil.which("mvn")
    if not mvn:
        return "mvn: not installed"
    with tempfile.TemporaryDirectory(prefix="penstock-mvn-") as work:
        here = Path(work)
        common = [mvn, "-B", "-q", f"-DoutputDirectory={folder}"]
        if artifacts[0].alone:
            (a,) = artifacts
            # `copy` asks for the file alone; resolving it as a dependency would ask for poms that are not published.
            wanted = f"-Dartifact={a.group}:{a.name}:{a.version}:{a.kind}:{a.classifier}"
            return _run([*common, "dependency:copy", wanted], here)
        (here / "pom.xml").write_text(_pom(artifacts))
        return _run([*common, "dependency:copy-dependencies", "-DincludeScope=runtime"], here)


def _pom(artifacts: tuple[Artifact, ...]) -> str:
    wanted = "".join(
        f"<dependency><groupId>{a.group}</groupId><artifactId>{a.name}</artifactId><version>{a.version}</version></dependency>"
        for a in artifacts
    )
    return (
        "<project><modelVersion>4.0.0</modelVersion><groupId>penstock</groupId><artifactId>tests</artifactId>"
        f"<version>1</version><dependencies>{wanted}</dependencies></project>"
    )
