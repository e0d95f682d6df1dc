"""The table of actions."""

from __future__ import annotations

from typing import Any

from penstock.core.plugin import Action
from penstock.core.registry import Registry

_DATAHUB = "it needs DataHub's own package: install penstock[datahub]"

actions: Registry[Action] = Registry(
    kind="action",
    base=Action,  # type: ignore[type-abstract]  # a base to check against, never created
    builtin={
        "command": "penstock.act.command:Command",
        "file": "penstock.act.file:File",
        "hello_world": "penstock.act.hello_world:HelloWorld",
        "kafka": "penstock.act.kafka:Kafka",
        "python": "penstock.act.python:Python",
        "webhook": "penstock.act.webhook:Webhook",
    },
    groups=("penstock.actions", "datahub_actions.action.plugins"),
    foreign=("datahub_actions.action.action:Action",),
    elsewhere={
        "executor": _DATAHUB,
        "metadata_change_sync": _DATAHUB,
        "tag_propagation": _DATAHUB,
        "term_propagation": _DATAHUB,
        "snowflake_tag_propagation": _DATAHUB,
        "doc_propagation": _DATAHUB,
    },
)


def action_class(type: str, config: dict[str, Any], folder: str | None = None) -> type[Action]:  # noqa: A002 - the configuration's own word
    """The class whose object will act: `type: python` with an action class as its `callable` stands for that class."""
    cls = actions.resolve(type, folder)
    stand_for = getattr(cls, "stands_for", None)
    return (stand_for(config, folder) if stand_for else None) or cls
