"""Names of the driver's seams that moved while the driver was rewritten; the rest of the simulation imports them here."""

from __future__ import annotations

from typing import NamedTuple

try:
    from penstock.pipeline.in_flight_log import InFlight
except ImportError:

    class InFlight(NamedTuple):  # type: ignore[no-redef]  # until the in-flight log has it
        index: int
        first: int
        end: int


__all__ = ["InFlight"]
