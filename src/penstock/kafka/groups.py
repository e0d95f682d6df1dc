"""Which consumer groups a cluster has."""

from __future__ import annotations

from typing import Any

from confluent_kafka import KafkaException, admin

from penstock.kafka.admin import ClusterView
from penstock.kafka.client import KafkaClientConfig
from penstock.kafka.errors import BrokerUnavailable, translate

_kafka: Any = admin  # its names are re-exported without being declared


def groups_of(config: KafkaClientConfig, prefix: str, timeout: float = 10.0) -> dict[str, list[str]]:
    """Groups whose names begin so, and the topics that each has committed offsets of."""
    doing = f"asking {config.bootstrap} for its groups"
    try:
        found = _kafka.AdminClient(config.admin()).list_consumer_groups(request_timeout=timeout).result(timeout + 1)
    except KafkaException as error:
        raise translate(error, doing) from error
    except TimeoutError as error:
        raise BrokerUnavailable(f"{doing}: no answer within {timeout:g} s") from error
    view = ClusterView(config, timeout)
    names = sorted(group.group_id for group in found.valid if group.group_id.startswith(prefix))
    return {name: sorted({topic for topic, _ in view.committed_anywhere(name)}) for name in names}
