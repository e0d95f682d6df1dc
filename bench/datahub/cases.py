"""What is compared: one pipeline file per case, the same on both sides but for the action it names."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from bench.datahub.records import MARK_ASPECT, MCL_TOPIC, PE_TOPIC

Side = Literal["peer", "penstock", "penstock[datahub]"]

_PLUGIN = "bench.datahub.plugin"
_NATIVE = "bench.datahub.native"


@dataclass(frozen=True, kw_only=True)
class Case:
    """One side doing one kind of work."""

    name: str
    side: Side
    topic: str
    action: dict[str, Any]
    source: dict[str, Any] = field(default_factory=dict)
    rejecting: bool = False
    """Whether nearly all is rejected by a filter; the few others mark how far it has come."""

    def pipeline(self, name: str, bootstrap: str, registry: str, failed_events: str) -> dict[str, Any]:
        """The file's content."""
        connection = {
            "bootstrap": bootstrap,
            "schema_registry_url": registry,
            "consumer_config": {"auto.offset.reset": "earliest"},
        }
        route = "mcl" if self.topic == MCL_TOPIC else "pe"
        made: dict[str, Any] = {
            "name": name,
            "source": {
                "type": "kafka",
                "config": {"connection": connection, "topic_routes": {route: self.topic}} | self.source,
            },
            "action": self.action,
            "options": {"failed_events_dir": failed_events},
        }
        if self.rejecting:
            wanted = {"entityType": "dataset", "aspectName": MARK_ASPECT, "changeType": "UPSERT"}
            by_type = {"MetadataChangeLogEvent_v1": {"event": [wanted]}}
            made["filters"] = [{"type": "event_type", "config": {"filter": by_type}}]
        return made


def _function(name: str) -> dict[str, Any]:
    return {"type": "python", "config": {"callable": f"bench.datahub.acts:{name}"}}


def _class(module: str, name: str) -> dict[str, Any]:
    return {"type": f"{module}:{name}"}


_changed, _logged, _marked, _timed = (_class(_PLUGIN, name) for name in ("Changed", "Logged", "Marked", "Timed"))
_late = {"enable_mcl_pre_deserialization_filter": False}

CASES = [
    Case(name="changes, peer", side="peer", topic=PE_TOPIC, action=_changed),
    Case(name="changes", side="penstock", topic=PE_TOPIC, action=_function("changed")),
    Case(name="changes, one lane", side="penstock", topic=PE_TOPIC, action=_class(_NATIVE, "Changed")),
    Case(name="changes, plug-in", side="penstock", topic=PE_TOPIC, action=_changed),
    Case(name="logs, peer", side="peer", topic=MCL_TOPIC, action=_logged),
    Case(name="logs", side="penstock", topic=MCL_TOPIC, action=_function("logged")),
    Case(name="logs, one lane", side="penstock", topic=MCL_TOPIC, action=_class(_NATIVE, "Logged")),
    Case(name="logs, plug-in", side="penstock", topic=MCL_TOPIC, action=_logged),
    Case(name="logs, plug-in, real classes", side="penstock[datahub]", topic=MCL_TOPIC, action=_logged),
    Case(name="rejected, peer", side="peer", topic=MCL_TOPIC, action=_marked, source=_late, rejecting=True),
    Case(name="rejected early, peer", side="peer", topic=MCL_TOPIC, action=_marked, rejecting=True),
    Case(name="rejected", side="penstock", topic=MCL_TOPIC, action=_function("marked"), rejecting=True),
    Case(name="changes, peer again", side="peer", topic=PE_TOPIC, action=_changed),
]
"""In the order of a round: sides alternate, and the first of the peer's runs comes once more at the end (A/A)."""

WAITING = [
    Case(name="latency, peer", side="peer", topic="latency-peer", action=_timed),
    Case(name="latency, penstock", side="penstock", topic="latency-penstock", action=_timed),
]
"""For latency, start and memory: the same plug-in class on both sides, each with topics of its own."""
