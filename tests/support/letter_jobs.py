"""Work of a job over dead letters that goes on as far as a test lets it."""

from __future__ import annotations

import threading
from typing import Any

from penstock.service.replayers import own_name


class Steps:
    """Each turn that is released is a letter."""

    def __init__(self, total: int = 10) -> None:
        self.runner, self.total, self.done = own_name(), total, 0
        self.note: str | None = None
        self.halted: str | None = None
        self.turns = threading.Semaphore(0)

    def figures(self) -> dict[str, dict[str, Any]]:
        return {"orders": {"replayed": self.done}}

    def run(self, stop: threading.Event) -> None:
        while self.done < self.total and not stop.is_set():
            if self.turns.acquire(timeout=0.05):
                self.done += 1
