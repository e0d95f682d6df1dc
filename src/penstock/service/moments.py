"""Times as people write them in options."""

from __future__ import annotations

from typing import Final

from penstock.core.clock import SYSTEM, parse_time
from penstock.core.durations import parse_duration
from penstock.core.errors import ConfigError

_TIMES: Final = "a time like 2026-01-01T00:00:00Z, a time ago like 2h or 7d, or epoch milliseconds"


def moment(option: str, text: str | None) -> int | None:
    """Epoch milliseconds; None where nothing is given."""
    if text is None:
        return None
    written = text.strip()
    if written.isdecimal():
        return int(written)
    for read in (parse_time, lambda ago: SYSTEM.now_ms() - int(parse_duration(ago) * 1000)):
        try:
            return read(written)
        except ValueError:
            continue
    raise ConfigError(f"{option} is no time", received=text, allowed=_TIMES)
