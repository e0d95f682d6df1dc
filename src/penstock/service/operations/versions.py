"""Versions of specs: what ran, and what is kept in the store."""

from __future__ import annotations

import difflib
from io import StringIO
from typing import Any

import orjson
from ruamel.yaml import YAML

from penstock.config.stored import stored
from penstock.core.clock import format_time
from penstock.core.errors import ConfigError
from penstock.service.access import Actor, NotFound
from penstock.service.operations.desk import Desk
from penstock.service.operations.models import Difference, VersionText, VersionView


def known_spec(desk: Desk, name: str) -> tuple[dict[str, Any] | None, str | None, str | None]:
    """The spec as it runs here or last ran, masked, with its version and its file; None where it never ran."""
    instance = desk.instance()
    for flow in list(instance.runners) if instance else []:
        if flow.name == name:
            # I8: `stored` scrubs what was read from files too.
            return orjson.loads(stored(flow.spec))["spec"], flow.spec.version, flow.spec.origin
    row = desk.store.pipelines.last_spec(name)
    if row is None:
        return None, None, None
    kept = _kept(row.spec)
    return kept.get("spec"), row.version, kept.get("file")


def versions(desk: Desk, actor: Actor, name: str) -> list[VersionView]:
    """Newest first: revisions of a document in the store, otherwise specs that ran."""
    desk.pipeline(actor, "pipelines.view", name)
    return [VersionView(**entry.model_dump(exclude={"text"})) for entry in _all(desk, name)]


def version_text(desk: Desk, actor: Actor, name: str, version: str) -> VersionText:
    """One of them with its text."""
    desk.pipeline(actor, "pipelines.view", name)
    return _one(desk, name, version)


def diff(desk: Desk, actor: Actor, name: str, old: str, new: str) -> Difference:
    """What changed from one to the other; `running` is the spec that runs now."""
    desk.pipeline(actor, "pipelines.view", name)
    one, other = (
        (_running_text(desk, name) if version == "running" else _one(desk, name, version).text).splitlines()
        for version in (old, new)
    )
    lines = difflib.unified_diff(one, other, fromfile=old, tofile=new, lineterm="")
    return Difference(old=old, new=new, diff="\n".join(lines))


def as_yaml(data: Any) -> str:
    """Data as YAML text, keys in their order."""
    out = StringIO()
    writer = YAML()
    writer.default_flow_style = False
    writer.width = 120
    writer.dump(data, out)
    return out.getvalue()


def _running_text(desk: Desk, name: str) -> str:
    spec, _, _ = known_spec(desk, name)
    if spec is None:
        raise ConfigError(f"{name} has not run yet", received=name)
    return as_yaml(spec)


def _one(desk: Desk, name: str, version: str) -> VersionText:
    for entry in _all(desk, name):
        if entry.version == version:
            return entry
    raise NotFound("no such version", received=version)


def _all(desk: Desk, name: str) -> list[VersionText]:
    kept = desk.store.managed.versions(name)
    current = desk.store.managed.get(name)
    if kept and current:
        return [
            VersionText(
                version=str(row.revision),
                saved_at=format_time(row.changed_at),
                by=row.changed_by,
                current=row.revision == current.revision,
                text=row.text,
            )
            for row in kept
        ]
    return [
        VersionText(
            version=row.version,
            saved_at=format_time(row.saved_at),
            current=number == 0,
            text=as_yaml(_kept(row.spec).get("spec")),
        )
        for number, row in enumerate(desk.store.pipelines.specs(name))
    ]


def _kept(text: str) -> dict[str, Any]:
    try:
        kept = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {}
    return kept if isinstance(kept, dict) else {}
