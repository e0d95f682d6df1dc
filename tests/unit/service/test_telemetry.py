"""OpenTelemetry collects the same figures, by its own names."""

from __future__ import annotations

import sys

import pytest
from opentelemetry import metrics as api
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from penstock.config.settings import Settings
from penstock.config.signal_settings import OtelSettings
from penstock.core.errors import ConfigError
from penstock.core.metrics import Metrics
from penstock.service.telemetry import offer_metrics
from tests.support.metrics import fed

ON = Settings(otel=OtelSettings(enabled=True))


def collected(metrics: Metrics, monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, tuple[str, ...]], float]:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    monkeypatch.setattr(api, "get_meter", provider.get_meter)
    assert offer_metrics(ON, metrics)
    data = reader.get_metrics_data()
    assert data is not None
    found = {}
    for resource in data.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                for point in metric.data.data_points:
                    labels = tuple(sorted(map(str, (point.attributes or {}).values())))
                    found[metric.name, labels] = point.value  # type: ignore[union-attr]  # nothing else is offered
    provider.shutdown()
    return found


def test_every_kind_of_series_is_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    found = collected(fed(), monkeypatch)
    assert found["penstock.events", ("acted", "p")] == 5
    assert found["penstock.lag", ("0", "p", "t")] == 5
    assert found["penstock.stage.count", ("act", "p")] == 4
    assert found["penstock.stage.sum", ("act", "p")] == pytest.approx(0.008)
    assert found["messaging.client.consumed.messages", ("kafka", "p-group", "poll")] == 8
    assert found["messaging.process.duration.count", ("kafka", "p-group", "process")] == 4


def test_figures_are_read_when_they_are_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = Metrics()
    reader = InMemoryMetricReader()
    monkeypatch.setattr(api, "get_meter", MeterProvider([reader]).get_meter)
    offer_metrics(ON, metrics)
    metrics.add_events("later", read=3, acted=3)
    assert '"later"' in str(reader.get_metrics_data().to_json())  # type: ignore[union-attr]  # there is some


def test_off_unless_asked_for() -> None:
    assert not offer_metrics(Settings(), Metrics())


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.metrics", None)
    with pytest.raises(ConfigError, match="not installed"):
        offer_metrics(ON, Metrics())
