"""A lane's process between and during windows: the pipelines it holds and the units it left acting."""

from __future__ import annotations

import contextlib
import gc
import os
import threading
import time

from penstock.core.deadline import Deadline
from penstock.worker.journal import Journal, Pages
from penstock.worker.pipeline import Pipeline
from penstock.worker.protocol import UnitOutcome, UnitRequest, WindowOutcome, WindowRequest
from penstock.worker.unit import UnitRun, UnknownBlueprint

_GRACE = 0.03
"""Seconds in which no unit ends, after the deadline: what is still there is acting, and is left behind."""
_EVICT_AFTER = 120.0
"""A pipeline that has not been here for so long gives its consumer and connections back."""


class Lane:
    """The one object of this kind in a worker process."""

    def __init__(self) -> None:
        self._pipelines: dict[tuple[str, int], Pipeline | Exception] = {}
        self._detached: list[UnitRun] = []
        self._journal: Journal | None = None
        self._pages: dict[int, Pages] = {}
        # Batches are short-lived: scanning young objects each 700 allocations costs a tenth of the drain and frees
        # nothing.
        gc.set_threshold(50_000, 20, 50)
        # Spark collects garbage after every task; without this it would look at every module's objects each time, for
        # some 25 ms.
        gc.collect()
        gc.freeze()

    def run(self, request: WindowRequest) -> WindowOutcome:
        """Run the units of one window side by side; always back by the deadline where units may be left behind."""
        began = time.monotonic()
        deadline = Deadline.after(request.seconds)
        closed = [self._close(unit) for unit in request.units if unit.closing]
        self._turn_pages(request)
        runs = [
            UnitRun(u, self._pipeline(u), deadline.sooner(u.seconds), self._pages.get(u.unit))
            for u in request.units
            if not u.closing
        ]
        for run in runs:
            run.start()
        self._wait(runs, deadline, detach=request.detach)
        outcomes = closed + self._collect(runs)
        self._evict()
        return WindowOutcome(
            request.lane, os.getpid(), outcomes, [r.request.unit for r in self._detached], time.monotonic() - began
        )

    def _turn_pages(self, request: WindowRequest) -> None:
        """Pages of this window's units; those of the last window's are no longer needed, its outcome has arrived."""
        if request.journal is None:
            return
        if self._journal is None:
            self._journal = Journal(request.journal)
        running = {run.request.unit for run in self._detached}
        for unit in [unit for unit in self._pages if unit not in running]:
            self._journal.close(self._pages.pop(unit))
        for work in request.units:
            if not work.closing:
                self._pages[work.unit] = self._journal.open(work.unit, work.assignments)

    def _pipeline(self, unit: UnitRequest) -> Pipeline | Exception:
        key = (unit.pipeline, unit.generation)
        for old in [k for k in self._pipelines if k[0] == unit.pipeline and k != key]:
            self._drop(old)
        held = self._pipelines.get(key)
        if held is None and not unit.blueprint:
            return UnknownBlueprint(f"generation {unit.generation} of {unit.pipeline}")
        if held is None or (isinstance(held, Exception) and unit.blueprint):
            try:
                held = Pipeline(unit.blueprint)
            except Exception as error:  # noqa: BLE001 - a plug-in that cannot be created is the pipeline's trouble, not the window's
                held = error
            except SystemExit as error:
                held = RuntimeError(f"create called sys.exit({error.code})")
            self._pipelines[key] = held
        return held

    def _wait(self, runs: list[UnitRun], deadline: Deadline, *, detach: bool) -> None:
        """Until every unit is done; a unit that is still acting shortly after its deadline is left behind."""
        if runs:
            for run in runs:
                run.join(deadline.remaining if detach else None)
            # Many units end at the same moment and share the interpreter: as long as they keep ending, wait.
            while detach and (alive := [run for run in runs if run.is_alive()]):
                alive[-1].join(_GRACE)
                if sum(run.is_alive() for run in alive) == len(alive):
                    return
            return
        # A window without units comes to collect: it waits for the first detached unit that ends.
        while self._detached and all(r.is_alive() for r in self._detached) and not deadline.expired:
            self._detached[0].join(min(0.02, deadline.remaining))

    def _collect(self, runs: list[UnitRun]) -> list[UnitOutcome]:
        ended = [r.outcome for r in [*self._detached, *runs] if not r.is_alive()]
        left = [
            UnitOutcome(r.request.unit, r.request.pipeline, r.request.generation, "detached")
            for r in runs
            if r.is_alive()
        ]
        self._detached = [r for r in [*self._detached, *runs] if r.is_alive()]
        return ended + left

    def _close(self, unit: UnitRequest) -> UnitOutcome:
        for key in [k for k in self._pipelines if k[0] == unit.pipeline]:
            self._drop(key)
        return UnitOutcome(unit.unit, unit.pipeline, unit.generation, "closed")

    def _drop(self, key: tuple[str, int]) -> None:
        held = self._pipelines.pop(key)
        if isinstance(held, Pipeline):
            # `close` is user code and consumers take a moment to leave: neither may hold up the window.
            closing = threading.Thread(target=_close_quietly, args=(held,), daemon=True)
            closing.start()
            closing.join(timeout=5.0)

    def _evict(self) -> None:
        limit = time.monotonic() - _EVICT_AFTER
        busy = {(r.request.pipeline, r.request.generation) for r in self._detached}
        for key, held in list(self._pipelines.items()):
            if isinstance(held, Pipeline) and held.used_at < limit and key not in busy and held.evictable:
                self._drop(key)


def _close_quietly(pipeline: Pipeline) -> None:
    with contextlib.suppress(BaseException):
        pipeline.close()
