"""Secrets in exported files: a pointer to where the store has them, which an import into the same store follows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from penstock.config.secret_values import REFERENCE, SECRET, is_kept
from penstock.store import Store

_TRIGGER: Final = "trigger/"
_WORKFLOW: Final = "workflow/"


def trigger_pointer(trigger_id: str) -> str:
    return f"{_TRIGGER}{trigger_id}"


def workflow_pointer(workflow_id: str) -> str:
    return f"{_WORKFLOW}{workflow_id}"


def with_pointers(config: Any, base: str) -> Any:
    """A copy in which each encrypted text is a reference to its place below `base`; other references stay."""
    if isinstance(config, Mapping):
        if is_kept(config):
            return {REFERENCE: base} if SECRET in config else dict(config)
        return {key: with_pointers(value, f"{base}/{_escaped(key)}") for key, value in config.items()}
    if isinstance(config, list):
        return [with_pointers(value, f"{base}/{index}") for index, value in enumerate(config)]
    return config


def without_pointers(config: Any, store: Store, missing: list[str]) -> Any:
    """A copy in which what the store still has is put back, encrypted as it is; `missing` gets what it has not."""
    if isinstance(config, Mapping):
        if is_kept(config):
            return _looked_up(config, store, missing)
        return {key: without_pointers(value, store, missing) for key, value in config.items()}
    return [without_pointers(value, store, missing) for value in config] if isinstance(config, list) else config


def _looked_up(config: Mapping[str, Any], store: Store, missing: list[str]) -> Any:
    name = str(config.get(REFERENCE, ""))
    if not name.startswith((_TRIGGER, _WORKFLOW)):
        return dict(config)
    kind, identity, *steps = name.split("/")
    here: Any = _configuration(store, kind, identity)
    for step in steps:
        here = _inner(here, step.replace("~1", "/").replace("~0", "~"))
    if is_kept(here):
        return here
    missing.append(name)
    return None


def _configuration(store: Store, kind: str, identity: str) -> Any:
    if f"{kind}/" == _TRIGGER:
        trigger = store.triggers.get(identity)
        return trigger.kafka_configuration if trigger else None
    workflow = store.workflows.by_id(identity)
    snapshot = store.workflows.snapshot(workflow.snapshot_id) if workflow and workflow.snapshot_id else None
    return snapshot.definition if snapshot else None


def _inner(config: Any, step: str) -> Any:
    if isinstance(config, Mapping):
        return config.get(step)
    if isinstance(config, list) and step.isdecimal() and int(step) < len(config):
        return config[int(step)]
    return None


def _escaped(key: object) -> str:
    return str(key).replace("~", "~0").replace("/", "~1")
