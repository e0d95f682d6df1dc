"""Large payloads of a local store: files beside it, named by what is in them.

PostgreSQL keeps large values apart from the rows by itself, and files would be out of reach for other hosts. SQLite
would copy them through its log and carry them in its one file, so there they become files of their own.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final

from penstock.store.errors import StoreError, StoreUnavailable

_SETTLED_SECONDS: Final = 3600.0
"""A file this young may belong to a transaction that has not ended."""


class PayloadFiles:
    """A folder of payloads. Without a folder nothing is taken out of the database."""

    def __init__(self, folder: Path | None, limit: int) -> None:
        self._folder = folder or Path()
        self._limit = limit if folder else None

    def put(self, value: bytes | None) -> str | None:
        """The name under which a large value is on disk now; None where it belongs into the row."""
        if self._limit is None or value is None or len(value) <= self._limit:
            return None
        name = hashlib.sha256(value).hexdigest()
        try:
            self._write(self._path(name), value)
        except OSError as error:
            raise StoreUnavailable(f"a large payload cannot be written to {self._folder}: {error.strerror}") from error
        return name

    def get(self, name: str) -> bytes:
        """I3: the very bytes; a file that is gone or was changed is an error, never another value."""
        hint = f"restore the folder {self._folder} from the backup that the store is from"
        try:
            value = self._path(name).read_bytes()
        except OSError as error:
            raise StoreError(f"the payload {name} cannot be read: {error.strerror}", hint=hint) from error
        if hashlib.sha256(value).hexdigest() != name:
            raise StoreError(f"the payload {name} was changed on disk", hint=hint)
        return value

    def sweep(self, used: Callable[[Collection[str]], Collection[str]]) -> int:
        """Remove files that no letter names; `used` says which of some names are in use."""
        if self._limit is None:
            return 0
        before = time.time() - _SETTLED_SECONDS
        old = {path.name: path for path in self._folder.glob("??/*") if path.stat().st_mtime < before}
        unused = set(old) - set(used(list(old))) if old else set()
        for name in unused:
            old[name].unlink(missing_ok=True)
        return len(unused)

    def _path(self, name: str) -> Path:
        return self._folder / name[:2] / name

    def _write(self, path: Path, value: bytes) -> None:
        if path.exists():
            os.utime(path)  # young again: the sweep must not take it from under this transaction
            return
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        unfinished = path.with_name(f".{path.name}.{os.getpid()}.{time.monotonic_ns()}")
        try:
            with os.fdopen(os.open(unfinished, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600), "wb") as file:
                file.write(value)
                file.flush()
                os.fsync(file.fileno())
            unfinished.rename(path)
        finally:
            unfinished.unlink(missing_ok=True)
        _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    # The name is durable only when its folder is.
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
