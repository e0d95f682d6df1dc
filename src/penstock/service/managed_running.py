"""Runs the pipelines that are kept in the store: each instance compares them with what it runs, every few seconds."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from typing import Final, Protocol

import structlog

from penstock.config.loading import Loaded
from penstock.config.settings import Settings
from penstock.config.spec import PipelineSpec
from penstock.core.errors import PenstockError
from penstock.pipeline.policy import with_networks
from penstock.service.outbound import caller_guard
from penstock.service.refusals import Limits
from penstock.service.submitted import Submitted, check_submitted
from penstock.service.trigger_specs import PREFIX
from penstock.store import ManagedRow, Store

log = structlog.get_logger("penstock.managed")

EVERY: Final = 2.0
"""Seconds between two looks; a look at a few hundred rows costs a millisecond."""


_REFERS: Final = "$ref"
_Version = tuple[int, frozenset[tuple[str, str]]]
"""A document's revision, and the secrets that it may refer to: another value is another version."""


class Taker(Protocol):
    """What takes pipelines in and lets them go."""

    def take(self, spec: PipelineSpec, loaded: Loaded) -> None: ...
    def drop(self, name: str) -> None: ...
    def refuse(self, name: str, why: str | None) -> None: ...


class ManagedRunning(threading.Thread):
    """`others` are the specs that run: names and groups of those from files are not taken away from them. `named` are
    the secrets that documents refer to, in plain text."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        taker: Taker,
        others: Callable[[], list[PipelineSpec]],
        named: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        super().__init__(name="managed", daemon=True)
        self._named = named
        self._store, self._settings, self._taker, self._others = store, settings, taker, others
        self._seen: dict[str, _Version] = {}
        """By name: of what was taken in or refused."""
        self._running: dict[str, PipelineSpec] = {}
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.is_set():
            try:
                self.look()
            except PenstockError as error:
                log.warning("pipelines in the store could not be looked at; what runs goes on", reason=str(error))
            except Exception:
                log.exception("pipelines in the store could not be looked at; what runs goes on")
            self._over.wait(EVERY)

    def stop(self, timeout: float) -> None:
        """No pipeline is begun or ended afterwards, unless that takes longer than the timeout."""
        self._over.set()
        if self.is_alive():
            self.join(timeout)

    def look(self) -> None:
        """Compare once."""
        rows = {row.name: row for row in self._store.managed.all()}
        for name in [name for name in self._seen if name not in rows]:
            self._end(name)
        refer = any(_REFERS in row.text for row in rows.values())
        named = self._named() if refer else {}
        for row in rows.values():
            version = (row.revision, _used(row, named))
            if self._seen.get(row.name) != version and not self._over.is_set():
                self._take(row)
                self._seen[row.name] = version

    def _end(self, name: str) -> None:
        del self._seen[name]
        self._taker.refuse(name, None)
        if self._running.pop(name, None) is not None:
            self._taker.drop(name)
            log.info("pipeline is gone from the store and was stopped", pipeline=name)

    def _take(self, row: ManagedRow) -> None:
        found = self._checked(row)
        why = "; ".join(map(str, found.problems)) or self._taken(found.spec)
        if found.spec is None or why:
            log.error("a pipeline in the store cannot be used", pipeline=row.name, reason=why)
            self._taker.refuse(row.name, why)
            return
        self._taker.refuse(row.name, None)
        spec = with_networks(found.spec, self._settings.api.networks)
        # Its document is the text, not a file: problems found on the way name the place within it.
        loaded = Loaded(specs=[spec], documents=found.documents)
        self._taker.take(spec, loaded)
        self._running[row.name] = spec
        log.info("pipeline was taken from the store", pipeline=row.name, revision=row.revision)

    def _checked(self, row: ManagedRow) -> Submitted:
        """What was allowed when it was kept may not be allowed on this machine."""
        allowed = frozenset(self._settings.api.allow)
        outbound = caller_guard(self._settings.api.networks, self._others())
        limits = Limits(allowed, outbound, os.environ, self._named)
        return check_submitted(row.text, limits)

    def _taken(self, spec: PipelineSpec | None) -> str | None:
        if spec is None:
            return None
        if spec.name.startswith(PREFIX):
            return f"names that begin with {PREFIX!r} are for what triggers run"
        others = [other for other in self._others() if other.name not in self._running]
        for other in [*others, *(own for own in self._running.values() if own.name != spec.name)]:
            if other.name == spec.name:
                return f"the name {spec.name!r} is taken by a file"
            if other.group == spec.group and not (other.source.config.stateless or spec.source.config.stateless):
                return f"the group {spec.group!r} is taken by pipeline {other.name!r}"
        return None


def _used(row: ManagedRow, named: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    """Secrets whose names are in the text, and may be referred to."""
    return frozenset(each for each in named.items() if _REFERS in row.text and each[0] in row.text)
