"""Confluent's wire format, and how an undecodable value is described: bounded, in hex."""

from __future__ import annotations

from penstock.core.errors import DecodeError

MAGIC = 0
HEADER = 5
"""Length of the frame's head: the byte 0 and a schema id of four bytes, big-endian."""

_SHOWN = 16


def first_bytes(raw: bytes) -> str:
    """The first bytes in hex, and how many there are in all."""
    return f"{raw[:_SHOWN].hex(' ')}{' …' if len(raw) > _SHOWN else ''} ({len(raw)} bytes)"


def schema_id(raw: bytes) -> int:
    """The schema id of a framed value."""
    return int.from_bytes(raw[1:HEADER], "big")


def require_frame(raw: bytes) -> int:
    """The schema id, or the error that says why the value has no frame."""
    if len(raw) < HEADER:
        raise DecodeError(f"too short for a schema frame of {HEADER} bytes: {first_bytes(raw)}")
    if raw[0] != MAGIC:
        raise DecodeError(
            f"byte 0 is 0x{raw[0]:02x}, not the 0x00 of a schema frame: {first_bytes(raw)}",
            hint="is the topic really written with a schema registry? else choose format: json, text or raw",
        )
    return schema_id(raw)
