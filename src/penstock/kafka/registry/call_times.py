"""Durations of this process's schema registry calls. Apart from the clients, which metrics must not load."""

from __future__ import annotations

import time
from typing import Literal

from penstock.core.latency import TimesByName

CALLS = TimesByName()
"""By outcome."""


def note_call(outcome: Literal["ok", "unknown", "error"], began: float) -> None:
    """Record a finished call (`unknown`: there is no such schema); `began` is a time of the performance counter."""
    CALLS.add(outcome, time.perf_counter() - began)
