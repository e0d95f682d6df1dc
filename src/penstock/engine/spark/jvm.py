"""What Spark's processes stand on: Java, its class-data archive, a private folder, and their share of the memory."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from importlib.metadata import version
from pathlib import Path


def java_executable() -> str | None:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    return java if java and Path(java).exists() else None


class ClassArchive:
    """Classes as the JVM keeps them in memory: the first start on a machine writes them down, later ones save seconds.

    It is made beside the Spark work folder and moved to its place when it is complete.
    """

    def __init__(self, home: Path, folder: Path) -> None:
        stamp = hashlib.sha1(f"{version('pyspark')}|{_java_identity()}|1".encode(), usedforsecurity=False)
        self._ready = home / "cache" / f"spark-{stamp.hexdigest()[:12]}.jsa"
        self._made = folder / self._ready.name
        self.is_new = False
        """True: the JVM will write it on its way out, which takes a moment."""
        if not self._ready.is_file():
            with contextlib.suppress(OSError):
                self._ready.parent.mkdir(parents=True, exist_ok=True)
                self.is_new = True

    def options(self) -> list[str]:
        """For the JVM's command line."""
        if self.is_new:
            return [f"-XX:ArchiveClassesAtExit={self._made}"]
        return [f"-XX:SharedArchiveFile={self._ready}", "-Xshare:auto"] if self._ready.is_file() else []

    def keep(self) -> None:
        """The JVM has ended: what it wrote is for the next start."""
        if self._made.is_file():
            with contextlib.suppress(OSError):
                partial = self._ready.with_suffix(f".{os.getpid()}")
                shutil.copyfile(self._made, partial)
                partial.replace(self._ready)


def own_folder() -> Path:
    """A private folder with a short path: Spark's sockets live there, and a socket's path has at most 104 characters.

    Those of instances that were killed are removed on the way.
    """
    parent = Path("/tmp") if Path("/tmp").is_dir() else Path(tempfile.gettempdir())  # noqa: S108 - private by mkdtemp
    for old in parent.glob("penstock-[0-9]*-*"):
        with contextlib.suppress(OSError, ValueError):
            if old.stat().st_uid == os.getuid() and not Path(f"/proc/{int(old.name.split('-')[1])}").exists():
                shutil.rmtree(old, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"penstock-{os.getpid()}-", dir=parent))


def quarter_of_the_memory() -> int:
    """Of the machine, or of the container where that has less."""
    size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):
            size = min(size, int(Path(limit).read_text()))
    return size // 4


def _java_identity() -> str:
    java = java_executable()
    if java is None:
        return "none"
    real = Path(java).resolve()
    return f"{real}|{real.stat().st_mtime_ns}"
