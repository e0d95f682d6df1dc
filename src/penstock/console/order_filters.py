"""Filters of work orders as they stand in an address."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal
from urllib.parse import urlencode

from pydantic import ValidationError

from penstock.console.frame import Visit, url
from penstock.console.order_words import STATES, state_name
from penstock.core.errors import ConfigError
from penstock.service.operations.work_order_models import WorkOrderChoice, WorkOrderQuery

PATH: Final = "/history"
_ANY_TIME: Final = "any_time"
_MANY: Final = ("state", "ids")
"""Words that may name several, with commas."""
WORDS: Final = {
    "project": "project",
    "workflow": "workflow",
    "trigger": "trigger",
    "state": "status",
    "received_after": "received after",
    "received_before": "received before",
    "active_after": "active after",
    "active_before": "active before",
    "search": "search",
    "ids": "work order",
    _ANY_TIME: "of any time",
}
Sort = Literal["created", "activity"]


@dataclass(frozen=True, slots=True)
class Chosen:
    """What an address asks for: the words as they were written, and what they mean."""

    words: dict[str, str]
    query: WorkOrderQuery
    sort: Sort = "created"

    def address(self, path: str = PATH, /, **changes: str | None) -> str:
        """The same with some words changed; None takes one out."""
        sort = None if self.sort == "created" else self.sort
        return url(path, **({"sort": sort} | self.words | changes))

    @property
    def states(self) -> list[str]:
        return [word for word in self.words.get("state", "").split(",") if word]

    def with_state(self, state: str) -> str:
        """The address that asks for one state more, or, where it was asked for, one less."""
        left = [word for word in self.states if word != state] if state in self.states else [*self.states, state]
        return self.address(state=",".join(left) or None)

    @property
    def choice(self) -> WorkOrderChoice:
        """All of them."""
        return WorkOrderChoice(filter=self.query, everything=self.query.is_empty)

    @property
    def export(self) -> str:
        """The address of a zip of all of them."""
        said = self.query.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
        return f"/api/v1/work-orders/export?{urlencode(said, doseq=True)}"

    def said(self, name: str) -> str:
        """One of the words, for a person."""
        if name == "state":
            return f"status: {', '.join(state_name(state) for state in self.states)}"
        return WORDS[name] if name == _ANY_TIME else f"{WORDS[name]}: {self.words[name]}"

    def sentence(self) -> str:
        return ", ".join(map(self.said, self.words)) or "all with activity within 30 days"


def chosen(visit: Visit) -> Chosen:
    """An error names the word that is none."""
    given = {name: value for name in WORDS if (value := visit.asked(name)) is not None}
    said: dict[str, Any] = given | {name: given[name].split(",") for name in _MANY if name in given}
    try:
        query = WorkOrderQuery.model_validate(said)
    except ValidationError as error:
        wrong = error.errors()[0]
        name = str(wrong["loc"][0])
        if name == "state":  # made of two kinds, of which an error names one only
            raise ConfigError("there is no such status", received=wrong["input"], allowed=list(STATES)) from None
        raise ConfigError(f"{WORDS[name]}: {wrong['msg']}", received=wrong["input"]) from None
    return Chosen(given, query, "activity" if visit.asked("sort") == "activity" else "created")
