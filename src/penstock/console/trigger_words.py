"""Triggers as pages show them."""

from __future__ import annotations

from typing import Any

from penstock.console import words
from penstock.console.parts import TONES
from penstock.console.tables import cell
from penstock.service.operations.trigger_models import TriggerItem


def trigger_url(identifier: str) -> str:
    return f"/triggers/{identifier}"


def trigger_row(trigger: TriggerItem) -> dict[str, Any]:
    """A line of a list."""
    return {
        "id": trigger.id,
        "trigger": trigger.name,
        "trigger_text": cell(trigger.name),
        "trigger_url": trigger_url(trigger.id),
        "workflow": cell(trigger.workflow),
        "workflow_url": f"/workflows/{trigger.workflow_id}",
        "state": trigger.state,
        "state_tone": TONES.get(trigger.state, "rest"),
        "state_why": cell(trigger.reason) if trigger.reason else None,
        "topics": cell(trigger.topics),
        "lag": -1 if trigger.lag is None else trigger.lag,
        "lag_text": words.short(trigger.lag),
        "messages": trigger.messages,
        "messages_text": words.number(trigger.messages),
        "letters": trigger.dead_letters,
        "letters_text": words.number(trigger.dead_letters),
        "letters_tone": "hot" if trigger.dead_letters else "",
        "acts": ["Disable"] if trigger.enabled else ["Enable"],
    }
