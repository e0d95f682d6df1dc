"""Metrics with a figure in every series, and the catalogue that they make."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from penstock.core.latency import Latencies, Times
from penstock.core.metrics import Metrics
from penstock.core.status import PartitionStatus


def samples(metrics: Metrics) -> dict[tuple[str, tuple[str, ...]], float]:
    families = text_string_to_metric_families(metrics.exposition().decode())
    return {(s.name, tuple(sorted(s.labels.values()))): s.value for family in families for s in family.samples}


def catalogue() -> dict[str, tuple[str, set[str]]]:
    """Kind and labels of every series of Penstock's, by name."""
    found = {}
    for family in text_string_to_metric_families(fed().exposition().decode()):
        if family.name.startswith(("penstock_", "kafka_", "messaging_")) and not family.name.endswith("_created"):
            name = f"{family.name}_total" if family.type == "counter" else family.name
            found[name] = (family.type, {label for s in family.samples for label in s.labels} - {"le"})
    return found


def fed() -> Metrics:
    metrics = Metrics()
    latencies = Latencies()
    latencies.add([0.5, 4.0, 40.0, 400.0])
    times = Times()
    times.add(0.008, 4)
    metrics.begin("p", "p-group")
    metrics.info.labels("1").set(1)
    metrics.add_events("p", read=8, acted=5, filtered=2, failed=1)
    metrics.add_step("p", "filters[0]", passed=6, dropped=2, failed=0)
    metrics.add_times("p", {"act": times, "decode": times}, 0.5)
    metrics.add_registry_calls({"ok": times})
    metrics.observe_store("write", 0.002)
    metrics.add_retries("p", 2)
    for counter in (metrics.breaker_trips, metrics.worker_deaths, metrics.commit_failures):
        counter.labels("p").inc()
    metrics.breaker_open.labels("p").set(1)
    metrics.add_failures("p", {"act": 1})
    metrics.observe_latencies("p", latencies)
    metrics.set_state("p", "running")
    owned = [PartitionStatus(topic="t", partition=n, committed=10, end=15, lag=5) for n in (0, 1)]
    metrics.positions.of = lambda: [("p", owned)]
    metrics.add_early_filtered("p", {"filtered": 3})
    metrics.rebalances.labels("p", "assigned").inc()
    metrics.spark_jobs.labels("window").inc()
    metrics.runs.labels("success").inc()
    metrics.store_errors.labels("settle").inc()
    metrics.window_seconds.observe(1)
    metrics.commit_seconds.labels("p").observe(0.002)
    return metrics
