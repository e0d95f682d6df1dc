"""Remembers, in a file that outlives the process, at which event of an external source a worker died."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from penstock.core.errors import PenstockError, Terminal

_CALM = b"-"
_DEADLY = 2
"""Deaths over one event: one may be chance, or a kill from outside."""


class KilledItsProcess(PenstockError, Terminal):
    """The worker died over this event, twice."""

    code = "crash"
    stage = "crash"


class CrashMarker:
    """One event at a time is noted before anything is done with it; its source gives it again after a death, under
    another number, so it is known by its text."""

    def __init__(self, file: str | None) -> None:
        """Without a file nothing is remembered."""
        self._file = os.open(file, os.O_RDWR | os.O_CREAT, 0o600) if file else None
        self._seen: dict[str, int] = {}
        noted = Path(file).read_bytes() if file else b""
        if noted and not noted.startswith(_CALM):
            name, before = noted.decode().split()
            self._seen[name] = int(before) + 1

    def verdict(self, text: bytes) -> KilledItsProcess | None:
        """Why the event must not be worked on again."""
        deaths = self._seen.get(_name(text), 0) if self._seen else 0
        if deaths < _DEADLY:
            return None
        return KilledItsProcess(f"the worker process died {deaths} times while this event was worked on")

    def begin(self, text: bytes) -> None:
        if self._file is not None:
            name = _name(text)
            os.pwrite(self._file, f"{name} {self._seen.get(name, 0)}\n".encode(), 0)

    def calm(self) -> None:
        """Nothing is being worked on."""
        if self._file is not None:
            os.pwrite(self._file, _CALM, 0)

    def close(self) -> None:
        if self._file is not None:
            self.calm()
            os.close(self._file)
            self._file = None


def _name(text: bytes) -> str:
    # Without its meta, in which a source may number its deliveries.
    return hashlib.sha1(text.rpartition(b', "meta":')[0] or text, usedforsecurity=False).hexdigest()
