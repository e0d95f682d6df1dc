"""Time and threads of the simulation.

Every thread of every simulated process is a greenlet of one operating-system thread. The scheduler picks the next
runnable one at random, from the seed. Time moves only when nothing can run: to the earliest wake-up, and sometimes a
little beyond it, so that time-outs that are close to each other race.
"""

from __future__ import annotations

import heapq
import random
import signal
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from greenlet import greenlet

from penstock.core.clock import Clock
from penstock.core.threads import ThreadEntry, Threads

T = TypeVar("T")

STEPS_WITHOUT_TIME = 30_000
"""Steps without any progress of time after which the schedule counts as a busy loop."""


class ProcessKilled(BaseException):
    """Ends every thread of a process that crashed. Not an `Exception`: code of the process must not survive it."""


class BusyLoop(BaseException):
    """Threads run on and on, and time stands still. Not an `Exception`: code of the process must not survive it."""


@contextmanager
def no_endless_step(seconds: float) -> Iterator[None]:
    """`BusyLoop` after so many seconds of processor time: also a loop that reaches no switch point ends."""

    def end(*_: object) -> None:
        raise BusyLoop(f"more than {seconds:g} s of processor time")

    before = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


class Process:
    """One simulated operating-system process: an instance's driver, or a worker."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.frozen = False
        self.wall_offset = 0.0
        """Seconds by which its wall clock is wrong."""
        self.tasks: dict[Task, None] = {}
        self.parked: list[Task] = []
        """Threads that could run if the process were not frozen."""

    def __repr__(self) -> str:
        return self.name


class Task:
    """One simulated thread."""

    __slots__ = ("blocked", "ended", "greenlet", "held", "joiners", "label", "process", "ticket", "woken")

    def __init__(self, process: Process, label: str) -> None:
        self.process = process
        self.label = label
        self.greenlet: greenlet
        self.blocked = False
        self.woken = False
        self.ticket = 0
        """Number of the current wait; a time-out of an earlier one means nothing."""
        self.held: list[SimLock] = []
        self.joiners: list[Task] = []
        self.ended = False


class Scheduler:
    """Runs tasks one at a time."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.now = 1_000.0
        self.steps = 0
        self.current: Task | None = None
        self.complaints: list[str] = []
        """Broken rules of the driver's code: a blocking call under a lock, a thread that ended by an error."""
        self.stopped = False
        self._runnable: list[Task] = []
        self._timers: list[tuple[float, int, Task, int]] = []
        self._sequence = 0
        self._doomed: deque[Task] = deque()
        self._still = 0
        self._hub: greenlet | None = None

    # -- for the world ---------------------------------------------------------------------

    def spawn(self, process: Process, label: str, target: Callable[[], None]) -> Task:
        task = Task(process, label)
        task.greenlet = greenlet(lambda: self._main(task, target), parent=self._hub)
        process.tasks[task] = None
        self._runnable.append(task)
        return task

    def kill(self, process: Process) -> None:
        """End a process at once: none of its threads does anything more."""
        if process.alive:
            process.alive = False
            self._doomed.extend(process.tasks)

    def thaw(self, process: Process) -> None:
        process.frozen = False
        self._runnable += process.parked
        process.parked = []

    def run(self, until: float) -> None:
        """Run until nothing is left to do, the time is reached, or `stopped` is set."""
        self._hub = greenlet.getcurrent()
        rng, runnable = self.rng.random, self._runnable
        for task in runnable:
            task.greenlet.parent = self._hub
        while not self.stopped:
            if self._doomed:
                self._bury()
                continue
            if not runnable:
                if not self._advance(until):
                    return
                continue
            self.steps += 1
            self._still += 1
            if self._still > STEPS_WITHOUT_TIME:
                raise BusyLoop(f"{self._still} steps at {self.now:.3f}: {[t.label for t in runnable[:8]]}")
            index = int(rng() * len(runnable))
            task = runnable[index]
            runnable[index] = runnable[-1]
            runnable.pop()
            process = task.process
            if process.frozen:
                process.parked.append(task)
            elif process.alive:
                self.current = task
                task.greenlet.switch()
                self.current = None

    def close(self, processes: list[Process]) -> None:
        """End everything, so that no greenlet of this schedule is left."""
        for process in processes:
            self.kill(process)
        self._hub = greenlet.getcurrent()
        self._bury()

    # -- for tasks -------------------------------------------------------------------------

    def pause(self) -> None:
        """A switch point: anything else may run first."""
        task = self._me()
        self._runnable.append(task)
        self._switch(task)

    def block(self, timeout: float | None, *, beside: SimLock | None = None) -> bool:
        """Wait until `wake` is called for this task; False when `timeout` seconds pass before."""
        task = self._me()
        if task.held and (len(task.held) > 1 or task.held[0] is not beside):
            self.complain(f"{task.label} blocks while it holds a lock", trace=True)
        task.ticket += 1
        task.blocked, task.woken = True, False
        if timeout is not None:
            self._sequence += 1
            heapq.heappush(self._timers, (self.now + max(0.0, timeout), self._sequence, task, task.ticket))
        self._switch(task)
        return task.woken

    def wake(self, task: Task) -> None:
        if task.blocked:
            task.blocked, task.woken = False, True
            self._runnable.append(task)

    def sleep(self, seconds: float) -> None:
        self.block(seconds)

    def complain(self, text: str, *, trace: bool = False, error: bool = False) -> None:
        """`trace`: with the stack of the caller; `error`: with the traceback of the error being handled."""
        if len(self.complaints) < 5:
            where = "".join(traceback.format_stack(limit=12)[:-2]) if trace else ""
            where = traceback.format_exc(limit=-8) if error else where
            self.complaints.append(f"{text}\n{where}".rstrip())

    # -- inside ----------------------------------------------------------------------------

    def _me(self) -> Task:
        task = self.current
        if task is None:
            raise RuntimeError("only a simulated thread may block")
        if not task.process.alive:
            raise ProcessKilled
        return task

    def _switch(self, task: Task) -> None:
        assert self._hub is not None
        self._hub.switch()
        if not task.process.alive:
            raise ProcessKilled

    def _main(self, task: Task, target: Callable[[], None]) -> None:
        try:
            target()
        except ProcessKilled:
            pass
        except Exception as error:  # noqa: BLE001 - reported as a finding
            self.complaints.append(f"{task.label} ended by {type(error).__name__}: {error}\n{traceback.format_exc()}")
        finally:
            task.ended = True
            task.process.tasks.pop(task, None)
            for joiner in task.joiners:
                self.wake(joiner)

    def _advance(self, until: float) -> bool:
        """Move time to the next wake-up, and wake what is due."""
        timers = self._timers
        while timers and not (timers[0][2].blocked and timers[0][2].ticket == timers[0][3]):
            heapq.heappop(timers)
        if not timers or timers[0][0] > until:
            self.now = max(self.now, until)
            return False
        self._still = 0
        # Sometimes several time-outs that lie close together are due at once, in any order.
        self.now = max(self.now, timers[0][0] + (self.rng.random() * 0.02 if self.rng.random() < 0.3 else 0.0))
        while timers and timers[0][0] <= self.now:
            _, _, task, ticket = heapq.heappop(timers)
            if task.blocked and task.ticket == ticket:
                task.blocked = False
                self._runnable.append(task)
        return True

    def _bury(self) -> None:
        while self._doomed:
            task = self._doomed.popleft()
            if not task.ended:
                task.blocked = False
                self.current = task
                task.greenlet.parent = greenlet.getcurrent()
                if task.greenlet:
                    task.greenlet.throw(ProcessKilled)
                else:  # it has not begun
                    task.ended = True
                    task.process.tasks.pop(task, None)
                self.current = None
        self._runnable[:] = [task for task in self._runnable if task.process.alive]


class SimLock:
    """A reentrant lock. Taking it is a switch point now and then: finer interleavings."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._owner: Task | None = None
        self._count = 0
        self._waiters: deque[Task] = deque()

    def __enter__(self) -> Self:
        scheduler = self._scheduler
        task = scheduler.current
        if task is None or self._owner is task:
            self._count += 1
            return self
        if not task.held and scheduler.rng.random() < 0.05:
            scheduler.pause()
        while self._owner is not None:
            if not self._owner.process.alive:
                break
            self._waiters.append(task)
            held, task.held = task.held, []  # waiting for a lock is allowed under another one; see the lock order
            try:
                scheduler.block(None)
            finally:
                task.held = held
        self._owner, self._count = task, 1
        task.held.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None, /
    ) -> None:
        self._count -= 1
        if self._count == 0:
            self._release()

    def _release(self) -> None:
        if self._owner is not None:
            if self in self._owner.held:
                self._owner.held.remove(self)
            self._owner = None
        while self._waiters:
            self._scheduler.wake(self._waiters.popleft())


class SimCondition(SimLock):
    """A condition with a reentrant lock of its own."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__(scheduler)
        self._sleepers: list[Task] = []

    def wait(self, timeout: float | None = None) -> bool:
        scheduler, count = self._scheduler, self._count
        task = scheduler.current
        assert task is not None
        assert self._owner is task, "a condition is waited on with its lock held"
        self._release()
        self._sleepers.append(task)
        try:
            woken = scheduler.block(timeout)
        finally:
            if task in self._sleepers:
                self._sleepers.remove(task)
        self.__enter__()
        self._count = count
        return woken

    def notify_all(self) -> None:
        sleepers, self._sleepers = self._sleepers, []
        for task in sleepers:
            self._scheduler.wake(task)


class SimEvent:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._set = False
        self._waiters: list[Task] = []

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        self._set = True
        waiters, self._waiters = self._waiters, []
        for task in waiters:
            self._scheduler.wake(task)

    def clear(self) -> None:
        self._set = False

    def wait(self, timeout: float | None = None) -> bool:
        if not self._set and self._scheduler.current is not None:
            task = self._scheduler.current
            self._waiters.append(task)
            self._scheduler.block(timeout)
            if task in self._waiters:
                self._waiters.remove(task)
        return self._set


class SimMailbox(Generic[T]):
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._items: deque[T] = deque()
        self._reader: Task | None = None

    def put(self, item: T) -> None:
        self._items.append(item)
        if self._reader is not None:
            self._scheduler.wake(self._reader)

    def get(self, timeout: float = 0.0) -> T | None:
        if not self._items and timeout > 0:
            self._reader = self._scheduler.current
            self._scheduler.block(timeout)
            self._reader = None
        return self._items.popleft() if self._items else None


class SimThread:
    def __init__(self, scheduler: Scheduler, task: Task, name: str) -> None:
        self._scheduler, self._task, self.name = scheduler, task, name

    def is_alive(self) -> bool:
        return not self._task.ended

    def join(self, timeout: float | None = None) -> None:
        if not self._task.ended and self._scheduler.current is not None:
            self._task.joiners.append(self._scheduler.current)
            self._scheduler.block(timeout)


class SimThreads(Threads):
    """`Threads` of one simulated process."""

    def __init__(self, scheduler: Scheduler, process: Process) -> None:
        self._scheduler, self._process = scheduler, process

    def start(self, name: str, target: Callable[[], None], *, owner: str, ends: str) -> SimThread:
        return SimThread(self._scheduler, self._scheduler.spawn(self._process, f"{self._process}/{name}", target), name)

    def alive(self) -> list[ThreadEntry]:
        return [ThreadEntry(task.label, "", "") for task in self._process.tasks]

    def lock(self) -> SimLock:
        return SimLock(self._scheduler)

    def condition(self) -> SimCondition:
        return SimCondition(self._scheduler)

    def event(self) -> SimEvent:
        return SimEvent(self._scheduler)

    def mailbox(self) -> Any:
        return SimMailbox(self._scheduler)


EPOCH = 1_800_000_000.0
"""Wall clock at simulated time 0."""


def simulated_clock(scheduler: Scheduler, process: Process) -> Clock:
    """Time and randomness of one simulated process."""
    return Clock(
        time=lambda: EPOCH + scheduler.now + process.wall_offset,
        monotonic=lambda: scheduler.now,
        sleep=scheduler.sleep,
        random=scheduler.rng.random,
        environ={},
    )
