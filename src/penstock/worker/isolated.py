"""Main module of the process of a run that has one of its own. It begins with each run, so it loads what that needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.workflows.isolated import serve
from penstock.workflows.steps.step import ActOn


def _make_action(kind: str, config: dict[str, Any], folder: str | None) -> tuple[ActOn, Callable[[], None]]:
    from penstock.worker.step_actions import make_action  # noqa: PLC0415 - a second that few runs need

    return make_action(kind, config, folder)


if __name__ == "__main__":
    serve(_make_action)
