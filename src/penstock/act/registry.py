"""The table of actions."""

from __future__ import annotations

from typing import Any

from penstock.config.spec import PipelineSpec
from penstock.core.errors import PluginError
from penstock.core.plugin import Action
from penstock.core.plugin_config import check_config, parse_config
from penstock.core.registry import Registry
from penstock.datahub import adapters, imports

_DATAHUB = "it needs DataHub's own package: install penstock[datahub]"

imports.install()
actions: Registry[Action] = Registry(
    kind="action",
    base=Action,  # type: ignore[type-abstract]  # a base to check against, never created
    builtin={
        "command": "penstock.act.command:Command",
        "file": "penstock.act.file:File",
        "hello_world": "penstock.act.hello_world:HelloWorld",
        "kafka": "penstock.act.kafka:Kafka",
        "notify": "penstock.act.notify:Notify",
        "processor": "penstock.act.processor:ProcessorAction",
        "python": "penstock.act.python:Python",
        "table": "penstock.act.table:Table",
        "slack": "penstock.act.slack:Slack",
        "teams": "penstock.act.teams:Teams",
        "webhook": "penstock.act.webhook:Webhook",
        "work_order": "penstock.act.work_order:WorkOrder",
    },
    groups=("penstock.actions", "datahub_actions.action.plugins"),
    foreign=("datahub_actions.action.action:Action",),
    adapter=adapters.action_of,
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
    return _standing_for(type, config, folder)[0]


def has_cursor(spec: PipelineSpec) -> bool:
    """Whether the pipeline's events take effect exactly once, in a database that knows where they end."""
    try:
        cls = action_class(spec.action.type, spec.action.config, spec.folder)
    except PluginError:
        return False  # what is wrong with it is said where it is to run
    return bool(getattr(cls, "transactional", False))


def check_action(type: str, config: dict[str, Any], folder: str | None = None) -> None:  # noqa: A002 - as above
    """Refuse what creating the action would refuse, without creating it."""
    check_config(actions.resolve(type, folder), config)
    cls, own = _standing_for(type, config, folder)
    check_config(cls, own)


def _standing_for(name: str, config: dict[str, Any], folder: str | None) -> tuple[type[Action], dict[str, Any]]:
    cls = actions.resolve(name, folder)
    if name == "python":
        from penstock.act.python import PythonConfig, named_class  # noqa: PLC0415 - an action's module loads when it is named

        parsed = parse_config(PythonConfig, config, "python")
        if found := named_class(parsed.callable, folder):
            return found, parsed.config
    return cls, config
