"""An instance's pipelines come and go, and with them the clients that they share."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.config.settings import Settings
from penstock.core.metrics import Metrics
from penstock.engine.instance import Instance
from penstock.store import Store
from tests.support.driver import spec


@pytest.fixture
def instance(tmp_path: Path) -> Any:
    spark: Any = SimpleNamespace(is_local=True, cores=2, in_flight_log=lambda lane: None, bell=None, died=False)
    with Store.open(f"sqlite:///{tmp_path / 'store.db'}") as store:
        yield Instance(Settings(), store, Metrics(), spark, version="test")


def connection(password: str) -> dict[str, Any]:
    return {"connection": {"bootstrap": "localhost:1", "consumer_config": {"client.rack": password}}}


def test_a_reloaded_pipeline_keeps_the_client_that_it_shares_with_its_predecessor(instance: Instance) -> None:
    first = instance.add(spec())
    second = instance.add(spec())
    assert second.context.cluster is first.context.cluster
    assert list(instance._clusters.values()) == [second.context.cluster]
    assert second.context.cluster._client is not None, "it is still open"


def test_f34_a_client_that_no_pipeline_uses_any_more_is_closed(instance: Instance) -> None:
    first = instance.add(spec(source=connection("a")))
    second = instance.add(spec(source=connection("b")))
    assert list(instance._clusters.values()) == [second.context.cluster]
    assert first.context.cluster._client is None
    instance.remove("p")
    assert instance._clusters == {}
    assert instance._idle_watchers == {}
