"""What the driver and a lane's worker process exchange: a window request goes out, its outcome comes back."""

from __future__ import annotations

import pickle
import zlib
from dataclasses import dataclass, field

from penstock.core.latency import Times
from penstock.pipeline.messages import UnitOutcome, UnitRequest

RESTING_AT_MOST = 16
"""Pipelines without events that a process holds for long; above that it closes those that rested longest."""

REPEATED = "Spark repeated a window"
"""How the refusal to run one a second time begins, by which the driver knows it."""

_PICKLED = b"\x80"
"""What every pickle begins with."""
_LARGE = 32_000
"""Bytes of an outcome above which it is compressed."""


@dataclass(slots=True, frozen=True)
class RunsRequest:
    """The request to a lane that executes runs of workflows; it claims them itself."""

    url: str
    """Address of the store."""
    key: str | None
    """Of the store's secrets."""
    token: str
    """By which a process that has none yet claims from now on; never given to two."""
    claims: bool = True
    """False: begin no more runs, and return when those that run have ended."""
    allowed: tuple[str, ...] = ()
    """Of `api.allow`: what steps that came through the API may name."""
    networks: tuple[str, ...] = ()
    """Of `api.networks`: which addresses besides public ones they may name."""


@dataclass(slots=True, frozen=True)
class RunsOutcome:
    """How a window of runs went."""

    token: str
    """By which this process claims."""
    claimed: int
    ended: dict[str, int]
    """Runs by the state that they ended in."""
    flying: int
    """Runs that are still being executed."""
    more: bool
    """There were more runs than it could take."""
    away: str | None = None
    """Why runs wait: the store cannot be reached, or runs could not be prepared and were given back."""


@dataclass(slots=True)
class WindowRequest:
    """One Spark job's worth of units, or a time in which runs of workflows are executed."""

    lane: str
    seconds: float
    units: list[UnitRequest]
    detach: bool
    """True on local masters, where the same process serves the lane's next window and can collect what is still
    running."""
    in_flight_log: str | None = None
    """File in which the lane's process names what it is working on; None on clusters."""
    retiring: bool = False
    """True: close everything that can be closed; the process will be ended."""
    not_after: float | None = None
    """Monotonic time from which nothing of it may begin: a process that was frozen between plan and work may have lost
    its partitions to another instance. None: no other instance could own them, or it is another machine's clock."""
    runs: RunsRequest | None = None


@dataclass(slots=True)
class WindowOutcome:
    lane: str
    pid: int
    units: list[UnitOutcome]
    running: list[int]
    """Detached units that are still acting."""
    seconds: float
    tainted: bool = False
    """A thread of the process hangs in an action: the process should be replaced."""
    held: int = 0
    """Pipelines that the process holds."""
    registry_calls: dict[str, Times] = field(default_factory=dict)
    """How long calls of schema registries took since the last window, by what came of them."""
    runs: RunsOutcome | None = None


def packed(outcome: WindowOutcome) -> bytes:
    """An outcome for its way to the driver, which takes text of it: failures are much alike, so they shrink well."""
    plain = pickle.dumps(outcome, protocol=pickle.HIGHEST_PROTOCOL)
    return zlib.compress(plain, 1) if len(plain) > _LARGE else plain


def unpacked(answer: bytes) -> WindowOutcome:
    """The outcome that `packed` made."""
    plain = answer if answer.startswith(_PICKLED) else zlib.decompress(answer)
    outcome: WindowOutcome = pickle.loads(plain)  # noqa: S301 - from our own worker
    return outcome
