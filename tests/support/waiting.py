"""Waiting for a condition with a deadline: what tests use instead of sleeping."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(
    condition: Callable[[], T], deadline_s: float, what: str | Callable[[], object], *, every_s: float = 0.05
) -> T:
    """Poll `condition` until it returns something true and return that; fail with `what` when the deadline passes.

    `what` may be a function: it is called at the deadline, so that it can say how far things got.
    """
    end = time.monotonic() + deadline_s
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() >= end:
            seen = what() if callable(what) else what
            msg = f"not within {deadline_s:g} s: {seen}"
            raise AssertionError(msg)
        time.sleep(every_s)
