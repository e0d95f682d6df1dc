"""What the actions of both sides do with an event: look at it the same way and note it, nothing else.

Loaded in the peer's environment too: it imports the standard library and the sink only.
"""

from __future__ import annotations

import time
from typing import Any

from bench.engine import sink

_clock = time.time_ns
_counted = sink.counted
_note = sink.note


def changed(envelope: Any) -> None:
    """An entity change: read what an action would decide on, then count."""
    event = envelope.event
    if event.category and event.operation and event.entityUrn:
        _counted(envelope)


def logged(envelope: Any) -> None:
    """A metadata change log: read what an action would decide on and the aspect's bytes, then count."""
    event = envelope.event
    if event.entityUrn and event.aspectName and event.aspect.value:
        _counted(envelope)


def marked(envelope: Any) -> None:
    """One of the few events that a filter lets pass: note where it stands, so that the rejected ones can be counted."""
    now = _clock()
    place = envelope.meta["kafka"]
    _note((place["partition"], place["offset"], now, 0))


def timed(envelope: Any) -> None:
    """An entity change that says when it was produced."""
    now = _clock()
    said = envelope.event.safe_parameters
    _note((said["t"], 0, now, said["n"]))
