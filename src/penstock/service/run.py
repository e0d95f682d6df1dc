"""Runs an instance in this process until it is told to stop, or until it has caught up."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import structlog

from penstock import __version__
from penstock.config.problems import InvalidConfigError
from penstock.config.settings import Settings
from penstock.core.errors import Unavailable
from penstock.core.metrics import METRICS
from penstock.core.status import PipelineSummary
from penstock.engine.instance import Instance
from penstock.engine.spark import Spark, SparkDied
from penstock.service.logs import configure_logs
from penstock.service.opening import opened_for_writing
from penstock.service.validation import load_checked
from penstock.service.warm_up import begin_spark
from penstock.store import StateRow

log = structlog.get_logger("penstock.run")

_LOOK_EVERY = 0.2


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What the pipelines of this process did."""

    pipelines: dict[str, PipelineSummary]
    failed: bool
    """A pipeline failed, or a file could not be used."""

    def as_dict(self) -> dict[str, Any]:
        return {"pipelines": {name: summary.as_dict() for name, summary in self.pipelines.items()}}


class Stop:
    """Set by SIGTERM, SIGINT or a caller; signals are taken only in the main thread."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        self.listen()
        return self

    def listen(self) -> None:
        """Take the signals; again after Spark has started, which puts a handler of its own in place."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                before = signal.signal(number, lambda *_: self.asked.set())
                self._before.setdefault(number, before)

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


def run_instance(
    paths: Sequence[Path | str],
    settings: Settings,
    *,
    until_caught_up: bool = False,
    on_ready: Callable[[Instance], None] | None = None,
    stop: threading.Event | None = None,
    spark: Spark | None = None,
) -> RunSummary:
    """Run the pipelines of these files, on a Spark that was begun before, if given."""
    loaded = load_checked(paths)
    for warning in loaded.warnings:
        log.warning(str(warning))
    for problem in loaded.problems:
        log.error(str(problem))
    if not loaded.specs and loaded.problems:
        raise InvalidConfigError(loaded.problems)
    secrets = settings.secrets.union(*(spec.secrets for spec in loaded.specs))
    configure_logs(level=settings.log.level, format=settings.log.format, secrets=secrets)
    with Stop() as asked, opened_for_writing(settings) as store:
        instance = Instance(settings, store, METRICS, spark or begin_spark(settings), version=__version__)
        instance.invalid += [
            StateRow(pipeline=_called(problem), instance=instance.id, state="invalid", reason=str(problem))
            for problem in loaded.problems
        ]
        try:
            for spec in loaded.specs:
                instance.add(spec)
            instance.start()
            asked.listen()
            if on_ready:
                on_ready(instance)
            _wait(instance, [asked.asked, *([stop] if stop else [])], until_caught_up=until_caught_up)
            failed = bool(loaded.problems) or any(flow.state == "failed" for flow in instance.flows)
        finally:
            instance.stop()
        return RunSummary(instance.summary(), failed or any(flow.state == "failed" for flow in instance.flows))


def _wait(instance: Instance, stops: list[threading.Event], *, until_caught_up: bool) -> None:
    ends = None
    while not any(stop.is_set() for stop in stops):
        if until_caught_up:
            try:
                ends = ends or instance.ends()
                if instance.caught_up(ends):
                    return
            except Unavailable as error:
                log.debug("ends not known yet", reason=str(error))
        if instance.spark.died:
            raise SparkDied(
                "Spark's JVM has ended; nothing beyond what is committed counts as done",
                hint="start again; if it was killed for memory, lower spark.driver.memory or give the machine more",
            )
        if instance.flows and all(flow.state == "failed" for flow in instance.flows):
            log.error("every pipeline has failed")
            if until_caught_up:
                return
        time.sleep(_LOOK_EVERY)


def _called(problem: Any) -> str:
    return str(getattr(problem, "pipeline", None) or problem.file)
