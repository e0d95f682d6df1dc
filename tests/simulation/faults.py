"""What goes wrong in a schedule: faults at a time, faults at a moment that the world knows, and bad luck at a rate.

A `Fault` is plain data, so that a failing schedule can be shrunk by leaving faults out. Every fault ends by itself;
after the last one the world is well, and the judge asks that everything is finished.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from tests.simulation.group import Answer
    from tests.simulation.scheduler import Process
    from tests.simulation.world import World

FaultKind = Literal[
    "crash",
    "freeze",
    "cut",
    "restart",
    "reload",
    "pause",
    "stop",
    "reset",
    "add partition",
    "recreate topic",
    "delete records",
    "compact",
    "transaction",
    "broker away",
    "store away",
    "target away",
    "clock jump",
    "kill worker",
]

EVERY_KIND: tuple[FaultKind, ...] = FaultKind.__args__  # type: ignore[attr-defined]  # the values of a Literal


@dataclass(frozen=True, slots=True)
class Fault:
    kind: FaultKind
    at: float = 0.0
    """Seconds after the start; with `hook`, from when on the moment counts."""
    hook: str | None = None
    """A moment: `after settle`, `before commit`, `after commit`, `window begun`, `revoke`."""
    seconds: float = 0.0
    """How long it lasts."""
    pick: float = 0.0
    """Which instance, pipeline or partition: a share of their number."""
    also: float = 0.0
    """A second choice: how a fault is varied."""

    def __str__(self) -> str:
        when = f"at {self.at:.2f}" + (f" on {self.hook}" if self.hook else "")
        return f"{self.kind} {when} for {self.seconds:.1f} s (pick {self.pick:.2f}, also {self.also:.2f})"


@dataclass(frozen=True, slots=True)
class Rates:
    """Bad luck: probabilities at each occasion."""

    worker_dies: float = 0.0
    """Per act."""
    commit_refused: float = 0.0
    commit_unknown: float = 0.0
    transaction_unknown: float = 0.0
    returns_twice: float = 0.0
    skips_event: float = 0.0
    """A worker's mistake: it passes an event and does not account for it."""


@dataclass(slots=True)
class Faults:
    """Carries the faults of one schedule out."""

    world: World
    planned: tuple[Fault, ...]
    rates: Rates
    over: bool = False
    """True: from now on the world is well."""
    _armed: list[Fault] = field(default_factory=list)
    pending: int = 0
    """Faults that have begun and not ended."""

    def start(self) -> None:
        for fault in self.planned:
            self.pending += 1
            self.world.spawn(f"fault {fault.kind}", lambda fault=fault: self._later(fault))

    def _later(self, fault: Fault) -> None:
        self.world.scheduler.block(fault.at)
        if fault.hook is not None:
            self._armed.append(fault)
            self.world.scheduler.block(25.0)
            if fault in self._armed:
                self._armed.remove(fault)
            self.pending -= 1
            return
        self.carry_out(fault)
        self.pending -= 1

    def hook(self, moment: str, process: Process) -> None:
        """Something that a fault may have waited for happens in a process, in the thread that calls this."""
        for fault in list(self._armed):
            if fault.hook == moment and self.world.rng.random() < 0.5:
                self._armed.remove(fault)
                self.world.instances_by_process(process, fault)
                return

    def carry_out(self, fault: Fault) -> None:
        self.world.note(f"fault: {fault}")
        getattr(self.world, "fault_" + fault.kind.replace(" ", "_"))(fault)

    # -- bad luck --------------------------------------------------------------------------

    def _happens(self, rate: float) -> bool:
        return rate > 0.0 and not self.over and self.world.rng.random() < rate

    def worker_dies(self) -> bool:
        return self._happens(self.rates.worker_dies)

    def returns_twice(self) -> bool:
        return self._happens(self.rates.returns_twice)

    def skips_event(self) -> bool:
        return self._happens(self.rates.skips_event)

    def commit_answer(self, process: Process) -> Answer:
        if self._happens(self.rates.commit_refused):
            return "refused"
        if self._happens(self.rates.commit_unknown):
            answers: tuple[Answer, ...] = ("lost answer", "lost request", "late")
            return answers[int(self.world.rng.random() * 3)]
        return "taken"

    def transaction_answer(self) -> Answer:
        if self._happens(self.rates.transaction_unknown):
            return "lost answer" if self.world.rng.random() < 0.5 else "lost request"
        return "taken"


HOOKS = ("after settle", "before commit", "after commit", "window begun", "revoke")
_WEIGHTS: dict[FaultKind, int] = {
    "crash": 4,
    "freeze": 4,
    "cut": 2,
    "restart": 3,
    "reload": 3,
    "kill worker": 3,
    "broker away": 2,
    "store away": 3,
    "target away": 2,
}


def draw_faults(rng: random.Random, count: int, until: float) -> tuple[Fault, ...]:
    """Faults of one schedule."""
    weights = [_WEIGHTS.get(kind, 1) for kind in EVERY_KIND]
    drawn = []
    for kind in rng.choices(EVERY_KIND, weights, k=count):
        hook = rng.choice(HOOKS) if kind in ("crash", "freeze") and rng.random() < 0.5 else None
        seconds = rng.choice((0.5, 2.0, 5.0, 12.0, 16.0)) * (0.8 + rng.random() * 0.4)
        at = rng.random() * until * (0.6 if hook else 1.0)
        drawn.append(Fault(kind, at, hook, seconds, rng.random(), rng.random()))
    return tuple(drawn)
