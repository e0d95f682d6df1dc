"""The table of event sources besides Kafka: classes of the user's own, and those that DataHub's package brings."""

from __future__ import annotations

from importlib import metadata
from typing import Any

from penstock.core.errors import PenstockError, PluginError, Transient, Unavailable
from penstock.core.plugin import PipelineContext
from penstock.core.registry import Registry
from penstock.datahub import imports
from penstock.datahub.adapters import context_for
from penstock.datahub.bases import EventSource

_PACKAGE = "install penstock[datahub], which brings DataHub's own package with it"
_BROUGHT = {
    "datahub-cloud": "datahub_actions.plugin.source.acryl.datahub_cloud_event_source:DataHubEventSource",
    "pg_queue": "datahub_actions.plugin.source.pgqueue.pg_queue_event_source:PgQueueEventSource",
}
"""Sources that DataHub's package registers in its code, not through entry points."""

_USERS_FAULT = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError, FileExistsError)

imports.install()
sources: Registry[EventSource] = Registry(
    kind="source",
    base=EventSource,  # type: ignore[type-abstract]  # a base to check against, never created
    builtin=_BROUGHT if any(metadata.distributions(name="acryl-datahub-actions")) else {},
    groups=("datahub_actions.source.plugins",),
    foreign=("datahub_actions.source.event_source:EventSource",),
    elsewhere=dict.fromkeys(_BROUGHT, _PACKAGE),
)


class SourceUnavailable(Unavailable):
    """What a source reads from is away."""

    code = "source_unavailable"


def is_outage(error: BaseException) -> bool:
    """Whether trying again may help, by the error's class: that of an outage, of the network, or of a database (whose
    libraries all have an `OperationalError` of their own)."""
    if isinstance(error, OSError):
        return not isinstance(error, _USERS_FAULT)
    return isinstance(error, Transient) or any(cls.__name__ == "OperationalError" for cls in type(error).__mro__)


def make_source(name: str, config: dict[str, Any], ctx: PipelineContext) -> Any:
    """The pipeline's source, made as DataHub makes it; it is not asked for events yet."""
    cls = sources.resolve(name, ctx.folder)
    failed = f"the source `{name}` could not be created"
    try:
        made = cls.create(dict(config), context_for(ctx))
    except PenstockError:
        raise
    except Exception as error:
        if is_outage(error):
            raise SourceUnavailable(f"{failed}: {type(error).__name__}: {error}") from error
        raise PluginError(f"{failed}: {type(error).__name__}: {error}", received=name) from error
    if made is None:
        raise PluginError(f"{failed}: its `create` returned None", received=name)
    return made
