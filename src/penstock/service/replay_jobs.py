"""Replays of dead letters that faces begin: one after the other, on the Spark of the running instance."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.config.spec import PipelineSpec
from penstock.core.errors import ConfigError, Unavailable
from penstock.engine.spark.context import Spark
from penstock.service.letter_jobs import LetterJobs
from penstock.service.replay import Edit, LetterPlan, LetterReplay, plan_letters
from penstock.service.replayers import own_name, release_orphans
from penstock.store import LetterJobRow, Store, Which


class NoSparkYet(Unavailable):
    """The instance that would replay is not running, or has not started yet."""

    code = "no_spark"


@dataclass(slots=True, frozen=True)
class _ReplayWork:
    """A replay as the work of a job."""

    replay: LetterReplay
    spark: Callable[[], Spark | None]

    @property
    def runner(self) -> str:
        return self.replay.by

    @property
    def total(self) -> int:
        return self.replay.total

    @property
    def done(self) -> int:
        return self.replay.done

    @property
    def note(self) -> str | None:
        return self.replay.note

    @property
    def halted(self) -> str | None:
        return self.replay.halted

    def figures(self) -> dict[str, dict[str, Any]]:
        return self.replay.figures()

    def run(self, stop: threading.Event) -> None:
        spark = self.spark()
        if spark is None:
            raise NoSparkYet("the instance has stopped")
        self.replay.run(spark, stop)


class ReplayJobs:
    """Plans replays and lines them up."""

    def __init__(
        self,
        store: Store,
        jobs: LetterJobs,
        *,
        spark: Callable[[], Spark | None],
        specs: Callable[[], Mapping[str, PipelineSpec]],
        max_replays: int,
    ) -> None:
        self._store, self._jobs = store, jobs
        self._spark, self._specs, self._max_replays = spark, specs, max_replays

    def plan(self, which: Which, edit: Edit | None = None) -> LetterPlan:
        """What a replay would do; refuses what cannot be replayed, and changes nothing."""
        return plan_letters(self._store, which, [], edit, running=self._specs())

    def start(
        self, which: Which, *, by: str, what: str = "", edit: Edit | None = None, rate: float | None = None
    ) -> LetterJobRow:
        """Begin, or wait for the one that runs; refuses what cannot be replayed."""
        if self._spark() is None:
            raise NoSparkYet("the instance has not started yet", hint="try again when its pipelines run")
        release_orphans(self._store, own_name())
        plan = self.plan(which, edit)
        if not plan.letters:
            raise ConfigError("there are no letters to replay", hint="replayed ones are taken by their id only")
        work = _ReplayWork(LetterReplay(plan, self._store, self._max_replays, rate, edit), self._spark)
        return self._jobs.line_up("replay", work, by=by, what=what, pipelines=plan.specs)
