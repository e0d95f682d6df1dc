"""The metrics: fed with aggregates, named as documented, forgotten with their pipeline."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from penstock.core.latency import Latencies, Times
from penstock.core.metrics import Metrics
from penstock.core.status import PartitionStatus
from tests.support.metrics import catalogue, fed, samples

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs" / "reference" / "metrics.md"


def test_counts_by_outcome_and_datahubs_names() -> None:
    found = samples(fed())
    assert found["penstock_events_total", ("acted", "p")] == 5
    assert found["penstock_failures_total", ("act", "p")] == 1
    assert found["kafka_messages_total", ("False", "p")] == 7
    assert found["kafka_messages_total", ("True", "p")] == 1
    assert found["kafka_offset", ("0", "p", "t")] == 9
    assert found["penstock_lag", ("1", "p", "t")] == 5
    assert found["kafka_consumer_lag", ("p", "t")] == 10


def test_what_counts_a_pipeline_begins_at_zero() -> None:
    metrics = Metrics()
    metrics.begin("p", "p")
    found = samples(metrics)
    assert found["penstock_read_total", ("p",)] == 0
    assert found["penstock_breaker_open", ("p",)] == 0


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
    metrics.positions.of = list
    metrics.forget("p")
    assert not [labels for _, labels in samples(metrics) if "p" in labels]


def test_a_partition_that_went_elsewhere_leaves_no_figure_behind() -> None:
    """Nor does the lag of its topic stay what it was."""
    metrics = fed()
    metrics.positions.of = lambda: [("p", [PartitionStatus(topic="t", partition=1, committed=10, end=15, lag=5)])]
    found = samples(metrics)
    assert ("penstock_lag", ("0", "p", "t")) not in found
    assert ("kafka_offset", ("0", "p", "t")) not in found
    assert found["kafka_consumer_lag", ("p", "t")] == 5
    metrics.positions.of = lambda: [("p", [])]
    assert not [name for name, _ in samples(metrics) if "lag" in name or name == "kafka_offset"]


def test_datahubs_lag_can_be_left_out() -> None:
    metrics = Metrics()
    metrics.positions.with_kafka_lag = False
    owned = [PartitionStatus(topic="t", partition=0, committed=3, end=5, lag=2)]
    metrics.positions.of = lambda: [("p", owned)]
    found = samples(metrics)
    assert found["penstock_lag", ("0", "p", "t")] == 2
    assert not [name for name, _ in found if name == "kafka_consumer_lag"]


def test_stages_and_registry_calls_are_histograms_of_seconds() -> None:
    found = samples(fed())
    assert found["penstock_stage_seconds_sum", ("act", "p")] == pytest.approx(0.008)
    assert found["penstock_stage_seconds_count", ("act", "p")] == 4
    below = {labels[0]: value for (name, labels), value in found.items() if name == "penstock_stage_seconds_bucket"}
    assert (below["0.0008078"], below["0.002465"]) == (0, 4)
    assert found["penstock_registry_seconds_count", ("ok",)] == 4
    assert found["penstock_store_seconds_count", ("write",)] == 1
    assert found["penstock_step_events_total", ("dropped", "filters[0]", "p")] == 2


def test_opentelemetrys_names_say_the_same() -> None:
    found = samples(fed())
    assert found["messaging_client_consumed_messages_total", ("kafka", "p-group", "poll")] == 8
    assert found["messaging_process_duration_seconds_count", ("kafka", "p-group", "process")] == 4
    assert found["messaging_process_duration_seconds_sum", ("kafka", "p-group", "process")] == pytest.approx(0.008)
    assert found["messaging_client_operation_duration_seconds_count", ("commit", "kafka", "p-group")] == 1
    assert found["messaging_client_operation_duration_seconds_bucket", ("+Inf", "commit", "kafka", "p-group")] == 1


def test_the_docs_list_every_series_and_no_other() -> None:
    documented = {
        name: (kind, set(re.findall(r"`(\w+)`", labels)))
        for name, kind, labels in re.findall(r"^\| `(\w+)` \| (\w+) \| ([^|]*)\|", DOCS.read_text(), re.MULTILINE)
    }
    assert documented == catalogue()


def test_a_figure_of_every_series_costs_little() -> None:
    """Three hundred pipelines are scraped in a fraction of a second."""
    metrics = Metrics()
    times = Times()
    times.add(0.008, 4)
    for n in range(300):
        metrics.add_events(f"p{n}", read=8, acted=8)
        metrics.add_times(f"p{n}", {"decode": times, "filter": times, "act": times}, 0.1)
        metrics.set_state(f"p{n}", "running")
    began = time.process_time()
    metrics.exposition()
    assert time.process_time() - began < 2.0
