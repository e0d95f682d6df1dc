"""Durations (`30s`, `1h30m`, `250ms`) and rates (`100/s`) as people write them."""

from __future__ import annotations

import math
import re
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)")


def parse_duration(text: Any) -> float:
    """Seconds from `30s`, `1h30m`, `250ms`, or a plain number of seconds."""
    written = str(text).strip().lower()
    if isinstance(text, (int, float)) and not isinstance(text, bool):
        if text < 0:
            raise ValueError(f"a duration cannot be negative: {text!r}")
        seconds = _finite(text)
    elif re.fullmatch(r"\d+(\.\d+)?", written):
        seconds = _finite(written)
    else:
        parts = _PART.findall(written)
        odd = not parts or _PART.sub("", written).strip()
        seconds = None if odd else _finite(sum(float(number) * _UNITS[unit] for number, unit in parts))
    if seconds is None:
        raise ValueError(f"a duration like 30s, 250ms or 1h30m is wanted, not {text!r}")
    return seconds


def _finite(number: float | str) -> float | None:
    # YAML knows .nan and .inf, and no wait may be either.
    try:
        value = float(number)
    except OverflowError:
        return None
    return value if math.isfinite(value) else None


def parse_rate(text: Any) -> float:
    """Events per second from `100/s`, `6000/m`, `1/h`, or a plain number per second."""
    if isinstance(text, (int, float)) and not isinstance(text, bool):
        rate = _finite(text)
    else:
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(?:/\s*(s|m|h|d))?\s*", str(text).lower())
        rate = _finite(float(match[1]) / _UNITS[match[2] or "s"]) if match and not isinstance(text, bool) else None
    if rate is None:
        raise ValueError(f"a rate like 100/s or 6000/m is wanted, not {text!r}")
    if rate <= 0:
        raise ValueError(f"a rate must be above zero: {text!r}")
    return rate


Duration = Annotated[
    float,
    BeforeValidator(parse_duration),
    WithJsonSchema({"type": ["string", "number"], "description": "a duration: 250ms, 30s, 1h30m, or seconds"}),
]
Rate = Annotated[
    float,
    BeforeValidator(parse_rate),
    WithJsonSchema({"type": ["string", "number"], "description": "a rate: 100/s, 6000/m, or events per second"}),
]
