"""Steps of `lab-results.yaml`. Each gets the state that the step before left, and returns the next."""

from __future__ import annotations

import json
import logging
from typing import Any

from penstock.workflows import StepFailed

State = dict[str, Any]
log = logging.getLogger(__name__)


def check(state: State, config: dict[str, Any]) -> State:
    """The first step: `data` is the message, `request` says where it was read."""
    result = state["data"]
    if not isinstance(result.get("value"), (int, float)):
        raise StepFailed(f"patient {result.get('patient')}: the value is no number")
    where = state["request"]
    # What is logged or printed is kept with the run.
    log.info("%s/%s@%s: %s", where["topic"], where["partition"], where["offset"], result["value"])
    return {"result": result, "urgent": result["value"] > config["urgent_above"]}


def keep(state: State) -> State:
    return state | {"kept": json.dumps(state["result"], sort_keys=True)}


def set_aside(state: State) -> State:
    return {"for_a_person": state["data"]}
