"""Calls between processes: each takes a moment, in which anything else may happen, and some processes are cut off."""

from __future__ import annotations

from tests.simulation.scheduler import Process, ProcessKilled, Scheduler


class Network:
    """Every answer of the world comes through here."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.cut: set[Process] = set()
        """Processes that reach no broker, while others do."""

    def call(self, process: Process) -> None:
        """One request to a server and its answer."""
        if not process.alive:
            raise ProcessKilled
        scheduler = self._scheduler
        chance = scheduler.rng.random()
        if chance < 0.15:
            scheduler.block(scheduler.rng.random() * 0.05)
        elif chance < 0.6:
            scheduler.pause()
        elif scheduler.current is not None and scheduler.current.held:
            scheduler.complain(f"{scheduler.current.label} calls a server while it holds a lock", trace=True)

    def wait_out(self, seconds: float) -> None:
        """A request without an answer: the caller waits until its patience ends."""
        self._scheduler.block(seconds * (0.5 + self._scheduler.rng.random()))
