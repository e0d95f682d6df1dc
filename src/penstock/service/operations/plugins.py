"""Plug-ins that this installation knows, and what their configuration may hold."""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any, Final

import orjson

from penstock.act.registry import actions
from penstock.config.schema import SCHEMA_FILE
from penstock.core.errors import PluginError
from penstock.core.registry import Registry
from penstock.datahub.sources import sources
from penstock.filter.registry import filters
from penstock.service import plugins
from penstock.service.access import Actor, NotFound, require_somewhere
from penstock.service.operations.desk import Desk
from penstock.service.operations.models import View
from penstock.transform.registry import transforms

_REGISTRIES: Final[dict[str, Registry[Any]]] = {
    "source": sources,
    "filter": filters,
    "transform": transforms,
    "action": actions,
}


class PluginItem(View):
    """One plug-in."""

    kind: str
    name: str
    origin: str
    """`built in`, or the distribution that brings it."""
    disabled: str | None = None
    """Why it cannot be used here; null: it can."""


class PluginDetail(PluginItem):
    """One with what its configuration may hold."""

    about: str | None = None
    config_schema: dict[str, Any] | None = None
    """JSON Schema of its `config`; null: it takes anything."""


def list_plugins(desk: Desk, actor: Actor, *, kind: str | None = None) -> list[PluginItem]:  # noqa: ARG001 - as all operations
    """By kind in the order of the flow, then by name."""
    require_somewhere(actor, "plugins.view")
    return [item for item in _known() if kind in (None, item.kind)]


def get_plugin(desk: Desk, actor: Actor, kind: str, name: str) -> PluginDetail:
    """One with its schema."""
    for item in list_plugins(desk, actor, kind=kind):
        if item.name == name:
            cls = _class(kind, name) if item.disabled is None else None
            model = getattr(cls, "config_model", None)
            schema = model.model_json_schema() if model is not None else None
            about = inspect.getdoc(cls) if cls is not None else None
            return PluginDetail(**item.model_dump(), about=about, config_schema=schema)
    raise NotFound(f"there is no {kind} of this name", received=name, hint="GET /api/v1/plugins lists them")


def pipeline_schema(desk: Desk, actor: Actor) -> dict[str, Any]:  # noqa: ARG001 - as all operations
    """JSON Schema of pipeline documents, for editors and forms."""
    require_somewhere(actor, "plugins.view")
    return _schema()


@cache
def _known() -> tuple[PluginItem, ...]:
    # Each is imported to see whether it works here, which does not change while the process lives.
    return tuple(
        PluginItem(kind=info.kind, name=info.name, origin=info.origin, disabled=info.disabled)
        for info in plugins.list_plugins()
    )


@cache
def _schema() -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads(SCHEMA_FILE.read_bytes())
    return found


def _class(kind: str, name: str) -> type | None:
    registry = _REGISTRIES.get(kind)
    try:
        return registry.resolve(name) if registry is not None else None
    except PluginError:
        return None
