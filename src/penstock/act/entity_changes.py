"""What an entity change event says, in one sentence for people, with a link to the thing in the catalogue."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import structlog

from penstock.act.urns import Urn, parse_urn
from penstock.core.event import Event

log = structlog.get_logger("penstock.notify")

ENTITY_CHANGE = "EntityChangeEvent_v1"
SYSTEM_ACTOR = "urn:li:corpuser:__datahub_system"

_VERBS = {
    "ADD": "added",
    "UPDATE": "updated",
    "MODIFY": "updated",
    "REMOVE": "removed",
    "CREATE": "created",
    "REINSTATE": "reinstated",
}
_NAMES = {
    "chart": (("chartInfo", "title"),),
    "container": (("containerProperties", "name"),),
    "corpuser": (
        ("corpUserEditableInfo", "displayName"),
        ("corpUserInfo", "displayName"),
        ("corpUserInfo", "fullName"),
    ),
    "dashboard": (("dashboardInfo", "title"),),
    "dataset": (("datasetProperties", "name"),),
    "domain": (("domainProperties", "name"),),
    "glossaryTerm": (("glossaryTermInfo", "name"),),
    "tag": (("tagProperties", "name"),),
}
"""Where the catalogue keeps names: aspect and field, the first that is there wins."""
_KNOWN_NAMES = 10_000


@dataclass(frozen=True, slots=True)
class Markup:
    """How a chat writes bold text and links."""

    bold: Callable[[str], str]
    link: Callable[[str, str], str]
    """Title and address."""
    plain: Callable[[str], str]


class Sentences:
    """Puts sentences together; names come from the catalogue's client where there is one, else from URNs."""

    def __init__(self, base_url: str, markup: Markup, graph: Any = None) -> None:
        self._base = base_url.rstrip("/")
        self._markup = markup
        self._graph = graph
        self._name = lru_cache(_KNOWN_NAMES)(self._look_up)

    def of(self, event: Event) -> str:
        """Who did what to which thing."""
        body, mark = event.event, self._markup
        urn = parse_urn(str(_field(body, "entityUrn")))
        operation = str(_field(body, "operation"))
        actor = mark.bold(self._name(str(_field(_field(body, "auditStamp"), "actor"))))
        verb = _VERBS.get(operation, operation.lower())
        what = self._what(str(_field(body, "category")).lower(), _field(body, "modifier"))
        return f"{actor} {verb} {what}{self._thing(urn, str(_field(body, 'entityType')))}"

    def _what(self, category: str, modifier: Any) -> str:
        name = self._markup.bold(self._name(str(modifier))) if modifier else ""
        if category == "lifecycle":
            words = []
        elif category != "technical_schema":
            words = [category.replace("_", " "), name, "on"]
        elif str(modifier or "").startswith("urn:li:schemaField"):
            words = ["field", name, "in the schema of"]
        else:
            words = [name, "schema of"]
        return "".join(f"{word} " for word in words if word)

    def _thing(self, urn: Urn, entity_type: str) -> str:
        mark = self._markup
        if entity_type == "schemaField" and len(urn.parts) > 1:
            parent = urn.parent
            link = mark.link(self._name(parent.text), self._address(parent, parent.type) + _schema_filter(urn.name))
            return f"{mark.plain(urn.kind)} {mark.plain(urn.name)} of {mark.plain(parent.kind)} {link}"
        link = mark.link(self._name(urn.text), self._address(urn, entity_type))
        return f"{mark.plain(urn.kind)} {link}"

    def _address(self, urn: Urn, entity_type: str) -> str:
        path = {"dataFlow": "pipelines", "dataJob": "tasks"}.get(entity_type, entity_type)
        return f"{self._base}/{path}/{urn.text}"

    def _look_up(self, text: str) -> str:
        urn = parse_urn(text)
        fields = _NAMES.get(urn.type)
        if self._graph is None or fields is None or text == SYSTEM_ACTOR:
            return urn.name
        try:
            raw = self._graph.graph.get_entity_raw(text, [aspect for aspect, _ in fields])
            aspects = raw.get("aspects", {})
            found = (aspects.get(aspect, {}).get("value", {}).get(field) for aspect, field in fields)
            return next(filter(None, found), None) or urn.name
        except Exception as error:  # noqa: BLE001 - a name is decoration: the message goes out without it
            log.debug("the catalogue gave no name", urn=text, reason=str(error))
            return urn.name


def is_by_system(event: Event) -> bool:
    """Whether the catalogue itself did it."""
    return bool(_field(_field(event.event, "auditStamp"), "actor") == SYSTEM_ACTOR)


def _schema_filter(field: str) -> str:
    return f"/Schema?schemaFilter={field}"


def _field(value: Any, name: str) -> Any:
    get = getattr(value, "get", None)
    found = get(name) if get is not None else None
    return getattr(value, name, None) if found is None else found
