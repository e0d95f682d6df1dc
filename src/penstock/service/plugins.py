"""Which sources, filters, transforms, actions and processors this installation knows."""

from __future__ import annotations

from penstock.act.registry import actions
from penstock.core.registry import PluginInfo
from penstock.datahub.sources import sources
from penstock.filter.registry import filters
from penstock.tables.registry import processors
from penstock.transform.registry import transforms


def list_plugins() -> list[PluginInfo]:
    """By kind in the order of the flow, then by name; each is loaded to see whether it works here."""
    return [*sources.names(), *filters.names(), *transforms.names(), *actions.names(), *processors.names()]
