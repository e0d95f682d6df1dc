"""Runs triggers in an instance, for the loop that decides which."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

import structlog

from penstock.config.spec import PipelineSpec
from penstock.core.errors import Unavailable
from penstock.engine.instance import Instance
from penstock.engine.pipelines.runner import PipelineRunner
from penstock.store import StateRow

log = structlog.get_logger("penstock.triggers")

_WHATEVER: Final = 2**62
"""Who is out of the group has done whatever may be wanted of it: nobody waits for it, to reset offsets for instance."""


class InstanceRunner:
    """Pipelines of triggers come and go in one instance. `learn` is told of secrets before they can be logged."""

    def __init__(self, instance: Instance, learn: Callable[[frozenset[str]], None]) -> None:
        self._instance = instance
        self._learn = learn
        self._lock = threading.Lock()
        self._known: tuple[list[PipelineRunner], dict[str, PipelineRunner]] = ([], {})

    def take(self, spec: PipelineSpec) -> None:
        self._learn(spec.secrets)
        self._instance.add(spec)

    def drop(self, name: str) -> None:
        self._instance.remove(name)
        gone = StateRow(
            pipeline=name,
            instance=self._instance.id,
            state="stopped",
            reason="its trigger does not run",
            revision=_WHATEVER,
        )
        try:
            self._instance.store.pipelines.put_states([gone])
        except Unavailable as error:
            log.warning("the store was not told of the stop", pipeline=name, reason=str(error))

    def limit_rate(self, name: str, rate: float | None) -> None:
        if flow := self._flow(name):
            flow.limit_rate(rate)

    def defect(self, name: str) -> str | None:
        flow = self._flow(name)
        if flow is None:
            return "its pipeline is gone"
        # What people or the breaker have stopped stays stopped.
        failed = flow.state == "failed" and flow.desired.state == "running"
        return flow.reason or "it has failed" if failed else None

    def refused(self, name: str, reason: str | None) -> None:
        with self._lock:
            others = [row for row in self._instance.invalid if row.pipeline != name]
            mine = StateRow(pipeline=name, instance=self._instance.id, state="invalid", reason=reason)
            self._instance.invalid[:] = others if reason is None else [*others, mine]

    def _flow(self, name: str) -> PipelineRunner | None:
        # Hundreds of triggers are asked about, twice a second; a change makes the instance's list another one.
        flows, by_name = self._known
        if flows is not self._instance.runners:
            flows = self._instance.runners
            by_name = {flow.name: flow for flow in flows}
            self._known = flows, by_name
        return by_name.get(name)
