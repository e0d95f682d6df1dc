"""The table of event sources besides Kafka: classes of the user's own, and those that DataHub's package brings."""

from __future__ import annotations

from typing import Any

from penstock.core.errors import PenstockError, PluginError
from penstock.core.plugin import PipelineContext
from penstock.core.registry import Registry
from penstock.datahub import imports
from penstock.datahub.adapters import context_for
from penstock.datahub.bases import EventSource

_PACKAGE = "install penstock[datahub], which brings DataHub's own package with it"

imports.install()
sources: Registry[EventSource] = Registry(
    kind="source",
    base=EventSource,  # type: ignore[type-abstract]  # a base to check against, never created
    builtin={},
    groups=("datahub_actions.source.plugins",),
    foreign=("datahub_actions.source.event_source:EventSource",),
    elsewhere={"datahub-cloud": _PACKAGE, "pg_queue": _PACKAGE},
)


def make_source(name: str, config: dict[str, Any], ctx: PipelineContext) -> Any:
    """The pipeline's source, made as DataHub makes it; it is not asked for events yet."""
    cls = sources.resolve(name, ctx.folder)
    failed = f"the source `{name}` could not be created"
    try:
        made = cls.create(dict(config), context_for(ctx))
    except PenstockError:
        raise
    except Exception as error:
        raise PluginError(f"{failed}: {type(error).__name__}: {error}", received=name) from error
    if made is None:
        raise PluginError(f"{failed}: its `create` returned None", received=name)
    return made
