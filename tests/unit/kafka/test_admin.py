"""Requests to a cluster, with a client library that answers as the test says."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from penstock.config.source import ConnectionSpec
from penstock.kafka import admin
from penstock.kafka.admin import ClusterView
from penstock.kafka.client import KafkaClientConfig


class FormerClient:
    """Remembers where the coordinator was, for as long as it lives."""

    def describe_consumer_groups(self, groups: list[str], **_: Any) -> dict[str, Future[Any]]:
        answer: Future[Any] = Future()
        answer.set_exception(KafkaException(KafkaError(KafkaError.NOT_COORDINATOR)))
        return dict.fromkeys(groups, answer)


class LaterClient:
    def describe_consumer_groups(self, groups: list[str], **_: Any) -> dict[str, Future[Any]]:
        answer: Future[Any] = Future()
        answer.set_result(SimpleNamespace(state=SimpleNamespace(name="STABLE"), partition_assignor="", members=()))
        return dict.fromkeys(groups, answer)


def test_a_coordinator_that_has_moved_is_found_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    clients = [LaterClient(), FormerClient()]
    monkeypatch.setattr(admin._kafka, "AdminClient", lambda _config: clients.pop())
    view = ClusterView(KafkaClientConfig.of(ConnectionSpec(bootstrap="broker:9092")), timeout=5.0)
    assert view.group("orders").state == "stable"
    assert clients == []
