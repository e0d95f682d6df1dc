"""The desk that operations work at: the store, the settings, and the instance of this process, if there is one."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from penstock.config.settings import Settings
from penstock.config.spec import PipelineSpec
from penstock.core.clock import SYSTEM
from penstock.core.errors import ConfigError, PenstockError, Unavailable
from penstock.core.net.guard import AddressGuard
from penstock.core.status import PipelineStatus
from penstock.engine.instance import Instance
from penstock.engine.pipelines.stats import PipelineView
from penstock.service.access import Actor, NotFound, Right, allows, require
from penstock.service.audit import Recent, record
from penstock.service.letter_jobs import LetterJobs
from penstock.service.masking import Masking
from penstock.service.outbound import caller_guard
from penstock.service.pipelines import PipelineView as Wanted
from penstock.service.pipelines import list_pipelines
from penstock.service.refusals import Limits
from penstock.service.replay_jobs import ReplayJobs
from penstock.service.secrets import SecretBox
from penstock.service.specs import current_spec
from penstock.service.status import pipeline_statuses
from penstock.service.submitted import check_submitted, require_valid
from penstock.service.trigger_specs import PREFIX, pipeline_name
from penstock.service.triggers import trigger_spec
from penstock.service.workflows import full_names
from penstock.store import ManagedRow, Store

T = TypeVar("T")

FRESH: Final = 1.0
"""Seconds for which what was read is shown again: several pages and streams cost one question."""
_LOOKUPS: Final = 10.0
"""Seconds that look-ups of names for one request take together at most."""
_LETTERS_FRESH: Final = 5.0
"""The same for counts of dead letters: of a million, counting takes a tenth of a second."""
_READ_AGAIN: Final = 300.0
"""Seconds after which a read of the same thing by the same person is written down again."""
_LETTERS_OLD: Final = 2 * _LETTERS_FRESH
"""Older counts are not shown; until then they are, while somebody counts again."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Pipelines as they were a moment ago."""

    statuses: dict[str, PipelineStatus]
    wanted: dict[str, Wanted]
    managed: dict[str, ManagedRow]
    views: dict[str, PipelineView]
    """Of the instance in this process."""
    projects: dict[str, str]
    """Ids of the projects that pipelines belong to: those of triggers, and those that are kept for one."""
    titles: dict[str, str]
    """What people call pipelines whose names were made for them: `project/workflow/trigger`."""

    @property
    def names(self) -> list[str]:
        return sorted({*self.statuses, *self.wanted, *self.managed, *self.views})

    def status(self, name: str) -> PipelineStatus:
        """How a pipeline is; one that has not run yet is at rest."""
        if (known := self.statuses.get(name)) is not None:
            return known
        if (begun := self.views.get(name)) is not None:
            return PipelineStatus(pipeline=name, state=begun.state, reason=begun.reason)
        return PipelineStatus(pipeline=name, state="stopped", reason="no instance runs it")


class Desk:
    """Threads may share it."""

    def __init__(
        self, store: Store, settings: Settings, instance: Callable[[], Instance | None] = lambda: None
    ) -> None:
        self.store = store
        self.settings = settings
        self.instance = instance
        self.masking = Masking(settings.masking.rules)
        self.letter_jobs = LetterJobs(store, self._instance_name)
        self.replays = ReplayJobs(
            store,
            self.letter_jobs,
            spark=lambda: found.spark if (found := self.instance()) else None,
            specs=self._running,
            max_replays=settings.dead_letters.max_replays,
        )
        self._recent = Recent(_READ_AGAIN)
        self._lock = threading.Lock()
        self._snapshot: tuple[float, Snapshot] | None = None
        self._letters: tuple[float, dict[str, int]] | None = None
        self._counting: threading.Thread | None = None

    def close(self) -> None:
        """Ends what it has begun; the store is its owner's."""
        self.letter_jobs.close()

    def note_read(self, actor: Actor, action: str, subject: str, project: str | None = None, **data: object) -> None:
        """Write down that the actor is shown payloads; of what is looked at again and again, every five minutes."""
        if self._recent.is_new(actor.name, action, subject):
            record(self.store, actor, action, subject, project=project, data=data)

    def note_refusal(self, actor: Actor, asked: str, error: PenstockError, **data: str) -> None:
        """Write down that the actor may not do what was asked for. Nothing depends on it."""
        if self._recent.is_new(actor.name, "refused", asked):
            with contextlib.suppress(Unavailable):
                record(self.store, actor, "refused", asked, outcome="failed", data=data | {"error": error.code})

    def snapshot(self) -> Snapshot:
        """Pipelines as they are, or were a second ago."""
        with self._lock:
            if self._snapshot is None or SYSTEM.monotonic() >= self._snapshot[0] + FRESH:
                self._snapshot = (SYSTEM.monotonic(), self._read())
            return self._snapshot[1]

    def forget(self) -> None:
        """Something was changed: look again."""
        with self._lock:
            self._snapshot = self._letters = None

    def spec(self, name: str) -> PipelineSpec:
        """As it runs here, else as it is kept in the store, else as it last ran."""
        if (running := self._running().get(name)) is not None:
            return running
        trigger = self.store.triggers.get(name.removeprefix(PREFIX)) if name.startswith(PREFIX) else None
        if trigger is not None and trigger.deleted_at is None:
            return trigger_spec(self.store, self.settings, trigger)
        if (kept := self.store.managed.get(name)) is not None:
            limits = Limits(frozenset(self.settings.api.allow), self.outbound(), os.environ, self.named_secrets)
            return require_valid(check_submitted(kept.text, limits))
        try:
            return current_spec(name, [], self.store)
        except ConfigError as error:
            # Said for the command line, which takes files.
            error.hint = "ask the API of an instance that runs it"
            raise

    def named_secrets(self) -> dict[str, str]:
        """The store's named secrets in plain text."""
        return SecretBox.of(self.store, self.settings).named()

    def outbound(self) -> AddressGuard:
        """Addresses that callers may name: public and listed ones, and clusters of pipeline files. For one request."""
        return caller_guard(self.settings.api.networks, self._running().values()).within(_LOOKUPS)

    def project_of(self, pipeline: str) -> str | None:
        """The project that a pipeline belongs to; those in files belong to none."""
        return self.snapshot().projects.get(pipeline)

    def pipeline(self, actor: Actor, right: Right, name: str) -> str | None:
        """The pipeline's project, if the pipeline is there and the actor has the right.

        One that the actor may not even see is as if it were not there."""
        if name not in self.snapshot().names and name in self._running():
            self.forget()  # it has begun since
        project = self.project_of(name)
        known = name in self.snapshot().names
        if not known or not allows(actor, "pipelines.view", project):
            raise NotFound("no such pipeline", received=name, hint="GET /api/v1/pipelines lists them")
        require(actor, right, project)
        return project

    def _instance_name(self) -> str:
        """Before the instance of this process has begun, its process is all there is to name."""
        instance = self.instance()
        return instance.id if instance else f"{os.uname().nodename}-{os.getpid()}"

    def _running(self) -> Mapping[str, PipelineSpec]:
        instance = self.instance()
        return {flow.name: flow.spec for flow in list(instance.runners)} if instance else {}

    def _read(self) -> Snapshot:
        instance = self.instance()
        letters = self._open_letters()
        statuses = {status.pipeline: status for status in pipeline_statuses(self.store, letters=letters)}
        managed = {row.name: row for row in self.store.managed.all()}
        owners = {row.id: row.project_id for row in self.store.workflows.list()}
        called = full_names(self.store) if owners else {}
        triggers = [row for row in self.store.triggers.changes() if row.workflow_id in owners]
        return Snapshot(
            statuses=statuses,
            wanted={view.pipeline: view for view in list_pipelines(self.store, known=statuses)},
            managed=managed,
            # A trigger's name is its own, also where somebody has kept a pipeline under it.
            projects=self.store.managed.projects()
            | {pipeline_name(row.id): owners[row.workflow_id] for row in triggers},
            titles={pipeline_name(row.id): f"{called[row.workflow_id]}/{row.name}" for row in triggers},
            views={view.name: view for view in instance.snapshot()} if instance else {},
        )

    def _open_letters(self) -> dict[str, int]:
        """By pipeline. Nobody waits for them who was shown others a moment ago."""
        counted = self._letters
        age = SYSTEM.monotonic() - counted[0] if counted is not None else _LETTERS_OLD
        if counted is None or age >= _LETTERS_OLD:
            counted = self._letters = self._count()
        elif age >= _LETTERS_FRESH and not (self._counting and self._counting.is_alive()):
            self._counting = threading.Thread(target=self._count_again, name="letters", daemon=True)
            self._counting.start()
        return counted[1]

    def _count(self) -> tuple[float, dict[str, int]]:
        return SYSTEM.monotonic(), self.store.dead_letters.counts_by_pipeline()

    def _count_again(self) -> None:
        with contextlib.suppress(Unavailable):  # whoever asks next counts, or learns it
            counted = self._count()
            with self._lock:
                # Something that was changed meanwhile is not in it.
                self._letters = counted if self._letters is not None else None
