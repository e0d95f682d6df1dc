"""The plug-ins of pipelines under test: an action whose effects are lines of a shared file, and poison at every stage.

What an event does is written in it: `{"seq": 7, "do": "raise"}`. Lines are appended by one write each, so their order
in the file is the order in which things happened, whichever process they happened in.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from penstock import Action, Event, Filter, PipelineContext
from penstock.core.errors import Unavailable

_files: dict[str, int] = {}


def act(event: Event, config: dict[str, Any]) -> Any:
    """Misbehave as the event asks, or take effect after `config.work_s` seconds."""
    value = event.event
    if Path(config["log"]).with_name("away").exists():
        raise Unavailable("the target is away")
    wanted = value.get("do")
    if wanted in _MISDEEDS:
        return _MISDEEDS[wanted]()
    if config.get("work_s"):
        time.sleep(config["work_s"])
    if value.get("fails") and value["fails"] > _tries(event, config):
        raise ConnectionResetError("not this time")
    _append(config["log"], line(event))
    return None


def line(event: Event) -> str:
    place, key = event.meta["kafka"], event.key
    told = [place["topic"], place["partition"], place["offset"], key.decode() if key else None, event.event.get("seq")]
    return json.dumps([*told, time.monotonic(), os.getpid()])


def _append(path: str, text: str) -> None:
    file = _files.get(path)
    if file is None:
        file = _files[path] = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(file, f"{text}\n".encode())


def _tries(event: Event, config: dict[str, Any]) -> int:
    """How often this event was tried before, over all processes."""
    place = event.meta["kafka"]
    file = Path(config["log"]).with_name(f"tries-{place['topic']}-{place['partition']}-{place['offset']}")
    before = file.stat().st_size if file.exists() else 0
    _append(str(file), "")
    return before


def _raise() -> None:
    raise ValueError("poison")


def _exit() -> None:
    sys.exit(3)


def _end() -> None:
    os._exit(3)


def _segfault() -> None:
    ctypes.string_at(0)


def _killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _hang() -> None:
    time.sleep(3600)


def _seize() -> None:
    # As `sleep`, but the interpreter lock is kept: no other thread of the process goes on.
    ctypes.PyDLL(None).sleep(3600)


def _out_of_memory() -> None:
    raise MemoryError


_MISDEEDS = {
    "raise": _raise,
    "exit": _exit,
    "nonsense": lambda: "done",
    "memory": _out_of_memory,
    "end": _end,
    "segfault": _segfault,
    "kill": _killed,
    "hang": _hang,
    "seize": _seize,
}


def change(event: Event) -> Event | None:
    """A transform that raises where the event says so."""
    if event.event.get("do") == "transform":
        raise KeyError("poison")
    if event.event.get("do") == "transform-exit":
        sys.exit(4)
    return event


class Choosy(Filter):
    """A filter that raises where the event says so, and drops what asks for it."""

    @classmethod
    def create(cls, config: dict[str, Any], ctx: PipelineContext) -> Choosy:
        return cls()

    def matches(self, event: Event) -> bool:
        if event.event.get("do") == "filter":
            raise LookupError("poison")
        return event.event.get("do") != "drop"


class Batched(Action):
    """Acts on many events at once, each as `act` would."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config

    @classmethod
    def create(cls, config: dict[str, Any], ctx: PipelineContext) -> Batched:
        return cls(config)

    def act_batch(self, events: list[Event]) -> list[Exception | bool | None]:
        results: list[Exception | bool | None] = []
        for event in events:
            try:
                results.append(act(event, self.config))
            except ValueError as error:
                results.append(error)
        return results

    def close(self) -> None:
        """Nothing is open."""
