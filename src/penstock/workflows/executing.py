"""Executes one run: from step to step along the edges, each given the state that the one before left."""

from __future__ import annotations

import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from penstock.core.clock import SYSTEM, Clock
from penstock.core.deadline import Deadline
from penstock.core.errors import PenstockError, Transient
from penstock.core.event import json_bytes
from penstock.core.ids import new_id
from penstock.core.secrets import Scrubber
from penstock.store.work.results import LogLine, RunEnd, StepResult, StepRow
from penstock.workflows.failing import RunCancelled, StateError, StepFailed, StepKilled
from penstock.workflows.graph import Edge, Graph
from penstock.workflows.logs import RUNTIME, RunLog, StepLog, captured
from penstock.workflows.states import final_of
from penstock.workflows.steps.step import State, StepContext
from penstock.workflows.task import Reason, Recorder, RunTask

_WORST: Final[tuple[Reason, ...]] = ("kill", "cancel", "exception", "crash", "fail", "success")
"""Of several last steps the one that counts for the run."""
_FINAL: Final = ("kill", "cancel")
"""After these nothing follows, whatever the edges say."""
_LARGEST: Final = 10 * 1024 * 1024
"""Bytes of a state that are kept."""
_STEPS: Final = 1_000
"""Steps of one run: edges that part and meet again multiply."""
_OWN: Final = str(Path(__file__).resolve().parent)


@dataclass(slots=True)
class _Left:
    """What a step left."""

    name: str
    reason: Reason
    error_type: str | None
    state: State
    clip: str | None


class SharedExecution:
    """In the calling thread, beside others in the same process."""

    def __init__(
        self,
        task: RunTask,
        graph: Callable[[], Graph],
        scrubber: Scrubber,
        recorder: Recorder,
        clock: Clock = SYSTEM,
    ) -> None:
        self._task, self._graph_of, self._recorder = task, graph, recorder
        self._now = clock.now_us
        self._scrubber = scrubber
        self.deadline = Deadline.after(task.timeout, clock)
        self._cancelled = threading.Event()
        self._lock = threading.Lock()
        self._over = False
        self._current: StepRow | None = None
        self._started = self._now()
        self._log = RunLog(task.id, scrubber, self._line, of_steps=task.logs, clock=clock)

    def run(self) -> RunEnd | None:
        self._started = self._now()
        try:
            ends = list(self._walk(self._graph_of()))
        except Exception as error:  # noqa: BLE001 - whatever it is, the run ends of it
            self._say(None, error)
            ends = [_Left("", _reason(error), type(error).__name__, {}, None)]
        worst = min(ends, key=lambda left: _WORST.index(left.reason), default=None)
        final = ends[-1].clip if ends else None
        return self._end(worst.reason if worst else "success", worst.error_type if worst else None, final)

    def give_up(self, reason: Reason, error_type: str, why: str) -> RunEnd | None:
        self._cancelled.set()
        current = self._current
        self._log.write(current.id if current else None, RUNTIME, "error", why)
        if current is not None:
            self._finish(current, reason, error_type, None)
        return self._end(reason, error_type, None)

    def cancel(self) -> None:
        self._cancelled.set()
        with self._lock:
            self._over = True

    def _end(self, reason: Reason, error_type: str | None, clip: str | None) -> RunEnd | None:
        with self._lock:
            if self._over:
                return None
            self._over = True
        return RunEnd(
            id=self._task.id,
            state=final_of(reason),
            error_type=error_type,
            final_dataclip_id=clip,
            started_at=self._started,
            finished_at=self._now(),
        )

    # -- the walk --------------------------------------------------------------------------

    def _walk(self, graph: Graph) -> Iterator[_Left]:
        """Execute every step that the edges lead to; those that nothing follows."""
        state, clip = self._task.state(), self._task.dataclip_id
        first = [Edge(self._task.starting_step, "always", None)] if self._task.starting_step else None
        begin = _Left("", "success", None, state, clip)
        queue = deque(self._next(begin, graph.first(self._task.trigger) if first is None else first))
        count = 0
        while queue:
            name, state, clip = queue.popleft()
            count += 1
            if count > _STEPS:
                raise StepKilled(f"the run has executed {_STEPS} steps, and there are more")
            left = self._step(graph, name, state, clip)
            if left.reason in _FINAL:
                yield left
                return
            following = list(self._next(left, graph.after(name)))
            if not following:
                yield left
            queue.extend(following)

    def _next(self, left: _Left, edges: Any) -> Iterator[tuple[str, State, str | None]]:
        failed = left.reason != "success"
        followed = [edge for edge in edges if self._follows(edge, left.state, failed=failed)]
        # Each of them may change what it is given.
        body = json_bytes(left.state) if len(followed) > 1 else b""
        for place, edge in enumerate(followed):
            yield edge.target, orjson.loads(body) if place else left.state, left.clip

    def _follows(self, edge: Edge, state: State, *, failed: bool) -> bool:
        try:
            return edge.leads_on(state, failed=failed)
        except PenstockError as error:
            raise EdgeConditionError(f"the edge to {edge.target}: {error.message}", hint=error.hint) from None

    # -- one step --------------------------------------------------------------------------

    def _step(self, graph: Graph, name: str, state: State, clip: str | None) -> _Left:
        task = self._task
        row = StepRow(
            id=new_id(),
            run_id=task.id,
            name=name,
            snapshot_id=task.snapshot_id,
            input_dataclip_id=clip,
            started_at=self._now(),
        )
        self._current = row
        self._note(self._recorder.step, row)
        ctx = StepContext(StepLog(self._log, row.id), self.deadline, self._cancelled)
        reason: Reason = "success"
        error_type = None
        try:
            ctx.check()
            with captured(ctx.log):
                result = graph.step(name).run(state, ctx)
            state = _checked(result, state)
            body = json_bytes(state)
        except BaseException as error:  # noqa: BLE001 - a step may raise anything, the end of the process included
            reason, error_type = _reason(error), _error_type(error)
            self._say(row, error)
            given = error.state if isinstance(error, StepFailed) and error.state is not None else state
            state, body = self._with_error(name, given, error, reason)
        output = self._keep(row, body)
        self._finish(row, reason, error_type, output)
        self._current = None
        return _Left(name, reason, error_type, state, output or clip)

    def _with_error(self, name: str, state: State, error: BaseException, reason: Reason) -> tuple[State, bytes]:
        """The state for the steps after a failure: it tells of it."""
        message = self._scrubber.scrub(str(error))
        known = state.get("errors")
        errors = known if isinstance(known, dict) else {}
        told = {**errors, name: {"type": _error_type(error), "message": message, "severity": reason}}
        after = {**state, "errors": told}
        try:
            return after, json_bytes(after)
        except Exception:  # noqa: BLE001 - the step may have put anything into the state that it failed with
            after = {"errors": told}
            return after, json_bytes(after)

    def _keep(self, row: StepRow, body: bytes) -> str | None:
        """Make the state a dataclip."""
        if not self._task.save_dataclips:
            return None
        if len(body) > _LARGEST:
            self._log.write(
                row.id, RUNTIME, "warn", f"the state is not kept: it has {len(body)} bytes, and {_LARGEST} are allowed"
            )
            return None
        clip = StepResult(
            id=new_id(),
            run_id=row.run_id,
            project_id=self._task.project_id,
            body=body.decode(),
            inserted_at=self._now(),
        )
        self._note(self._recorder.result, clip)
        return clip.id

    def _finish(self, row: StepRow, reason: Reason, error_type: str | None, output: str | None) -> None:
        ended = StepRow(
            id=row.id,
            run_id=row.run_id,
            name=row.name,
            snapshot_id=row.snapshot_id,
            input_dataclip_id=row.input_dataclip_id,
            started_at=row.started_at,
            output_dataclip_id=output,
            exit_reason=reason,
            error_type=error_type,
            finished_at=self._now(),
        )
        self._note(self._recorder.step, ended)

    def _say(self, row: StepRow | None, error: BaseException) -> None:
        """What went wrong, and where in the user's own code."""
        if isinstance(error, PenstockError):
            text = str(error)
        else:
            frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(_OWN)]
            text = "".join([*traceback.format_list(frames), *traceback.format_exception_only(error)])
        self._log.write(row.id if row else None, RUNTIME, "error", text)

    def _line(self, line: LogLine) -> None:
        self._note(self._recorder.line, line)

    def _note(self, take: Callable[[Any], None], row: Any) -> None:
        # What a thread does that was given up belongs to nobody.
        with self._lock:
            if not self._over:
                take(row)


class EdgeConditionError(PenstockError):
    """The expression of an edge cannot be evaluated for the state that a step left."""

    code = "edge-condition"


def _checked(result: Any, state: State) -> State:
    if result is None:
        return state
    if not isinstance(result, dict):
        raise StateError(
            f"the step returned {type(result).__name__}",
            received=type(result).__name__,
            allowed="a dict, or None for the state as it is",
        )
    return result


def _reason(error: BaseException) -> Reason:
    if isinstance(error, StepFailed):
        return "fail"
    if isinstance(error, (StepKilled, MemoryError)):
        return "kill"
    if isinstance(error, RunCancelled):
        return "cancel"
    return "exception" if isinstance(error, Transient) else "crash"


def _error_type(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "OOMError"
    return "TimeoutError" if isinstance(error, StepKilled) else type(error).__name__
