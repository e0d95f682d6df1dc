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
import threading
import time
from pathlib import Path
from typing import Any

from penstock import Action, Event, Filter, PipelineContext
from penstock.core.errors import Unavailable

_files: dict[str, int] = {}


def act(event: Event, config: dict[str, Any]) -> Any:
    """Misbehave as the event asks, or take effect after `config.work_s` seconds."""
    began = time.monotonic()
    prepare(event, config)
    wanted = event.event.get("do")
    if wanted in _MISDEEDS:
        return _MISDEEDS[wanted]()
    _append(config["log"], line(event, began))
    return None


def prepare(event: Event, config: dict[str, Any]) -> None:
    """Everything that an event asks for before its effect, but for misdeeds."""
    value, log = event.event, Path(config["log"])
    if log.with_name("away").exists():
        raise Unavailable("the target is away")
    if value.get("do") == "away" and log.with_name("partly-away").exists():
        raise Unavailable("the target of this event is away")
    if value.get("do") == "hold":
        _hold(log)
    if config.get("work_s"):
        time.sleep(config["work_s"])
    if value.get("work_s"):
        time.sleep(value["work_s"])
    if value.get("fails") and value["fails"] > _tries(event, config):
        raise ConnectionResetError("not this time")


def _hold(log: Path) -> None:
    """Act until the test removes the file `hold`; the file `held` says that it has come to that."""
    log.with_name("held").touch()
    while log.with_name("hold").exists():
        time.sleep(0.01)


def line(event: Event, began: float) -> str:
    place, key = event.meta["kafka"], event.key
    told = [place["topic"], place["partition"], place["offset"], key.decode() if key else None, event.event.get("seq")]
    return json.dumps([*told, time.monotonic(), os.getpid(), began, os.environ.get("PENSTOCK_TEST_INSTANCE", "")])


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
            except (ValueError, OSError, Unavailable) as error:
                results.append(error)
        return results

    def close(self) -> None:
        """Nothing is open."""


class Deferring(Action):
    """Defers every acknowledgement: events take effect, in order, in a thread of the action's own."""

    def __init__(self, config: dict[str, Any], ctx: PipelineContext) -> None:
        self.config, self.ctx = config, ctx
        self._waiting: list[tuple[Event, float]] = []
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="deferring", daemon=True)
        self._thread.start()

    @classmethod
    def create(cls, config: dict[str, Any], ctx: PipelineContext) -> Deferring:
        return cls(config, ctx)

    def act(self, event: Event) -> Any:
        began = time.monotonic()
        prepare(event, self.config)
        wanted = event.event.get("do")
        if wanted in _MISDEEDS:
            return _MISDEEDS[wanted]()
        with self._lock:
            self._waiting.append((event, began))
        return False

    def _run(self) -> None:
        while not self._closed.wait(0.02):
            self._flush()

    def _flush(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, []
            for event, began in waiting:
                _append(self.config["log"], line(event, began))
        for event, _ in waiting:
            self.ctx.event_source.ack(event)  # type: ignore[union-attr]  # pipelines on Kafka always have one

    def close(self) -> None:
        self._closed.set()
        self._thread.join(10)
        self._flush()
