"""The catalogue's client as plug-ins get it: DataHub's own, or one that says that it is not installed."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any, NoReturn

from penstock.core.errors import ConfigError
from penstock.datahub.classes import has_original

log = logging.getLogger("penstock.datahub")  # every worker imports this, and structlog costs a quarter of a second

_HINT = "install penstock[datahub]"


class NoCatalogueClient(ConfigError):
    """A plug-in used the catalogue's client, which is not installed."""

    code = "no_catalogue_client"


class AcrylDataHubGraph:
    """Stands in for the client: whatever is asked of it is an error that names what to install."""

    def __init__(self, baseGraph: Any = None) -> None:  # noqa: N803 - DataHub's signature
        self._given = baseGraph

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)  # what Python itself asks of every object
        raise NoCatalogueClient(f"`graph.{name}` needs DataHub's own package", received=name, hint=_HINT)


def catalogue(config: dict[str, Any] | None) -> Callable[[], Any] | None:
    """What makes `ctx.graph` for a pipeline with this `datahub` block; None without one."""
    if config is None:
        return None
    if has_original():
        return functools.partial(_client, config)
    log.warning("the catalogue's client needs DataHub's own package; whatever uses it will fail (%s)", _HINT)
    return AcrylDataHubGraph


def _client(config: dict[str, Any]) -> Any:
    from datahub.ingestion.graph.client import DatahubClientConfig, DataHubGraph  # noqa: PLC0415 - an extra, and slow to load
    from datahub_actions.api.action_graph import AcrylDataHubGraph as Original  # noqa: PLC0415 - as above

    return Original(DataHubGraph(DatahubClientConfig.model_validate(config)))
