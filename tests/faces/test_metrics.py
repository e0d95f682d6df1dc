"""The metrics: fed with aggregates, named as documented, forgotten with their pipeline."""

from __future__ import annotations

import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from penstock.core.latency import Latencies
from penstock.core.metrics import Metrics
from penstock.core.status import PartitionStatus

DOCS = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"


def samples(metrics: Metrics) -> dict[tuple[str, tuple[str, ...]], float]:
    families = text_string_to_metric_families(metrics.exposition().decode())
    return {(s.name, tuple(sorted(s.labels.values()))): s.value for family in families for s in family.samples}


def fed() -> Metrics:
    metrics = Metrics()
    latencies = Latencies()
    latencies.add([0.5, 4.0, 40.0, 400.0])
    metrics.add_events("p", acted=5, filtered=2, failed=1)
    metrics.add_failures("p", {"act": 1})
    metrics.observe_latencies("p", latencies)
    metrics.set_state("p", "running")
    metrics.set_positions("p", [PartitionStatus(topic="t", partition=n, committed=10, end=15, lag=5) for n in (0, 1)])
    metrics.add_early_filtered("p", {"filtered": 3})
    metrics.rebalances.labels("p", "assigned").inc()
    metrics.spark_jobs.labels("window").inc()
    metrics.store_errors.labels("settle").inc()
    metrics.window_seconds.observe(1)
    metrics.commit_seconds.observe(0.002)
    return metrics


def test_counts_by_outcome_and_datahubs_names() -> None:
    found = samples(fed())
    assert found["penstock_events_total", ("acted", "p")] == 5
    assert found["penstock_failures_total", ("act", "p")] == 1
    assert found["kafka_messages_total", ("False", "p")] == 7
    assert found["kafka_messages_total", ("True", "p")] == 1
    assert found["kafka_offset", ("0", "p", "t")] == 9
    assert found["penstock_lag", ("1", "p", "t")] == 5
    assert found["kafka_consumer_lag", ("p", "t")] == 10


def test_state_is_one_of_all() -> None:
    metrics = fed()
    metrics.set_state("p", "waiting")
    found = samples(metrics)
    states = {labels: value for (name, labels), value in found.items() if name == "penstock_pipeline_state"}
    assert states["p", "waiting"] == 1
    assert sum(states.values()) == 1


def test_latency_is_a_proper_histogram() -> None:
    metrics = fed()
    more = Latencies()
    more.add([4.0])
    metrics.observe_latencies("p", more)
    found = samples(metrics)
    buckets = [
        (float(labels[0]), value)
        for (name, labels), value in found.items()
        if name == "penstock_latency_seconds_bucket"
    ]
    buckets.sort()
    assert buckets[0] == (0.001, 1)
    assert [count for _, count in buckets] == sorted(count for _, count in buckets)
    assert buckets[-1] == (float("inf"), 5)
    assert found["penstock_latency_seconds_count", ("p",)] == 5
    total = found["penstock_latency_seconds_sum", ("p",)]
    assert 0.449 <= total <= 0.449 * 1.3


def test_a_pipeline_that_is_gone_leaves_nothing() -> None:
    metrics = fed()
    metrics.drop_partition("p", "t", 0)
    assert ("penstock_lag", ("0", "p", "t")) not in samples(metrics)
    metrics.forget("p")
    assert not [labels for _, labels in samples(metrics) if "p" in labels]


def test_datahubs_lag_can_be_left_out() -> None:
    metrics = Metrics()
    metrics.with_kafka_lag = False
    metrics.set_positions("p", [PartitionStatus(topic="t", partition=0, committed=3, end=5, lag=2)])
    found = samples(metrics)
    assert found["penstock_lag", ("0", "p", "t")] == 2
    assert not [name for name, _ in found if name == "kafka_consumer_lag"]


def test_the_docs_list_every_series_and_no_other() -> None:
    exported = {family.name for family in text_string_to_metric_families(fed().exposition().decode())}
    exported = {name for name in exported if name.startswith(("penstock_", "kafka_")) and not name.endswith("_created")}
    documented = set(re.findall(r"^\| `(\w+)` \|", DOCS.read_text(), re.MULTILINE))
    assert {name.removesuffix("_total") for name in documented} == exported
