"""What the driver and a lane's worker process exchange: a window request goes out, its outcome comes back."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from penstock.core.latency import Times
from penstock.pipeline.messages import OutcomeStruct, UnitOutcome, UnitRequest

RESTING_AT_MOST = 16
"""Pipelines without events that a process holds for long; above that it closes those that rested longest."""

REPEATED = "Spark repeated a window"
"""How the refusal to run one a second time begins, by which the driver knows it."""

_PLAIN: Final = b"m"
_COMPRESSED: Final = b"z"
"""The first byte of an answer says how the msgpack behind it is written. A pickle begins with neither."""
_LARGE: Final = 32_000
"""Bytes of an outcome above which it is compressed."""
_AT_MOST: Final = 1 << 30
"""L7: bytes that a compressed outcome may have, as many as Spark hands over (`spark.driver.maxResultSize`)."""


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


class RunsOutcome(OutcomeStruct):
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


class WindowOutcome(OutcomeStruct):
    """How a window went: the one message from a worker that the driver decodes (decision 0011)."""

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
    registry_calls: dict[str, Times] = msgspec.field(default_factory=dict)
    """How long calls of schema registries took since the last window, by what came of them."""
    runs: RunsOutcome | None = None


class UnreadableAnswer(ValueError):
    """The bytes of a worker are no outcome."""


def packed(outcome: WindowOutcome) -> bytes:
    """An outcome for its way to the driver, which takes text of it: failures are much alike, so they shrink well."""
    try:
        plain = _encoder.encode(outcome)
    except UnicodeEncodeError:
        # Half of a surrogate pair, from JSON that an action's error repeats: no text of UTF-8.
        plain = _encoder.encode(
            _with_valid_text(msgspec.to_builtins(outcome, builtin_types=(bytes,), enc_hook=_as_base_type))
        )
    return _COMPRESSED + zlib.compress(plain, 1) if len(plain) > _LARGE else _PLAIN + plain


def unpacked(answer: bytes) -> WindowOutcome:
    """The outcome that `packed` made; raises `UnreadableAnswer` for anything else.

    Whatever the bytes are, nothing but the types of this module is made of them, and no code of theirs runs.
    """
    mark, content = answer[:1], answer[1:]
    try:
        if mark == _COMPRESSED:
            content = _decompressed(content)
        elif mark != _PLAIN:
            raise UnreadableAnswer(f"it begins with {answer[:8]!r}, not with the mark of an outcome")
        return _decoder.decode(content)
    except (msgspec.DecodeError, zlib.error, RecursionError) as error:
        raise UnreadableAnswer(f"{type(error).__name__}: {error}") from error


def _decompressed(content: bytes) -> bytes:
    reader = zlib.decompressobj()
    plain = reader.decompress(content, _AT_MOST)
    if not reader.eof:
        raise UnreadableAnswer(f"it is cut off, or longer than {_AT_MOST:,} bytes")
    return plain


def _with_valid_text(plain: Any) -> Any:
    match plain:
        case str():
            return plain.encode("utf-8", "backslashreplace").decode()
        case list() | tuple():
            return [_with_valid_text(item) for item in plain]
        case dict():
            return {_with_valid_text(key): _with_valid_text(value) for key, value in plain.items()}
    return plain


def _as_base_type(value: Any) -> Any:
    """Text and numbers of user code may be of classes of its own."""
    match value:
        case str():
            return str.__str__(value)
        case bytes():
            return bytes(memoryview(value))
        case int():
            return int.__int__(value)
        case float():
            return float.__float__(value)
    raise NotImplementedError(f"an outcome cannot hold a {type(value).__qualname__}")


_encoder: Final = msgspec.msgpack.Encoder(enc_hook=_as_base_type)
_decoder: Final = msgspec.msgpack.Decoder(WindowOutcome)
