"""A run in a process of its own: it may use so much memory and no more, and it is killed when its time is over."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
import threading
from dataclasses import asdict, dataclass
from typing import IO, Any, Final

import orjson

from penstock.core.clock import SYSTEM, Clock
from penstock.core.deadline import Deadline
from penstock.core.secrets import Scrubber
from penstock.store.work.results import LogLine, RunEnd, StepResult, StepRow
from penstock.workflows.executing import SharedExecution
from penstock.workflows.graph import Graph
from penstock.workflows.logs import RUNTIME, RunLog
from penstock.workflows.states import final_of
from penstock.workflows.steps.step import MakeAction
from penstock.workflows.task import Reason, Recorder, RunTask

_MEGABYTE: Final = 1024 * 1024
_TAIL: Final = 2_000
"""Bytes of what a process that died said last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IsolatedRun:
    """What the process is told, on its standard input."""

    task: RunTask
    definition: dict[str, Any]
    """With its secrets in their place."""
    secrets: list[str]
    memory_mb: int | None

    def encoded(self) -> bytes:
        return orjson.dumps(asdict(self))

    @classmethod
    def decoded(cls, text: bytes) -> IsolatedRun:
        plain = orjson.loads(text)
        return cls(**(plain | {"task": RunTask(**plain["task"])}))


class IsolatedExecution:
    """The side of the worker: starts the process and passes on what it reports."""

    def __init__(self, run: IsolatedRun, module: str, recorder: Recorder, clock: Clock = SYSTEM) -> None:
        """`module` is run as the process's main module; it calls `serve`."""
        self._run, self._module, self._recorder = run, module, recorder
        self._now = clock.now_us
        self.deadline = Deadline.after(run.task.timeout, clock)
        self._lock = threading.Lock()
        self._over = False
        self._process: subprocess.Popen[bytes] | None = None
        self._started = self._now()
        self._current: StepRow | None = None
        self._log = RunLog(run.task.id, Scrubber(run.secrets), self._line, clock=clock)

    def run(self) -> RunEnd | None:
        self._started = self._now()
        with self._lock:
            if self._over:
                return None
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                [sys.executable, "-m", self._module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                # On a cluster our own code is not installed, but sent there.
                env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                start_new_session=True,
            )
        said: list[bytes] = []
        listening = threading.Thread(target=_drain, args=(self._process.stderr, said), daemon=True)
        listening.start()
        try:
            end = self._talk(self._process)
        finally:
            self._kill()
            code = self._process.wait()
            listening.join(1.0)
        if end is not None:
            return self._end(end)
        return self._died(code, b"".join(said)[-_TAIL:].decode(errors="replace").strip())

    def give_up(self, reason: Reason, error_type: str, why: str) -> RunEnd | None:
        self._kill()
        self._log.write(self._current.id if self._current else None, RUNTIME, "error", why)
        return self._ended(reason, error_type)

    def cancel(self) -> None:
        with self._lock:
            self._over = True
        self._kill()

    def _talk(self, process: subprocess.Popen[bytes]) -> RunEnd | None:
        assert process.stdin is not None  # noqa: S101 - they were asked for
        assert process.stdout is not None  # noqa: S101 - as above
        with contextlib.suppress(BrokenPipeError), process.stdin as out:
            out.write(self._run.encoded())
        for line in process.stdout:
            kind, row = orjson.loads(line)
            if kind == "end":
                return RunEnd(**row)
            self._take(kind, row)
        return None

    def _take(self, kind: str, row: dict[str, Any]) -> None:
        with self._lock:
            if self._over:
                return
            if kind == "step":
                step = StepRow(**row)
                self._current = step if step.finished_at is None else None
                self._recorder.step(step)
            elif kind == "result":
                self._recorder.result(StepResult(**row))
            else:
                self._recorder.line(LogLine(**row))

    def _died(self, code: int, said: str) -> RunEnd | None:
        """It ended without a word: by a signal, for want of memory, or by its own hand."""
        named = signal.Signals(-code).name if code < 0 and -code in set(signal.Signals) else f"exit code {code}"
        memory = "MemoryError" in said or (self._run.memory_mb is not None and code == -signal.SIGKILL)
        text = f"the process of the run ended with {named}" + (f": {said}" if said else "")
        self._log.write(self._current.id if self._current else None, RUNTIME, "error", text)
        return self._ended("kill", "OOMError") if memory else self._ended("crash", "ProcessDied")

    def _ended(self, reason: Reason, error_type: str) -> RunEnd | None:
        at = self._now()
        with self._lock:
            if self._over:
                return None
            if self._current is not None:
                row = asdict(self._current) | {"exit_reason": reason, "error_type": error_type, "finished_at": at}
                self._recorder.step(StepRow(**row))
        return self._end(
            RunEnd(
                id=self._run.task.id,
                state=final_of(reason),
                error_type=error_type,
                final_dataclip_id=None,
                started_at=self._started,
                finished_at=at,
            )
        )

    def _end(self, end: RunEnd) -> RunEnd | None:
        with self._lock:
            if self._over:
                return None
            self._over = True
        return end

    def _line(self, line: LogLine) -> None:
        with self._lock:
            if not self._over:
                self._recorder.line(line)

    def _kill(self) -> None:
        process = self._process
        if process is not None:
            # With all that it started.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def serve(make_action: MakeAction) -> None:
    """The side of the process: execute the run on standard input, report on standard output."""
    # What steps and libraries print must not get in between.
    out = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    run = IsolatedRun.decoded(sys.stdin.buffer.read())
    if run.memory_mb is not None:
        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        wanted = run.memory_mb * _MEGABYTE
        limit = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    teller = _Teller(out)
    execution = SharedExecution(run.task, lambda: Graph(run.definition, make_action), Scrubber(run.secrets), teller)
    end = execution.run()
    if end is not None:
        teller.tell("end", end)
    # Threads that a step left behind end with it.
    os._exit(0)


class _Teller:
    """Writes each report as a line."""

    def __init__(self, out: IO[bytes]) -> None:
        self._out = out
        self._lock = threading.Lock()

    def step(self, row: StepRow) -> None:
        self.tell("step", row)

    def result(self, clip: StepResult) -> None:
        self.tell("result", clip)

    def line(self, line: LogLine) -> None:
        self.tell("line", line)

    def tell(self, kind: str, row: Any) -> None:
        text = orjson.dumps([kind, asdict(row)]) + b"\n"
        with self._lock:
            while text:
                text = text[self._out.write(text) :]


def _drain(stream: IO[bytes] | None, said: list[bytes]) -> None:
    """Keep the last words; nobody else reads them."""
    while stream is not None and (chunk := stream.read1(65_536)):  # type: ignore[attr-defined]  # buffered, it has it
        said.append(chunk)
        del said[:-8]
