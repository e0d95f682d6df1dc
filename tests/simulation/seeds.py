"""Schedules that have found a mistake, kept as regression tests: as small as they could be made, as plain data.

The campaign prints a failing schedule as a line for this file. `FIXED` must be clean; `OPEN` are findings that wait for
their fix: the test of an open one fails as soon as it is clean, so that it is moved.
"""

from __future__ import annotations

from tests.simulation.faults import Fault, Rates
from tests.simulation.schedule import PipelineModel, PlannedEvent, Schedule

FIXED: dict[str, Schedule] = {}

OPEN: dict[str, Schedule] = {}

__all__ = ["FIXED", "OPEN", "Fault", "PipelineModel", "PlannedEvent", "Rates", "Schedule"]
