"""Groups that Lightning's triggers may have left behind, to choose from: its files do not name them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock.config.secret_values import Resolved
from penstock.config.spec import ConnectionSpec
from penstock.config.trigger import GROUP_PREFIX, check_kafka
from penstock.core.errors import PenstockError
from penstock.kafka.admin import ClusterView
from penstock.kafka.client import KafkaClientConfig
from penstock.service.lightning.reading import read_project
from penstock.service.trigger_specs import source_of


def list_groups(file: Path, project: str | None = None, timeout: float = 10.0) -> list[dict[str, Any]]:
    """For each Kafka trigger of a file, the groups of its cluster; those that read its topics come first."""
    found: list[dict[str, Any]] = []
    for workflow in read_project(file, project)[0].workflows:
        for trigger in workflow.triggers:
            row: dict[str, Any] = {"trigger": f"{workflow.name}/{trigger.name}", "groups": [], "reason": None}
            try:
                row["groups"] = _groups(trigger.configuration, timeout)
            except PenstockError as error:
                row["reason"] = error.message
            found.append(row)
    return found


def _groups(written: Any, timeout: float) -> list[dict[str, Any]]:
    config = check_kafka(written).configuration
    if not config.get("hosts") or not config.get("topics"):
        return []
    connection = ConnectionSpec.model_validate(source_of(Resolved(config, frozenset()))["connection"])
    with ClusterView(KafkaClientConfig.of(connection), timeout) as cluster:
        groups = cluster.groups(GROUP_PREFIX)
    rows = [
        {"group": name, "topics": topics, "reads_all": set(config["topics"]) <= set(topics)}
        for name, topics in groups.items()
    ]
    return sorted(rows, key=lambda row: (not row["reads_all"], row["group"]))
