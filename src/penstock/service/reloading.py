"""Looks again, now and then, at jobs that another system manages, and restarts those that have changed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import structlog

from penstock.config.dialects.wherehows_job import JobDocument
from penstock.config.loading import Loaded
from penstock.config.spec import PipelineSpec

log = structlog.get_logger("penstock.reload")


class Runner(Protocol):
    """What takes pipelines in and lets them go."""

    def take(self, spec: PipelineSpec, loaded: Loaded) -> None:
        """Start it."""

    def drop(self, name: str) -> None:
        """Finish what is under way, and leave the group."""

    def tell(self, loaded: Loaded) -> None:
        """Show what cannot be used."""


class Reloader(threading.Thread):
    """Only WhereHows jobs: their files and rows are changed by people who cannot restart an instance."""

    def __init__(
        self,
        paths: Sequence[Path | str],
        loaded: Loaded,
        runner: Runner,
        load: Callable[[Sequence[Path | str]], Loaded],
        every: float,
    ) -> None:
        super().__init__(name="reload", daemon=True)
        self._paths = paths
        self._runner = runner
        self._load = load
        self._every = every
        self._versions = _versions(loaded)
        self._told = set(map(str, loaded.problems))
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(self._every):
            try:
                self.look()
            except Exception:
                log.exception("jobs could not be looked at again; what runs goes on")

    def stop(self, timeout: float) -> None:
        """No pipeline is begun or ended afterwards, unless that takes longer than the timeout."""
        self._over.set()
        if self.is_alive():
            self.join(timeout)

    def look(self) -> None:
        """Compare once."""
        fresh = self._load(self._paths)
        self._tell(fresh)
        versions = _versions(fresh)
        by_name = {spec.name: spec for spec in fresh.specs}
        for name, version in versions.items():
            before = self._versions.get(name)
            if before == version or self._over.is_set():
                continue
            if before is not None:
                self._runner.drop(name)
            self._runner.take(by_name[name], fresh)
            self._versions[name] = version
            log.info("job has changed and was restarted" if before else "job is new and was started", pipeline=name)
        if fresh.problems:
            return  # a job that is not there now may just not have been readable
        for name in self._versions.keys() - versions.keys():
            self._runner.drop(name)
            del self._versions[name]
            log.info("job is gone and was stopped", pipeline=name)

    def _tell(self, fresh: Loaded) -> None:
        problems = {str(problem): problem for problem in fresh.problems}
        if problems.keys() == self._told:
            return
        self._runner.tell(fresh)
        for text in problems.keys() - self._told:
            log.error(text)
        self._told = set(problems)


def _versions(loaded: Loaded) -> dict[str, str]:
    return {spec.name: spec.version for spec in loaded.specs if isinstance(loaded.documents[spec.name], JobDocument)}
