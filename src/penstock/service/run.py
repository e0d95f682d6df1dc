"""Runs an instance in this process until it is told to stop, or until it has caught up."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog

from penstock import __version__
from penstock.config.loading import Loaded
from penstock.config.problems import InvalidConfigError
from penstock.config.settings import Settings
from penstock.config.trigger_environment import TriggerDefaults
from penstock.core.deadline import Deadline
from penstock.core.errors import ConfigError, Unavailable
from penstock.core.memory import few_arenas
from penstock.core.metrics import METRICS
from penstock.core.status import PipelineSummary
from penstock.engine.instance import Instance
from penstock.engine.spark.cluster import SparkStartError
from penstock.engine.spark.context import Spark, SparkDied
from penstock.service.logs import configure_logs
from penstock.service.managed_running import ManagedRunning
from penstock.service.opening import opened_in_time
from penstock.service.progress import Progress
from penstock.service.reloading import Reloader
from penstock.service.retention import Upkeep
from penstock.service.secrets import SecretBox
from penstock.service.signals import Signals
from penstock.service.statistics import statistics
from penstock.service.stopping import Stop
from penstock.service.taking import Taking
from penstock.service.trigger_runner import InstanceRunner
from penstock.service.triggers_running import Triggers, apply_files
from penstock.service.validation import load_checked
from penstock.service.warm_up import begin_spark

log = structlog.get_logger("penstock.run")

_LOOK_EVERY = 0.2
_LOOKERS_END = 5.0
"""Seconds that a stop waits for those who take pipelines in and let them go."""
PATIENCE = 300.0
"""Seconds without any progress after which `--until-caught-up` gives up: longer than a broker takes to come back."""


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What the pipelines of this process did."""

    pipelines: dict[str, PipelineSummary]
    failed: bool
    """A pipeline did not catch up, or failed and nobody asked for the stop, or a file could not be used."""
    failed_pipelines: tuple[str, ...] = ()
    asked: bool = True
    """It was told to stop; False: nothing was left to do."""
    clean: bool = True
    """False: a pipeline was still at work when the time for its stop was over."""
    statistics: dict[str, dict[str, Any]] = field(default_factory=dict)
    """DataHub's object per pipeline."""

    def as_dict(self) -> dict[str, Any]:
        return {"pipelines": {name: summary.as_dict() for name, summary in self.pipelines.items()}}


class NoPipelineLeft(ConfigError):
    """No file gave a pipeline that can be run."""

    code = "no_pipeline"


def run_instance(
    paths: Sequence[Path | str],
    settings: Settings,
    *,
    until_caught_up: bool = False,
    until_over: bool = False,
    patience: float = PATIENCE,
    strict: bool = False,
    on_ready: Callable[[Instance], None] | None = None,
    on_stopping: Callable[[], None] | None = None,
    stop: threading.Event | None = None,
    spark: Spark | None = None,
    http_address: str | None = None,
) -> RunSummary:
    """Run the pipelines of these files, on a Spark that was begun before, if given, until `stop` or a signal.

    `until_caught_up` ends with `NoProgress` when nothing has moved for `patience` seconds. `until_over` ends when every
    pipeline has failed or its source has ended, and wants one pipeline at least. `strict` refuses to run without the
    files that cannot be used.
    """
    defaults = TriggerDefaults.of(os.environ)
    loaded = _loaded(paths, defaults, strict=strict, until_over=until_over)
    secrets = settings.secrets.union(*(spec.secrets for spec in loaded.specs))
    configure_logs(**settings.log.model_dump(), secrets=secrets)
    few_arenas()
    # Triggers wait for a store that is away: their database may start after them.
    patient = bool(loaded.workflows) or not paths
    with (
        Signals(settings) as signals,
        Stop(stop) as asked,
        opened_in_time(settings, asked.asked if patient else None) as store,
    ):
        box = SecretBox.of(store, settings)
        apply_files(store, box, loaded)
        instance = Instance(
            settings,
            store,
            METRICS,
            spark or begin_spark(settings),
            version=__version__,
            http_address=http_address,
        )
        taking = Taking(instance, settings, secrets)
        taking.tell(loaded, {})

        def load_applied(given: Sequence[Path | str]) -> Loaded:
            fresh = load_checked(given)
            apply_files(store, box, fresh)
            return fresh

        reloader = Reloader(paths, loaded, taking, load_applied, settings.engine.reload)
        managed = ManagedRunning(
            store,
            settings,
            taking,
            others=lambda: [flow.spec for flow in list(instance.runners)],
            named=box.named,
        )
        triggers = Triggers(store, box, settings, defaults, InstanceRunner(instance, taking.learn))
        upkeep = Upkeep(store)
        try:
            for spec in list(loaded.specs):
                taking.take(spec, loaded)
            if not until_over:
                triggers.begin()
            if not _start(instance, asked.asked):
                return RunSummary(instance.summary(), failed=False)
            signals.begin(instance)
            asked.listen()
            _say_what_does_not_run(instance)
            if on_ready:
                on_ready(instance)
            if not until_over:
                upkeep.start()
            if not until_caught_up and not until_over:
                triggers.follow()
            if settings.engine.reload and not (until_caught_up or until_over):
                reloader.start()
            if not (until_caught_up or until_over):
                managed.start()
            _wait(instance, asked.asked, patience if until_caught_up else None, until_over=until_over)
            failed = bool(loaded.problems) or (until_caught_up and any(flow.is_halted for flow in instance.runners))
        finally:
            ends = Deadline.after(settings.engine.stop_timeout)
            if on_stopping:
                on_stopping()
            _end_lookers(managed, reloader, triggers)
            upkeep.close()
            instance.stop(ends.remaining)
        failures = tuple(flow.name for flow in instance.runners if flow.state == "failed")
        return RunSummary(
            instance.summary(),
            # Whoever stops an instance asks whether it stopped; what failed before was told when it did.
            failed or (bool(failures) and not asked.asked.is_set()),
            failed_pipelines=failures,
            asked=asked.asked.is_set(),
            clean=instance.stopped_cleanly,
            statistics={flow.name: statistics(flow) for flow in instance.runners},
        )


def _start(instance: Instance, asked: threading.Event) -> bool:
    """False: it was told to stop before it ran, and nothing of it counts as a failure."""
    if asked.is_set():
        return False
    try:
        instance.start()
    except SparkStartError:
        # Whoever ends a whole process group ends Spark's JVM, too, while that starts.
        if not asked.is_set():
            raise
        return False
    return True


def _end_lookers(*lookers: ManagedRunning | Reloader | Triggers) -> None:
    """Whoever asks a store that hangs is not waited for: the time of a stop is for the pipelines' work."""
    ends = Deadline.after(_LOOKERS_END)
    for looker in lookers:
        looker.stop(ends.remaining)


def _loaded(paths: Sequence[Path | str], defaults: TriggerDefaults, *, strict: bool, until_over: bool) -> Loaded:
    """What the files give, with everything that is wrong with them said; an error where nothing is left to run."""
    loaded = load_checked(paths)
    for warning in (*loaded.warnings, *defaults.warnings):
        log.warning(str(warning))
    for problem in loaded.problems:
        log.error(str(problem))
    if strict and loaded.problems:
        raise InvalidConfigError(loaded.problems)
    if not loaded.specs and until_over:
        raise NoPipelineLeft("no pipeline is left to run", hint="give one that is enabled and whose variables are set")
    if not loaded.specs and not loaded.workflows and loaded.problems:
        raise InvalidConfigError(loaded.problems)
    return loaded


def _say_what_does_not_run(instance: Instance) -> None:
    for flow in instance.runners:
        if flow.desired.state != "running":
            state, reason = flow.desired.shown()
            hint = f"`penstock pipelines resume {flow.name}` brings it back"
            log.warning("pipeline does not run", pipeline=flow.name, state=state, reason=reason, hint=hint)


def _wait(instance: Instance, asked: threading.Event, patience: float | None, *, until_over: bool = False) -> None:
    """Until asked to stop; with `patience`, until caught up or until nothing has moved for so long."""
    ends, all_failed, watch = None, False, Progress(instance)
    while not asked.is_set():
        if patience is not None:
            try:
                ends = ends or instance.ends()
                if instance.caught_up(ends):
                    return
            except Unavailable as error:
                log.debug("ends not known yet", reason=str(error))
            watch.end_after(patience)
        # Asked after the JVM was seen: a signal to the whole process group ends it, and is a stop like any other.
        if instance.spark.died and not asked.is_set():
            raise SparkDied(
                "Spark's JVM has ended; nothing beyond what is committed counts as done",
                hint="start again; if it was killed for memory, lower spark.driver.memory or give the machine more",
            )
        states = {flow.state for flow in instance.runners}
        if all_failed != (all_failed := states == {"failed"}) and all_failed:
            log.error("every pipeline has failed")
        if until_over and all(flow.is_over for flow in instance.runners):
            return
        if instance.runners and all(flow.finished for flow in instance.runners):
            return
        time.sleep(_LOOK_EVERY)
