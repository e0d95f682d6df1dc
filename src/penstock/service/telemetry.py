"""OpenTelemetry: offers the metrics to the meter provider of the process, whoever has set one up."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from prometheus_client.metrics_core import Metric

from penstock import __version__
from penstock.config.settings import Settings
from penstock.core.errors import ConfigError
from penstock.core.metrics import Metrics

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Observation

_PREFIXES = ("penstock_", "messaging_")
_SUMS = ("_sum", "_count")
"""What is offered of a histogram: its aggregates come too late to be counted as single values."""


def offer_metrics(settings: Settings, metrics: Metrics) -> bool:
    """Offer every series of the catalogue, if the settings ask for it; they are read when somebody collects them."""
    if not settings.otel.enabled:
        return False
    try:
        from opentelemetry.metrics import get_meter  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ConfigError(
            "otel.enabled is set, but OpenTelemetry's API is not installed", hint="pip install 'penstock[otel]'"
        ) from error
    meter = get_meter("penstock", __version__)
    for family in list(metrics.registry.collect()):
        if not family.name.startswith(_PREFIXES):
            continue
        name, unit = _named(family)
        read = _reader(metrics, family.name)
        if family.type == "gauge":
            meter.create_observable_gauge(name, [read("")], unit, family.documentation)
        elif family.type == "counter":
            meter.create_observable_counter(name, [read("_total")], unit, family.documentation)
        else:
            for suffix in _SUMS:
                each = f"{name}.{suffix.removeprefix('_')}"
                meter.create_observable_counter(each, [read(suffix)], unit if suffix == "_sum" else "1")
    return True


def _named(family: Metric) -> tuple[str, str]:
    """OpenTelemetry's name has dots where it is one of its own conventions, and the unit apart."""
    name, unit = (family.name.removesuffix("_seconds"), "s") if family.name.endswith("_seconds") else (family.name, "1")
    if name.startswith("messaging_"):
        return name.replace("_", "."), unit
    return name.replace("_", ".", 1), unit


def _reader(metrics: Metrics, family: str) -> Callable[[str], Callable[[CallbackOptions], Iterable[Observation]]]:
    def of(suffix: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def read(_options: CallbackOptions) -> Iterable[Observation]:
            from opentelemetry.metrics import Observation  # noqa: PLC0415 - an extra

            samples = metrics.registry.restricted_registry([f"{family}{suffix}"]).collect()
            for sample in (sample for found in samples for sample in found.samples):
                labels = {
                    name.replace("_", ".") if name.startswith("messaging_") else name: value
                    for name, value in sample.labels.items()
                }
                yield Observation(sample.value, labels)

        return read

    return of
