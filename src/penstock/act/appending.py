"""A file that several processes append lines to, rotated by size."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from penstock.core.errors import Unavailable


class Appender:
    """Missing folders are made. A file that would grow beyond `rotate` bytes becomes `path.1`, `path.2`, …

    New files get `mode`; one that is there keeps its own.
    """

    def __init__(self, path: Path, rotate: int | None, *, fsync: bool, mode: int = 0o600) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._rotate = rotate
        self._fsync = fsync
        self._mode = mode
        self._fd = self._open()

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _open(self) -> int:
        return os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, self._mode)

    def append(self, data: bytes) -> None:
        """Whole lines, all of them or none; `Unavailable` where the file cannot be written."""
        try:
            self._append(data)
        except OSError as error:
            raise Unavailable(f"{self._path} cannot be written to: {error}", received=str(self._path)) from error

    def _append(self, data: bytes) -> None:
        size = self._lock()
        try:
            if self._rotate and size and size + len(data) > self._rotate:
                self._path.rename(self._next_name())
                size = self._lock()
            if size and os.pread(self._fd, 1, size - 1) != b"\n":
                data = b"\n" + data  # a writer died in the middle of its line
            self._write(data, size)
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def _lock(self) -> int:
        """Lock the file that has the path now (another process may have rotated it away) and say how long it is."""
        while True:
            fcntl.flock(self._fd, fcntl.LOCK_EX)
            mine = os.fstat(self._fd)
            try:
                current = self._path.stat()
            except FileNotFoundError:
                current = None
            if current and (mine.st_ino, mine.st_dev) == (current.st_ino, current.st_dev):
                return mine.st_size
            fd = self._open()
            os.close(self._fd)
            self._fd = fd

    def _next_name(self) -> Path:
        prefix = f"{self._path.name}."
        names = (entry.name.removeprefix(prefix) for entry in self._path.parent.glob(f"{self._path.name}.*"))
        return self._path.with_name(prefix + str(max((int(name) for name in names if name.isdecimal()), default=0) + 1))

    def _write(self, data: bytes, size: int) -> None:
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(self._fd, view) :]
            if self._fsync:
                os.fsync(self._fd)
        except OSError:
            os.ftruncate(self._fd, size)  # the batch is written again as a whole; half of it must not stay
            raise
