"""What an instance does for triggers: applies workflow files, runs what is enabled, tells of failures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from penstock.config.loading import Loaded
from penstock.config.settings import Settings
from penstock.config.spec import PipelineSpec
from penstock.config.trigger_environment import TriggerDefaults
from penstock.core.errors import ConfigError
from penstock.service.secrets import SecretBox
from penstock.service.trigger_loop import Runner, TriggerLoop
from penstock.service.trigger_specs import compile_trigger
from penstock.service.workflows import apply_workflow
from penstock.store import Store
from penstock.store.work.model import TriggerRow
from penstock.workflows.recovery import check_folder

if TYPE_CHECKING:
    from penstock.service.notices import Notices

log = structlog.get_logger("penstock.triggers")


def apply_files(store: Store, box: SecretBox, loaded: Loaded) -> None:
    """Bring the workflows of files into the store."""
    for spec in loaded.workflows:
        applied = apply_workflow(store, box, spec)
        for warning in applied.warnings:
            log.warning(warning, workflow=spec.full_name)
        if applied.changed:
            log.info("workflow was applied", workflow=spec.full_name, file=spec.origin)


class Triggers:
    """The triggers of one instance."""

    def __init__(
        self, store: Store, box: SecretBox, settings: Settings, defaults: TriggerDefaults, runner: Runner
    ) -> None:
        if defaults.alternate_storage is not None:
            check_folder(defaults.alternate_storage)
        self._store, self._box, self._settings, self._defaults = store, box, settings, defaults
        self._notices: Notices | None = None
        self._loop = TriggerLoop(store, self._compiled, runner)

    def begin(self) -> None:
        """Take in what is enabled now."""
        if not self._defaults.enabled:
            log.info("triggers are switched off by KAFKA_TRIGGERS_ENABLED")
            return
        self._loop.look()
        self._loop.settle()

    def follow(self) -> None:
        """From now on do what the store says."""
        # It brings HTTP clients along, which nothing waits for at the start.
        from penstock.service.notices import Notices  # noqa: PLC0415

        embargo, kept = self._defaults.embargo_seconds, self._defaults.alternate_storage is not None
        self._notices = Notices(self._store, self._settings, embargo_seconds=embargo, kept=kept)
        self._notices.start()
        if self._defaults.enabled:
            self._loop.start()

    def stop(self, timeout: float) -> None:
        """Nothing is begun afterwards; what runs is the instance's to end."""
        self._loop.stop(timeout)
        if self._notices is not None:
            self._notices.close()

    def _compiled(self, trigger: TriggerRow) -> PipelineSpec:
        workflow = self._store.workflows.by_id(trigger.workflow_id)
        project = self._store.projects.get(workflow.project_id) if workflow else None
        if workflow is None or project is None:
            raise ConfigError("its workflow is gone", received=trigger.workflow_id)
        return compile_trigger(
            trigger,
            workflow,
            project,
            box=self._box,
            store_url=self._settings.store_url,
            defaults=self._defaults,
        )
