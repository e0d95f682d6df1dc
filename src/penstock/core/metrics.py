"""The catalogue of metrics: every series that Penstock exports, fed with aggregates, never per event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar, get_args

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)

from penstock.core.latency import Latencies, Times
from penstock.core.metric_families import LatencyCollector, OpenTelemetryNames, PositionsCollector, TimesCollector
from penstock.core.status import State

_WINDOW_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 5.0, 10.0, 30.0)
_CALL_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)

_Metric = TypeVar("_Metric", Counter, Gauge, Histogram)


class Metrics:
    """All series of one process. Methods take what a window, commit or rebalance adds up to."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self._groups: dict[str, str] = {}
        self._of_pipelines: list[tuple[Counter | Gauge | Histogram, str]] = []
        """What has series of its own for each pipeline, and the label that names it."""
        self._make_pipelines()
        self._make_instance()
        self._make_datahub()
        self.positions = PositionsCollector()
        """Lag and offsets, by our names and by DataHub's."""
        self.registry.register(self.positions)
        self.registry.register(
            OpenTelemetryNames(
                self.read, self.stage_seconds, self.commit_seconds, lambda name: self._groups.get(name, name)
            )
        )

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return self._kept(Counter(name, text, labels, registry=self.registry), labels)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return self._kept(Gauge(name, text, labels, registry=self.registry), labels)

    def _histogram(self, name: str, text: str, *labels: str, buckets: Sequence[float]) -> Histogram:
        return self._kept(Histogram(name, text, labels, registry=self.registry, buckets=buckets), labels)

    def _kept(self, metric: _Metric, labels: tuple[str, ...]) -> _Metric:
        self._of_pipelines += [(metric, name) for name in labels if name in ("pipeline", "pipeline_name")]
        return metric

    def _make_pipelines(self) -> None:
        p = "pipeline"
        self.read = self._counter("penstock_read_total", "Records read.", p)
        self.events = self._counter("penstock_events_total", "Events by outcome.", p, "outcome")
        self.steps = self._counter("penstock_step_events_total", "Events by filter or transform.", p, "step", "outcome")
        self.failures = self._counter("penstock_failures_total", "Events that failed, by stage.", p, "stage")
        self.retries = self._counter("penstock_retries_total", "Attempts to be repeated.", p)
        self.latency = LatencyCollector(
            "penstock_latency_seconds", "From the record's timestamp to the end of its action.", [p]
        )
        self.registry.register(self.latency)
        self.stage_seconds = TimesCollector("penstock_stage_seconds", "Time of an event in a stage.", [p, "stage"])
        self.registry.register(self.stage_seconds)
        self.busy_seconds = self._counter("penstock_busy_seconds_total", "Time spent on events.", p)
        self.last_event = self._gauge("penstock_last_event_time_seconds", "When events were last read.", p)
        self.commit_seconds = self._histogram(
            "penstock_commit_seconds", "Length of offset commits.", p, buckets=_CALL_BUCKETS
        )
        self.commit_failures = self._counter(
            "penstock_commit_failures_total", "Commits that the broker did not take.", p
        )
        self.rebalances = self._counter("penstock_rebalances_total", "Changes of assignment.", p, "kind")
        self.pipeline_state = self._gauge("penstock_pipeline_state", "1 for the state a pipeline is in.", p, "state")
        self.breaker_trips = self._counter("penstock_breaker_trips_total", "Pauses by the breaker.", p)
        self.breaker_open = self._gauge("penstock_breaker_open", "1 while the breaker holds the pipeline.", p)
        self.worker_deaths = self._counter("penstock_worker_deaths_total", "Worker processes that died.", p)

    def _make_instance(self) -> None:
        self.info = self._gauge("penstock_info", "1; the version is a label.", "version")
        self.window_seconds = self._histogram("penstock_window_seconds", "Length of windows.", buckets=_WINDOW_BUCKETS)
        self.spark_jobs = self._counter("penstock_spark_jobs_total", "Spark jobs by kind.", "kind")
        self.runs = self._counter("penstock_runs_total", "Runs of workflows that ended, by state.", "state")
        self.store_seconds = self._histogram(
            "penstock_store_seconds", "Length of the store's transactions.", "operation", buckets=_CALL_BUCKETS
        )
        self.store_errors = self._counter("penstock_store_errors_total", "Failed calls of the store.", "operation")
        self.registry_seconds = TimesCollector("penstock_registry_seconds", "Calls of schema registries.", ["outcome"])
        self.registry.register(self.registry_seconds)
        self.config_problems = self._gauge("penstock_config_problems", "Files and pipelines that cannot be used.")

    def _make_datahub(self) -> None:
        """DataHub Actions' names, so that boards and alerts written for it go on working."""
        self.kafka_messages = self._counter("kafka_messages_total", "Messages by success.", "pipeline_name", "error")
        self.kafka_mcl_early_filter = self._counter(
            "kafka_mcl_early_filter_total", "Change logs answered before their full decode.", "pipeline_name", "result"
        )

    def add_events(
        self, pipeline: str, *, read: int = 0, acted: int = 0, filtered: int = 0, unrouted: int = 0, failed: int = 0
    ) -> None:
        """Counts of one unit."""
        if read:
            self.read.labels(pipeline).inc(read)
            self.last_event.labels(pipeline).set_to_current_time()
        outcomes = {"acted": acted, "filtered": filtered, "unrouted": unrouted, "failed": failed}
        for outcome, count in outcomes.items():
            if count:
                self.events.labels(pipeline, outcome).inc(count)
        if acted or filtered or unrouted:
            self.kafka_messages.labels(pipeline, "False").inc(acted + filtered + unrouted)
        if failed:
            self.kafka_messages.labels(pipeline, "True").inc(failed)

    def add_step(self, pipeline: str, step: str, *, passed: int, dropped: int, failed: int) -> None:
        """What one filter or transform did in one unit."""
        for outcome, count in {"passed": passed, "dropped": dropped, "failed": failed}.items():
            if count:
                self.steps.labels(pipeline, step, outcome).inc(count)

    def add_failures(self, pipeline: str, by_stage: Mapping[str, int]) -> None:
        for stage, count in by_stage.items():
            self.failures.labels(pipeline, stage).inc(count)

    def add_retries(self, pipeline: str, count: int) -> None:
        if count:
            self.retries.labels(pipeline).inc(count)

    def add_times(self, pipeline: str, by_stage: Mapping[str, Times], busy: float) -> None:
        """How long one unit took, by stage and in all."""
        for stage, times in by_stage.items():
            self.stage_seconds.add((pipeline, stage), times)
        if busy > 0:
            self.busy_seconds.labels(pipeline).inc(busy)

    def add_registry_calls(self, by_outcome: Mapping[str, Times]) -> None:
        for outcome, times in by_outcome.items():
            self.registry_seconds.add((outcome,), times)

    def observe_latencies(self, pipeline: str, latencies: Latencies) -> None:
        """The latencies of one unit."""
        self.latency.add((pipeline,), latencies)

    def observe_store(self, operation: str, seconds: float) -> None:
        """One transaction: `read` or `write`."""
        self.store_seconds.labels(operation).observe(seconds)

    def begin(self, pipeline: str, group: str) -> None:
        """A pipeline starts: what counts it begins at zero, so that a first step shows as one.

        By its consumer group OpenTelemetry's names tell it apart.
        """
        self._groups[pipeline] = group
        counters = (self.read, self.retries, self.commit_failures, self.breaker_trips, self.worker_deaths)
        for metric in (*counters, self.breaker_open):
            metric.labels(pipeline)
        for outcome in ("acted", "filtered", "failed"):
            self.events.labels(pipeline, outcome)
        for kind in ("assigned", "revoked", "lost"):
            self.rebalances.labels(pipeline, kind)

    def set_state(self, pipeline: str, state: State) -> None:
        for each in get_args(State):
            self.pipeline_state.labels(pipeline, each).set(1 if each == state else 0)

    def add_early_filtered(self, pipeline: str, by_result: Mapping[str, int]) -> None:
        for result, count in by_result.items():
            self.kafka_mcl_early_filter.labels(pipeline, result).inc(count)

    def forget(self, pipeline: str) -> None:
        """Drop every series of a pipeline that is gone."""
        self._groups.pop(pipeline, None)
        self.latency.forget(pipeline)
        self.stage_seconds.forget(pipeline)
        for metric, label in self._of_pipelines:
            metric.remove_by_labels({label: pipeline})

    def exposition(self) -> bytes:
        """Everything in Prometheus' text format."""
        return generate_latest(self.registry)


METRICS = Metrics()
"""The series of this process; a second `Metrics` is for tests."""
