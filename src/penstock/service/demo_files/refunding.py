"""The steps of the demo's refunds. Each is given the state that the step before left, and returns the next."""

import logging
from typing import Any

from penstock.workflows import StepFailed

State = dict[str, Any]
log = logging.getLogger(__name__)


def check(state: State, config: dict[str, Any]) -> State:
    refund = state["data"]
    if refund["amount"] > config["at_most"]:
        raise StepFailed(f"{refund['amount']:.2f} EUR are more than may be paid back without a person")
    return {"refund": refund}


def pay(state: State) -> State:
    # What is logged or printed is kept with the run.
    log.info("%.2f EUR back to %s", state["refund"]["amount"], state["refund"]["customer"])
    return state | {"paid": True}


def ask_a_person(state: State) -> State:
    log.warning("a person has to look at it")
    return state
