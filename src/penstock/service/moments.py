"""Times as people write them in options."""

from __future__ import annotations

from typing import Final

from penstock.core.clock import SYSTEM, parse_time
from penstock.core.durations import parse_duration
from penstock.core.errors import ConfigError

LAST: Final = 253_402_300_800_000
"""Epoch milliseconds at the end of the year 9999: no database or calendar goes further."""
_TIMES: Final = "a time like 2026-01-01T00:00:00Z, a time ago like 2h or 7d, or epoch milliseconds"


def moment(option: str, text: str | None) -> int | None:
    """Epoch milliseconds; None where nothing is given."""
    if text is None:
        return None
    at = _read(option, text.strip())
    if not 0 <= at < LAST:
        raise ConfigError(f"{option}: a time between 1970 and the year 9999 is wanted", received=text)
    return at


def _read(option: str, written: str) -> int:
    if written.isdecimal():
        return int(written)
    for read in (parse_time, lambda ago: SYSTEM.now_ms() - int(parse_duration(ago) * 1000)):
        try:
            return read(written)
        except ValueError:
            continue
        except OverflowError:
            return LAST
    raise ConfigError(f"{option} is no time", received=written, allowed=_TIMES)
