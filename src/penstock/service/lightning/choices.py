"""What an imported trigger starts, for Lightning's jobs are not run here: steps of a Penstock workflow, or a request
to the old instance."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlsplit

from penstock.core.errors import ConfigError
from penstock.service.lightning.model import LightningWorkflow
from penstock.store import Store

_HEADERS: Final = {
    "X-Kafka-Topic": "state.request.topic",
    "X-Kafka-Partition": "state.request.partition",
    "X-Kafka-Offset": "state.request.offset",
    "X-Kafka-Key": "state.request.key",
    "X-Kafka-Timestamp": "state.request.ts",
}
_SETTINGS: Final = ("isolation", "on_lost", "concurrency")


def forwarding(workflow: LightningWorkflow, address: str, *, allow_private: bool) -> dict[str, Any]:
    """Steps that post each message to the webhook that its trigger has become."""
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ConfigError(f"the address of an instance is wanted, not {address!r}", allowed=["https://app.openfn.org"])
    steps, edges = [], []
    for trigger in workflow.triggers:
        if trigger.id is None:
            raise ConfigError(
                f"trigger {trigger.name} of {workflow.name} has no id, so its address is not known",
                hint="the provisioning JSON and the rows have ids; the project YAML has none",
            )
        name = "forward to Lightning" if len(workflow.triggers) == 1 else f"forward {trigger.name} to Lightning"
        config: dict[str, Any] = {"method": "POST", "body": "state.data", "header_expressions": dict(_HEADERS)}
        if allow_private:
            config["allow_private"] = True
        steps.append({"name": name, "http": f"{address.rstrip('/')}/i/{trigger.id}", "config": config})
        edges.append({"from": trigger.name, "to": name})
    return {"steps": steps, "edges": edges}


def steps_of(store: Store, workflow_id: str) -> dict[str, Any]:
    """The steps of a workflow of the store, to be used in another one."""
    row = store.workflows.by_id(workflow_id)
    snapshot = store.workflows.snapshot(row.snapshot_id) if row and row.snapshot_id else None
    if snapshot is None or not snapshot.definition.get("steps"):
        raise ConfigError("the workflow has no steps", received=workflow_id)
    return written(snapshot.definition)


def written(definition: dict[str, Any]) -> dict[str, Any]:
    """A definition's steps and settings as a workflow document has them; edges from its triggers are left out."""
    names = {step["name"] for step in definition["steps"]}
    options = definition.get("options", {})
    settings = {key: definition[key] for key in _SETTINGS if definition.get(key) is not None}
    if "run_timeout_ms" in options:
        settings["timeout"] = options["run_timeout_ms"] / 1000
    for key, name in (
        ("run_memory_limit_mb", "run_memory_limit_mb"),
        ("enable_job_logs", "logs"),
        ("save_dataclips", "save_dataclips"),
    ):
        if key in options:
            settings[name] = options[key]
    edges = [dict(edge) for edge in definition.get("edges", []) if edge["from"] in names]
    return {"steps": [_step(step) for step in definition["steps"]], "edges": edges} | settings


def _step(step: dict[str, Any]) -> dict[str, Any]:
    kind, config = step["kind"], dict(step["config"])
    main = config.pop({"python": "callable", "command": "argv", "http": "url", "action": "type"}[kind])
    inner = config.get("config", {}) if kind in ("python", "action") else config
    return {"name": step["name"], kind: main} | ({"config": inner} if inner else {})
