"""What goes out to other systems while an instance runs: errors, figures, lineage, each if the settings ask for it."""

from __future__ import annotations

from typing import Self

from penstock.config.settings import Settings
from penstock.core.metrics import METRICS
from penstock.engine.instance import Instance
from penstock.engine.pipelines.runner import PipelineRunner
from penstock.service.lineage import Lineage, lineage_of
from penstock.service.sentry import Reporter, begin_sentry
from penstock.service.telemetry import offer_metrics


class Signals:
    """From before the start until everything has stopped."""

    def __init__(self, settings: Settings) -> None:
        """`ConfigError` where a package is not installed that the settings need."""
        self._instance: Instance | None = None
        self._lineage: Lineage | None = lineage_of(settings, self._flows)
        self._reporter: Reporter | None = begin_sentry(settings)
        offer_metrics(settings, METRICS)

    def _flows(self) -> list[PipelineRunner]:
        return list(self._instance.runners) if self._instance else []

    def begin(self, instance: Instance) -> None:
        """The pipelines run now."""
        self._instance = instance
        if self._lineage:
            self._lineage.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._lineage:
            self._lineage.stop()
        if self._reporter:
            self._reporter.stop()
