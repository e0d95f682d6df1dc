"""The table of filters."""

from __future__ import annotations

from penstock.core.plugin import Filter
from penstock.core.registry import Registry
from penstock.datahub import adapters, imports

imports.install()
filters: Registry[Filter] = Registry(
    kind="filter",
    base=Filter,  # type: ignore[type-abstract]  # a base to check against, never created
    builtin={
        "cel": "penstock.filter.cel:CelFilter",
        "event_type": "penstock.filter.event_type:EventTypeFilter",
        "match": "penstock.filter.match:Match",
    },
    groups=("penstock.filters", "datahub_actions.filter.plugins"),
    foreign=("datahub_actions.filter.filter:Filter",),
    adapter=adapters.filter_of,
)
