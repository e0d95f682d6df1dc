"""Which clusters callers may name beside public ones."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.config.spec import PipelineSpec
from penstock.core.net.guard import AddressGuard, AddressRefused
from penstock.kafka import probe as probing
from penstock.kafka.probe import probe
from penstock.service.outbound import caller_guard


def spec(bootstrap: str, origin: str | None) -> PipelineSpec:
    config = {"topics": ["t"], "format": "json", "connection": {"bootstrap": bootstrap}}
    source = {"type": "kafka", "config": config}
    made = PipelineSpec.model_validate({"name": "p", "source": source, "action": {"type": "hello_world"}})
    return made.with_origin(origin)


def test_a_cluster_of_a_file_opens_its_ports_and_nothing_else_on_its_machines() -> None:
    guard = caller_guard([], [spec("LocalHost:9092,127.0.0.1:9093", "/etc/penstock/p.yaml")])
    assert guard.addresses("localhost", 9092)
    assert guard.addresses("127.0.0.1", 9093) == ["127.0.0.1"]
    for host, port in (("127.0.0.1", 22), ("127.0.0.1", 9092), ("localhost", None), ("127.0.0.1", None)):
        with pytest.raises(AddressRefused):
            guard.check_host(host, port)


def test_a_cluster_that_a_caller_lets_a_pipeline_or_trigger_use_opens_nothing() -> None:
    """M6: its name may resolve to any address later."""
    guard = caller_guard([], [spec("evil.example:9092", None)])
    assert not guard.brokers
    with pytest.raises(AddressRefused, match=r"evil.example \(10.0.0.5\)"):
        AddressGuard(brokers=guard.brokers, lookup=lambda _: ["10.0.0.5"]).check_host("evil.example", 9092)


class Cluster:
    """Answers the probe with brokers that advertise inner addresses."""

    def __init__(self, *_: Any) -> None: ...

    def topics(self) -> dict[str, int]:
        return {"t": 1}

    def brokers(self) -> list[tuple[str, int]]:
        return [("127.0.0.1", 22), ("169.254.169.254", 80)]


def test_advertised_addresses_are_guarded_also_where_the_cluster_itself_is_trusted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """M6: "the port answers" and "connection refused" would be a scanner of the inside."""
    monkeypatch.setattr(probing, "ClusterView", Cluster)
    monkeypatch.setattr(probing, "connect", lambda *_: None)
    trusted = spec("127.0.0.1:9092", "/etc/penstock/p.yaml")
    found = list(probe(trusted, 1.0, caller_guard([], [trusted])))
    advertised = [finding for finding in found if finding.step == "advertised"]
    assert [(finding.target, finding.ok) for finding in advertised] == [
        ("127.0.0.1:22", False),
        ("169.254.169.254:80", False),
    ]
    assert all("is not a public address" in finding.detail for finding in advertised)
    assert all(finding.ok is None for finding in found if finding.step in ("topic", "group"))
