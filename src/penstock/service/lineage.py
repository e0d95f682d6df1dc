"""OpenLineage: tells another system which pipelines run, what they read and write, and how they end."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import structlog

from penstock import __version__
from penstock.config.settings import Settings
from penstock.config.signal_settings import LineageSettings
from penstock.core.errors import ConfigError
from penstock.engine.pipelines.runner import PipelineRunner
from penstock.service.lineage_names import inputs, outputs

if TYPE_CHECKING:
    from openlineage.client.event_v2 import RunEvent

log = structlog.get_logger("penstock.lineage")

_LOOK_EVERY = 1.0
_TRY_AGAIN = 30.0
"""Seconds after which a receiver that was away is tried again."""
_PENDING = 1_000
"""Events kept while the receiver is away; the oldest go first, for a pipeline that runs is reported again."""
_LAST_WORDS = 5.0
"""Seconds that a stop waits for the last events to be taken; a receiver that is slow must not hold it up."""
_PRODUCER = f"penstock/{__version__}"
_ENDS = {"failed": "FAIL", "stopped": "COMPLETE"}


@dataclass(slots=True)
class _Run:
    """One life of a pipeline on this instance."""

    id: str
    flow: PipelineRunner
    read_before: int
    acted_before: int
    said_at: float
    said: int = 0
    """Records that the last event told of."""


def lineage_of(settings: Settings, flows: Callable[[], Sequence[PipelineRunner]]) -> Lineage | None:
    """The reporter that the settings ask for, if they do."""
    if settings.lineage.url is None:
        return None
    return Lineage(settings.lineage, flows, sender(settings.lineage))


def sender(settings: LineageSettings) -> Callable[[RunEvent], None]:
    """Sends one event, or raises."""
    try:
        from openlineage.client.transport.http import (  # noqa: PLC0415 - an extra
            ApiKeyTokenProvider,
            HttpConfig,
            HttpTransport,
        )
    except ImportError as error:
        raise ConfigError(
            "lineage.url is set, but OpenLineage's client is not installed",
            hint="pip install 'penstock[openlineage]'",
        ) from error
    # Without a slash at its end, the last part of the address would be replaced by the endpoint.
    url = f"{str(settings.url).rstrip('/')}/"
    config = HttpConfig(url=url, endpoint=settings.endpoint, timeout=5.0, retry={"total": 1})
    if settings.api_key is not None:
        config.auth = ApiKeyTokenProvider({"apiKey": settings.api_key.reveal()})
    transport = HttpTransport(config)

    def send(event: RunEvent) -> None:
        transport.emit(event).raise_for_status()

    return send


class Lineage(threading.Thread):
    """Looks at the pipelines and tells of what has changed. A receiver that is away delays nobody."""

    def __init__(
        self, settings: LineageSettings, flows: Callable[[], Sequence[PipelineRunner]], send: Callable[[RunEvent], None]
    ) -> None:
        super().__init__(name="lineage", daemon=True)
        self._settings, self._flows, self._send = settings, flows, send
        self._runs: dict[str, _Run] = {}
        self._known: set[str] = set()
        """Names of pipelines that were looked at."""
        self._pending: deque[RunEvent] = deque(maxlen=_PENDING)
        self._try_at = 0.0
        self._until = math.inf
        """Nothing is sent afterwards."""
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(_LOOK_EVERY):
            try:
                self.look()
                self._flush()
            except Exception:
                log.exception("lineage failed; it goes on")
        self._end_all()

    def stop(self) -> None:
        """Tell of the ends; call it when the pipelines have stopped."""
        self._until = time.monotonic() + _LAST_WORDS
        self._over.set()
        if self.ident is None:
            self._end_all()
        elif self.is_alive():
            # One thread sends: two would send, and take, the same event twice.
            self.join(_LAST_WORDS)
        if self._pending:
            log.warning("lineage was not sent in time", events=len(self._pending))

    def _end_all(self) -> None:
        self.look()
        for run in list(self._runs.values()):
            self._end(run, "COMPLETE")
        self._flush()

    def look(self) -> None:
        """Compare once."""
        flows = {flow.name: flow for flow in self._flows()}
        for name, run in list(self._runs.items()):
            flow = run.flow
            if flows.get(name) is not flow or flow.state in _ENDS:
                self._end(run, _ENDS.get(flow.state, "COMPLETE"))
            elif time.monotonic() >= run.said_at + self._settings.every and self._read(run) > run.said:
                self._tell(run, "RUNNING")
        for name, flow in flows.items():
            counts = flow.stats.counts
            if name not in self._known and flow.state == "failed" and counts.read:
                # It began and failed between two looks.
                self._end(self._begin(flow, 0, 0), "FAIL")
            elif name not in self._runs and flow.state not in _ENDS:
                self._begin(flow, counts.read, counts.acted)
        self._known |= flows.keys()

    def _begin(self, flow: PipelineRunner, read: int, acted: int) -> _Run:
        self._runs[flow.name] = run = _Run(_new_id(), flow, read, acted, time.monotonic())
        self._tell(run, "START")
        return run

    def _end(self, run: _Run, kind: str) -> None:
        self._tell(run, kind)
        del self._runs[run.flow.name]

    @staticmethod
    def _read(run: _Run) -> int:
        return run.flow.stats.counts.read - run.read_before

    def _tell(self, run: _Run, kind: str) -> None:
        run.said_at, run.said = time.monotonic(), self._read(run)
        self._pending.append(self._event(run, kind))

    def _flush(self) -> None:
        while self._pending and self._try_at <= time.monotonic() < self._until:
            try:
                self._send(self._pending[0])
            except Exception as error:  # noqa: BLE001 - whatever a client raises, the receiver did not take it
                log.warning("lineage cannot be sent; it is tried again", reason=str(error)[:300])
                self._try_at = time.monotonic() + _TRY_AGAIN
            else:
                self._pending.popleft()

    def _event(self, run: _Run, kind: str) -> RunEvent:
        from openlineage.client.event_v2 import (  # noqa: PLC0415 - an extra
            InputDataset,
            Job,
            OutputDataset,
            Run,
            RunEvent,
            RunState,
        )
        from openlineage.client.facet_v2 import (  # noqa: PLC0415 - an extra
            error_message_run,
            input_statistics_input_dataset,
            job_type_job,
            output_statistics_output_dataset,
            processing_engine_run,
        )

        flow = run.flow
        read, acted = run.said, flow.stats.counts.acted - run.acted_before
        owned = [topic for topic, _ in flow.partitions.owned()]
        about: dict[str, Any] = {
            "processing_engine": processing_engine_run.ProcessingEngineRunFacet(__version__, "penstock")
        }
        if kind == "FAIL":
            about["errorMessage"] = error_message_run.ErrorMessageRunFacet(flow.reason or "failed", "python")
        got = input_statistics_input_dataset.InputStatisticsInputDatasetFacet(rowCount=read)
        put = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(rowCount=acted)
        sources = inputs(flow.spec, owned or flow.spec.source.config.topics or ())
        one = len(sources) == 1
        return RunEvent(
            eventType=RunState[kind],
            eventTime=datetime.now(UTC).isoformat(),
            producer=_PRODUCER,
            run=Run(run.id, facets=about),
            job=Job(
                self._settings.namespace,
                flow.name,
                facets={"jobType": job_type_job.JobTypeJobFacet("STREAMING", "PENSTOCK", "PIPELINE")},
            ),
            # What was read is known in all, not by topic.
            inputs=[
                InputDataset(where, name, inputFacets={"inputStatistics": got} if one else {})
                for where, name in sources
            ],
            outputs=[
                OutputDataset(where, name, outputFacets={"outputStatistics": put}) for where, name in outputs(flow.spec)
            ],
        )


def _new_id() -> str:
    from openlineage.client.uuid import generate_new_uuid  # noqa: PLC0415 - an extra

    return str(generate_new_uuid())
