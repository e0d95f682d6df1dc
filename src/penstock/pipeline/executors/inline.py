"""The template of executors that act in the unit's own thread."""

from __future__ import annotations

import threading
from abc import abstractmethod

from penstock.config.spec import PipelineSpec
from penstock.core.clock import SYSTEM, Clock
from penstock.core.deadline import Deadline
from penstock.kafka.partition_reader import Runs
from penstock.pipeline.chain import Chain
from penstock.pipeline.executors.executor import ActionExecutor, coordinates, partition_of
from penstock.pipeline.in_flight_log import InFlightSlots
from penstock.pipeline.items import Item
from penstock.pipeline.messages import Partition
from penstock.pipeline.retry import RetryQueue
from penstock.pipeline.unit_result import UnitResult


class InlineExecutor(ActionExecutor):
    """Sorts out what has to wait for a retry; a subclass works on the rest.

    Another thread may look at `_flight` and give the unit up: from then on nothing that the unit's thread still finds
    out counts. `_ending` decides which of the two was first.
    """

    def __init__(self, chain: Chain, spec: PipelineSpec, clock: Clock = SYSTEM) -> None:
        super().__init__(chain, spec, clock)
        self._queue = RetryQueue(self.ordering_key)
        self._rest: list[Item] = []
        """Items that this unit will not begin."""
        self._ahead: list[Item] = []
        """What is being worked through; what is in flight is in it."""
        self._flight: Item | None = None
        self._began = 0.0
        self._ending = threading.Lock()
        self._abandoned = False

    def begin(self, result: UnitResult, deadline: Deadline, slots: InFlightSlots | None = None) -> None:
        super().begin(result, deadline, slots)
        self._abandoned = False

    def feed(self, items: list[Item], runs: Runs | None = None) -> None:
        if self._queue or self.retries:
            self._go(self._ready(items))
        else:
            self._go(items, runs)

    def _ready(self, items: list[Item]) -> list[Item]:
        """Those that have nothing to wait for; the others are queued."""
        ready = []
        for item in items:
            if self._queue.add_behind(item):
                continue
            state = self.retries.get(coordinates(item)) if self.retries else None
            if state is not None:
                # Also where it is due: its failed step has to be repeated, which `wake` does.
                self._queue.add(item, state.due)
            else:
                ready.append(item)
        return ready

    @abstractmethod
    def _go(self, items: list[Item], runs: Runs | None = None) -> None:
        """Work on these items, which have nothing to wait for; what may not begin goes to `_rest`."""

    def wake(self) -> None:
        while not (self.deadline.expired or self.result.full or self.stopping):
            line = self._queue.pop_due(self.clock.monotonic())
            if not line:
                return
            self._ahead = line
            again = self._retried(line[0])
            if again is None:
                return
            # An event behind the first may have failed, too, and be due later than the first.
            self._go(again + self._ready(line[1:]))

    def _retried(self, item: Item) -> list[Item] | None:
        """The first event of a line for its next attempt, unless it is dropped; None: the unit was given up."""
        self._began, self._flight = self.clock.monotonic(), item
        cells, at = self.slots.act_cell(partition_of(item))
        cells[at] = item.record.offset()
        found = self.retry_steps(item)
        cells[at] = -1
        if not self._returns():
            return None
        if found is None:
            self.dropped(item)
        return [] if found is None else [found]

    def _returns(self) -> bool:
        """User code has returned to the unit's thread; False: it was given up meanwhile."""
        with self._ending:
            self._flight = None
            return not self._abandoned

    @property
    def next_due(self) -> float | None:
        return self._queue.next_due

    @property
    def waiting(self) -> dict[Partition, list[int]]:
        return self._queue.offsets if self._queue else {}

    @property
    def unfinished(self) -> bool:
        return bool(self._rest or self._queue)

    def finish(self) -> list[Item]:
        self.note_quick()
        rest = self._rest + self._queue.items()
        self._rest = []
        self._queue.clear()
        return sorted(rest, key=coordinates)

    def overdue(self, now: float) -> bool:
        return self._flight is not None and now - self._began > self.timeout

    def give_up(self) -> tuple[list[Item], list[Item]] | None:
        self.stop()
        with self._ending:
            # The thread sets the flight before it looks whether it has to stop: it is either still at this event, or
            # it will not begin another.
            item = self._flight
            at = next((index for index, each in enumerate(self._ahead) if each is item), None)
            if item is None or at is None or self._flight is not item:
                return None
            self._abandoned = self.tainted = True
            hanging, open_ = self._give_up_at(at)
        return hanging, [*open_, *self._rest, *self._queue.items()]

    def _give_up_at(self, at: int) -> tuple[list[Item], list[Item]]:
        """The events that hang, and those of what is worked through that are not finished; `at` is the first one."""
        return [self._ahead[at]], self._ahead[at:]
