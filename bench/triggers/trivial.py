"""The step of the benchmark of runs."""

from __future__ import annotations

from typing import Any


def greet(state: dict[str, Any]) -> dict[str, Any]:
    """As little as a step can do, with a line in the log."""
    print("message", state["request"]["offset"])
    return {"seen": state["data"]["n"]}
