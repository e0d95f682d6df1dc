"""Schedules that have found a mistake, kept as regression tests: as small as they could be made, as plain data.

The campaign prints a failing schedule as a line for this file.
"""

from __future__ import annotations

from tests.simulation.faults import Fault, Rates
from tests.simulation.schedule import PipelineModel, PlannedEvent, Schedule

FIXED: dict[str, Schedule] = {
    # I1: the driver followed the cursor past an event whose failure only the target knows, because the outcome that
    # reported it died with its worker; the offset was committed before the dead letter was in the store.
    "a crash behind a failure that only the target knows": Schedule(
        seed=1,
        topics=(("t0", 1),),
        pipelines=(PipelineModel("p0", "table", ("t0",), max_records=20),),
        instances=(0.0,),
        events=(
            PlannedEvent(5.0, "t0", 0.0, b"a", "plain"),
            PlannedEvent(5.0, "t0", 0.0, b"a", "poison"),
            PlannedEvent(5.0, "t0", 0.0, b"a", "stuck"),
            PlannedEvent(5.0, "t0", 0.0, b"a", "plain"),
        ),
        faults=(),
        rates=Rates(),
    ),
    # I3, I9: an event that killed its worker twice is read by the name of its topic; where the topic was made anew, a
    # record of the new topic becomes a dead letter of the old one.
    "a topic made anew before the event that kills is read": Schedule(
        seed=2,
        topics=(("t0", 1),),
        pipelines=(PipelineModel("p0", "plain", ("t0",)),),
        instances=(0.0,),
        events=(PlannedEvent(0.0, "t0", 0.0, b"a", "stuck"),),
        faults=(Fault("recreate topic", 15.0, also=0.9),),
        rates=Rates(),
    ),
    # I6, I9: the first event at or behind the offset is taken for the one that kills; where that was compacted away,
    # an innocent one becomes a dead letter.
    "an event that kills is compacted away before it is read": Schedule(
        seed=3,
        topics=(("t0", 1),),
        pipelines=(PipelineModel("p0", "plain", ("t0",)),),
        instances=(0.0,),
        events=(PlannedEvent(0.0, "t0", 0.0, b"a", "stuck"), PlannedEvent(0.0, "t0", 0.0, b"a", "plain")),
        faults=(Fault("compact", 15.0),),
        rates=Rates(),
    ),
}

__all__ = ["FIXED", "Fault", "PipelineModel", "PlannedEvent", "Rates", "Schedule"]
