"""Families of metrics that the Prometheus client cannot keep itself: histograms fed with whole aggregates, and the
names by which OpenTelemetry knows what Penstock counts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate

from prometheus_client import Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from penstock.core.latency import Latencies, Times, upper_bound
from penstock.core.status import PartitionStatus

_OF_LATENCIES = range(0, 66, 3)
"""Every third of `Latencies`' buckets: bounds from 1 ms to 18 minutes, each about twice the one before."""
_OF_TIMES = range(0, 86, 5)
"""Every fifth bucket: bounds from 1 µs to 3 minutes, each about three times the one before."""

Labels = tuple[str, ...]


class LatencyCollector(Collector):
    """A histogram fed with whole `Latencies`; the library's own can only be fed one value at a time."""

    def __init__(self, name: str, text: str, labels: Sequence[str]) -> None:
        self._name, self._text, self._labels = name, text, labels
        self._lock = threading.Lock()
        self._series: dict[Labels, Latencies] = {}

    def add(self, labels: Labels, latencies: Latencies) -> None:
        with self._lock:
            self._series.setdefault(labels, Latencies()).merge(latencies)

    def forget(self, pipeline: str) -> None:
        with self._lock:
            self._series.pop((pipeline,), None)

    def describe(self) -> Iterable[HistogramMetricFamily]:
        yield HistogramMetricFamily(self._name, self._text, labels=self._labels)

    def collect(self) -> Iterable[HistogramMetricFamily]:
        family = HistogramMetricFamily(self._name, self._text, labels=self._labels)
        with self._lock:
            for labels, latencies in self._series.items():
                # A bucket's values are at most a quarter apart: its upper bound stands for each of them.
                total = sum(upper_bound(index) * count for index, count in enumerate(latencies.counts) if count) / 1000
                family.add_metric(labels, _buckets(latencies, _OF_LATENCIES, 1000), sum_value=total)
        yield family


class TimesCollector(Collector):
    """A histogram fed with whole `Times`; its first label is the pipeline, where it has one."""

    def __init__(self, name: str, text: str, labels: Sequence[str]) -> None:
        self._name, self._text, self._labels = name, text, labels
        self._lock = threading.Lock()
        self._series: dict[Labels, Times] = {}

    def add(self, labels: Labels, times: Times) -> None:
        with self._lock:
            self._series.setdefault(labels, Times()).merge(times)

    def forget(self, pipeline: str) -> None:
        with self._lock:
            self._series = {labels: times for labels, times in self._series.items() if labels[0] != pipeline}

    def samples(self) -> list[tuple[Labels, list[tuple[str, float]], float]]:
        """Labels, buckets and sum of every series."""
        with self._lock:
            return [
                (labels, _buckets(times.micros, _OF_TIMES, 1_000_000), times.seconds)
                for labels, times in self._series.items()
            ]

    def describe(self) -> Iterable[HistogramMetricFamily]:
        yield HistogramMetricFamily(self._name, self._text, labels=self._labels)

    def collect(self) -> Iterable[HistogramMetricFamily]:
        family = HistogramMetricFamily(self._name, self._text, labels=self._labels)
        for labels, buckets, total in self.samples():
            family.add_metric(labels, buckets, sum_value=total)
        yield family


class PositionsCollector(Collector):
    """Where pipelines are in their partitions, asked for when somebody collects it: a figure that is kept would be that
    of a moment ago, or of a partition that has gone to another instance."""

    def __init__(self) -> None:
        self.of: Callable[[], Iterable[tuple[str, Sequence[PartitionStatus]]]] = lambda: ()
        """Pipelines with the partitions that this instance owns."""
        self.with_kafka_lag = True
        """False: `kafka_consumer_lag`, which DataHub can switch off, is left out."""

    def describe(self) -> Iterable[GaugeMetricFamily]:
        return self._families()

    @staticmethod
    def _families() -> tuple[GaugeMetricFamily, GaugeMetricFamily, GaugeMetricFamily]:
        return (
            GaugeMetricFamily("penstock_lag", "Records not committed yet.", labels=["pipeline", "topic", "partition"]),
            GaugeMetricFamily("kafka_offset", "Last offset seen.", labels=["topic", "partition", "pipeline_name"]),
            GaugeMetricFamily(
                "kafka_consumer_lag", "Lag over all partitions of a topic.", labels=["topic", "pipeline_name"]
            ),
        )

    def collect(self) -> Iterable[GaugeMetricFamily]:
        lags, offsets, by_topic = self._families()
        for pipeline, partitions in self.of():
            sums: dict[str, int] = {}
            for p in partitions:
                if p.committed is not None and p.committed > 0:
                    offsets.add_metric([p.topic, str(p.partition), pipeline], p.committed - 1)
                if p.lag is not None:
                    lags.add_metric([pipeline, p.topic, str(p.partition)], p.lag)
                    sums[p.topic] = sums.get(p.topic, 0) + p.lag
            for topic, lag in sums.items():
                by_topic.add_metric([topic, pipeline], lag)
        return (lags, offsets, by_topic) if self.with_kafka_lag else (lags, offsets)


def _buckets(latencies: Latencies, exported: Iterable[int], per_second: int) -> list[tuple[str, float]]:
    running = list(accumulate(latencies.counts))
    buckets = [(f"{upper_bound(index) / per_second:.4g}", float(running[index])) for index in exported]
    return [*buckets, ("+Inf", float(running[-1]))]


class OpenTelemetryNames(Collector):
    """The same figures by the names of OpenTelemetry's conventions for messaging clients, as Prometheus writes them.

    They are made when they are asked for: nothing is counted twice.
    """

    def __init__(
        self, read: Counter, stages: TimesCollector, commits: Histogram, group_of: Callable[[str], str]
    ) -> None:
        self._read, self._stages, self._commits, self._group_of = read, stages, commits, group_of

    def describe(self) -> Iterable[CounterMetricFamily | HistogramMetricFamily]:
        return self._families()

    def _families(self) -> tuple[CounterMetricFamily, HistogramMetricFamily, HistogramMetricFamily]:
        names = ["messaging_system", "messaging_operation_name", "messaging_consumer_group_name"]
        return (
            CounterMetricFamily(
                "messaging_client_consumed_messages", "Messages delivered to the application.", labels=names
            ),
            HistogramMetricFamily(
                "messaging_process_duration_seconds", "Duration of processing operation.", labels=names
            ),
            HistogramMetricFamily(
                "messaging_client_operation_duration_seconds",
                "Duration of messaging operation initiated by a client.",
                labels=names,
            ),
        )

    def collect(self) -> Iterable[CounterMetricFamily | HistogramMetricFamily]:
        consumed, process, operation = self._families()
        for labels, value in _samples(self._read, "_total"):
            consumed.add_metric(self._labels("poll", labels["pipeline"]), value)
        for (pipeline, stage), buckets, total in self._stages.samples():
            if stage in ("act", "write"):
                process.add_metric(self._labels("process", pipeline), buckets, sum_value=total)
        for pipeline, buckets, total in _histograms(self._commits):
            operation.add_metric(self._labels("commit", pipeline), buckets, sum_value=total)
        return consumed, process, operation

    def _labels(self, operation: str, pipeline: str) -> list[str]:
        return ["kafka", operation, self._group_of(pipeline)]


def _samples(metric: Counter | Histogram, suffix: str) -> list[tuple[dict[str, str], float]]:
    return [(s.labels, s.value) for family in metric.collect() for s in family.samples if s.name.endswith(suffix)]


def _histograms(metric: Histogram) -> Iterable[tuple[str, list[tuple[str, float]], float]]:
    buckets: dict[str, list[tuple[str, float]]] = {}
    for labels, value in _samples(metric, "_bucket"):
        buckets.setdefault(labels["pipeline"], []).append((labels["le"], value))
    for labels, total in _samples(metric, "_sum"):
        yield labels["pipeline"], buckets[labels["pipeline"]], total
