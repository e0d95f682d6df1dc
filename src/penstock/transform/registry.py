"""The table of transforms."""

from __future__ import annotations

from penstock.core.plugin import Transform
from penstock.core.registry import Registry
from penstock.datahub import adapters, imports

imports.install()
transforms: Registry[Transform] = Registry(
    kind="transform",
    base=Transform,  # type: ignore[type-abstract]  # a base to check against, never created
    builtin={
        "__filter": "penstock.transform.legacy_filter:LegacyFilter",
        "drop": "penstock.transform.fields:Drop",
        "keep": "penstock.transform.fields:Keep",
        "map": "penstock.transform.map:Map",
        "python": "penstock.transform.python:Python",
    },
    groups=("penstock.transforms", "datahub_actions.transformer.plugins"),
    foreign=("datahub_actions.transform.transformer:Transformer",),
    adapter=adapters.transform_of,
)
