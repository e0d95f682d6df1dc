"""Avro's variable-length numbers, read from bytes at an index."""

from __future__ import annotations

LENGTHS = tuple(byte >> 1 if byte < 128 and not byte & 1 else -1 for byte in range(256))
"""The number that a byte says by itself; -1: it goes on, or is negative."""


class BadBytes(Exception):
    """Bytes that are not what their schema says."""


def number(raw: bytes, at: int) -> tuple[int, int]:  # noqa: PLR0911 - one for each length
    """The variable-length number at a place, and the place behind it."""
    # A time has six bytes: written out, for a loop takes twice as long. Each step takes back the mark of the byte
    # before it, that it goes on.
    value = raw[at]
    if value < 0x80:
        return (value >> 1) ^ -(value & 1), at + 1
    byte = raw[at + 1]
    value += (byte << 7) - 0x80
    if byte < 0x80:
        return (value >> 1) ^ -(value & 1), at + 2
    byte = raw[at + 2]
    value += (byte << 14) - 0x4000
    if byte < 0x80:
        return (value >> 1) ^ -(value & 1), at + 3
    byte = raw[at + 3]
    value += (byte << 21) - 0x20_0000
    if byte < 0x80:
        return (value >> 1) ^ -(value & 1), at + 4
    byte = raw[at + 4]
    value += (byte << 28) - 0x1000_0000
    if byte < 0x80:
        return (value >> 1) ^ -(value & 1), at + 5
    byte = raw[at + 5]
    value += (byte << 35) - 0x8_0000_0000
    if byte < 0x80:
        return (value >> 1) ^ -(value & 1), at + 6
    return _long_number(raw, at + 5, value - (byte << 35))


def _long_number(raw: bytes, at: int, value: int) -> tuple[int, int]:
    for shift in range(35, 70, 7):
        byte = raw[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
    raise BadBytes("a number of more than ten bytes")


def length(raw: bytes, at: int) -> tuple[int, int]:
    """A number that cannot be negative."""
    low, high = raw[at], raw[at + 1]
    if low > 0x7F > high and not low & 1:
        return ((low - 0x80) >> 1) + (high << 6), at + 2
    value, at = number(raw, at)
    if value < 0:
        raise BadBytes(f"a length of {value}")
    return value, at


def block(raw: bytes, at: int) -> tuple[int, int]:
    """How many items follow in an array or map; the size that a writer may give with them is of no use here."""
    value, at = number(raw, at)
    if value < 0:
        _, at = number(raw, at)
    return abs(value), at
