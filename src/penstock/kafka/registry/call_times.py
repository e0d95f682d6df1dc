"""Calls of schema registries by this process; apart from their clients, which many pipelines never load."""

from __future__ import annotations

import time
from typing import Literal

from penstock.core.latency import TimesByName

CALLS = TimesByName()
"""By what came of them."""


def note_call(outcome: Literal["ok", "unknown", "error"], began: float) -> None:
    """Count a call that has ended (`unknown`: there is no such schema); `began` is by the performance counter."""
    CALLS.add(outcome, time.perf_counter() - began)
