"""Versions of workflows as runs need them: read from the store, with their secrets in place, and kept."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from penstock.config.secret_values import REFERENCE, Resolved, place_of_named, resolve
from penstock.core.cipher import Cipher
from penstock.core.clock import SYSTEM, Clock
from penstock.core.errors import ConfigError
from penstock.core.secrets import Scrubber
from penstock.store.database import Database
from penstock.store.work.claims import Claim
from penstock.store.work.secrets import Secrets
from penstock.store.workflow_tables import snapshots, triggers
from penstock.workflows.executing import SharedExecution
from penstock.workflows.graph import Graph
from penstock.workflows.isolated import IsolatedExecution, IsolatedRun
from penstock.workflows.steps.step import MakeAction
from penstock.workflows.task import Execution, Recorder, RunTask

_KEPT: Final = 200
_FRESH: Final = 60.0
"""Seconds after which a version that refers to named secrets is read again: they may have changed."""
_TIMEOUT_MS: Final = 300_000
SUBMITTED: Final = "submitted"
"""Key of a definition: names of the steps that came through the API."""
REFUSED: Final = "refused"
"""Key of a step: why it must not be run."""

Prepare = Callable[[dict[str, Any]], dict[str, Any]]
"""Makes of a step that came through the API, with its secrets in place, what this instance runs."""


@dataclass(slots=True)
class _Version:
    definition: dict[str, Any]
    """With its secrets in their place."""
    secrets: frozenset[str]
    scrubber: Scrubber
    graph: Graph
    triggers: dict[str, str]
    stale_at: float


class Definitions:
    """Threads may share it."""

    def __init__(
        self,
        database: Database,
        make_action: MakeAction,
        isolated: str,
        clock: Clock = SYSTEM,
        prepare: Prepare = dict,
    ) -> None:
        """`isolated`: main module of the process of a run that has one of its own."""
        self.key: str | None = None
        """Of the store's secrets; it may be made while this lives."""
        self._database, self._clock = database, clock
        self._make_action, self._isolated, self._prepare = make_action, isolated, prepare
        self._versions: OrderedDict[str, _Version] = OrderedDict()
        self._lock = threading.Lock()

    def execution(self, claim: Claim, recorder: Recorder) -> Execution:
        """What executes the run, in a thread of this process or in a process of its own."""
        version = self._version(claim)
        options = {**version.definition.get("options", {}), **claim.options}
        task = RunTask(
            id=claim.id,
            project_id=claim.project_id,
            snapshot_id=claim.snapshot_id,
            starting_step=claim.starting_step,
            trigger=version.triggers.get(claim.starting_trigger_id or ""),
            dataclip_id=claim.dataclip_id,
            input_type=claim.input_type,
            body=claim.body,
            request=claim.request,
            timeout=options.get("run_timeout_ms", _TIMEOUT_MS) / 1_000,
            save_dataclips=options.get("save_dataclips", True),
            logs=options.get("enable_job_logs", True),
        )
        if version.definition.get("isolation") != "process":
            return SharedExecution(task, lambda: version.graph, version.scrubber, recorder, self._clock)
        alone = IsolatedRun(
            task=task,
            definition=version.definition,
            secrets=sorted(version.secrets),
            memory_mb=options.get("run_memory_limit_mb"),
        )
        return IsolatedExecution(alone, self._isolated, recorder, self._clock)

    def _version(self, claim: Claim) -> _Version:
        with self._lock:
            version = self._versions.get(claim.snapshot_id)
            if version is None or self._clock.monotonic() > version.stale_at:
                version = self._versions[claim.snapshot_id] = self._read(claim)
                while len(self._versions) > _KEPT:
                    self._versions.popitem(last=False)
            self._versions.move_to_end(claim.snapshot_id)
            return version

    def _read(self, claim: Claim) -> _Version:
        with self._database.read() as connection:
            found = connection.scalar(sa.select(snapshots.c.definition).where(snapshots.c.id == claim.snapshot_id))
            names = sa.select(triggers.c.id, triggers.c.name).where(triggers.c.workflow_id == claim.workflow_id)
            named = {row.id: row.name for row in connection.execute(names)}
        if found is None:
            raise ConfigError("the version of the workflow is gone", received=claim.snapshot_id)
        refers = REFERENCE in str(found)
        resolved = self._resolved(found, refers=refers)
        return _Version(
            resolved.value,
            resolved.secrets,
            Scrubber(resolved.secrets),
            Graph(resolved.value, self._make_action),
            named,
            self._clock.monotonic() + _FRESH if refers else float("inf"),
        )

    def _resolved(self, definition: dict[str, Any], *, refers: bool) -> Resolved:
        folder = definition.get("folder")
        named: dict[str, str] = {}
        cipher = Cipher.of(self.key, "the key of the instance") if self.key else None
        if refers and cipher is not None:
            kept = Secrets(self._database).all()
            named = {name: cipher.decrypt(value, place_of_named(name)).decode() for name, value in kept.items() if name}
        # Names and conditions are what they are; only configurations refer to anything.
        configs = [step["config"] for step in definition["steps"]]
        resolved = resolve(configs, cipher, named, os.environ, Path(folder) if folder else None)
        steps = [{**step, "config": config} for step, config in zip(definition["steps"], resolved.value, strict=True)]
        submitted = definition.get(SUBMITTED, ())
        steps = [self._prepare(step) if step["name"] in submitted else step for step in steps]
        return Resolved({**definition, "steps": steps}, resolved.secrets)
