"""DataHub's `Pipeline`, for code that makes and runs pipelines itself.

One made of objects, or with a source of the user's own, is a plain loop in the calling thread; one that reads Kafka
runs on the engine.
"""

from __future__ import annotations

import copy
import itertools
import logging
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self, TextIO

import orjson

from penstock.act.registry import actions
from penstock.config.dialects.datahub import FAILED_EVENTS, FILTER_TYPE
from penstock.core.event import Event
from penstock.core.plugin import Action, Filter, PipelineContext, Transform
from penstock.datahub.adapters import AdaptedAction, AdaptedFilter, AdaptedTransform, context_for
from penstock.datahub.graph import catalogue
from penstock.datahub.pipeline_config import FailureMode, PipelineConfig
from penstock.datahub.sources import sources
from penstock.decode.envelope import Arrival, EnvelopeDecoder
from penstock.engine.pipelines.dead_letter_sinks import failed_events_path
from penstock.filter.registry import filters as filter_kinds
from penstock.service.library_stats import PipelineStats
from penstock.transform.registry import transforms as transform_kinds

log = logging.getLogger("penstock.datahub")

_LOOK_EVERY = 0.5


class PipelineException(Exception):
    """A pipeline cannot go on."""


class Pipeline:
    """A source, filters, transformers and an action, run one event after the other."""

    def __init__(  # noqa: PLR0917 - DataHub's signature
        self,
        name: str,
        source: Any,
        filters: Sequence[Any],
        transforms: Sequence[Any],
        action: Any,
        retry_count: int | None = None,
        failure_mode: FailureMode | None = None,
        failed_events_dir: str | None = None,
    ) -> None:
        self.name = name
        self.source = source
        self.filters = [_own(each) for each in filters]
        self.transforms = [_own(each) for each in transforms]
        self.action = _own(action)
        self._filters = [each if isinstance(each, Filter) else AdaptedFilter(each) for each in filters]
        self._transforms = [each if isinstance(each, Transform) else AdaptedTransform(each) for each in transforms]
        self._action = action if isinstance(action, Action) else AdaptedAction(action)
        self._attempts = (retry_count or 0) + 1
        self._failure_mode = failure_mode or FailureMode.CONTINUE
        self._failed_events = failed_events_path(failed_events_dir or FAILED_EVENTS, name)
        self._failed_file: TextIO | None = None
        self._stats = PipelineStats()
        self._decoder = EnvelopeDecoder()
        self._numbers = itertools.count()
        self._closed: set[str] = set()

    @classmethod
    def create(cls, config_dict: dict[str, Any]) -> Pipeline:
        """The pipeline that a file with this content describes."""
        config = PipelineConfig.model_validate(config_dict)
        if not config.enabled:
            raise PipelineException(f"the pipeline {config.name} is disabled")
        return EnginePipeline(config_dict) if config.source.type == "kafka" else cls._of_parts(config)

    @classmethod
    def _of_parts(cls, config: PipelineConfig) -> Self:
        ctx = PipelineContext(config.name)
        ctx.open_graph = catalogue(config.datahub)
        source_class: Any = sources.resolve(config.source.type)
        ctx.event_source = source = source_class.create(config.source.config or {}, context_for(ctx))
        steps = [filter_kinds.create(each.type, each.config, ctx) for each in config.filters or ()]
        source.set_filters([_own(each) for each in steps])
        legacy = [transform_kinds.create(FILTER_TYPE, config.filter.model_dump(), ctx)] if config.filter else []
        further = [transform_kinds.create(each.type, each.config, ctx) for each in config.transform or ()]
        action = actions.create(config.action.type, config.action.config, ctx)
        options = config.options.model_dump() if config.options else {}
        return cls(config.name, source, steps, legacy + further, action, **options)

    def run(self) -> None:
        """Work until the source ends; `PipelineException` where the failure mode is THROW and an event fails."""
        self._stats.mark_start()
        for envelope in self.source.events():
            processed = self._process(envelope)
            try:
                self.source.ack(envelope, processed)
                self._stats.success_count += 1
            except Exception:
                self._stats.failed_ack_count += 1
                log.exception("pipeline %s: the source refused an acknowledgement", self.name)

    def stop(self) -> None:
        """Ask `run` to come to its end."""
        self.source.request_stop()

    def close(self) -> None:
        """Close the action, the source and the file, each once; the action first, for it may acknowledge yet."""
        parts = {"action": self.action.close, "source": self.source.close}
        if self._failed_file is not None:
            parts["file"] = self._failed_file.close
        errors = []
        for name, close in parts.items():
            if name not in self._closed:
                try:
                    close()
                    self._closed.add(name)
                except Exception as error:
                    log.exception("pipeline %s: the %s was not closed", self.name, name)
                    errors.append(error)
        if errors:
            raise PipelineException(f"parts of the pipeline {self.name} could not be closed") from errors[0]

    def stats(self) -> PipelineStats:
        return self._stats

    def _process(self, envelope: Any) -> bool:
        """Whether the event is to be acknowledged now."""
        again = copy.deepcopy(envelope) if self._attempts > 1 else None
        for attempt in range(1, self._attempts + 1):
            try:
                return self._attempt(envelope if attempt == 1 else copy.deepcopy(again))
            except Exception:
                log.exception("pipeline %s: an event failed, attempt %d of %d", self.name, attempt, self._attempts)
        self._stats.failed_event_count += 1
        self._keep(envelope)
        if self._failure_mode is FailureMode.THROW:
            raise PipelineException(f"an event failed in all of {self._attempts} attempts")
        return True

    def _attempt(self, envelope: Any) -> bool:
        event = self._event(envelope)
        for check in self._filters:
            counts = self._stats.of_filter(check)
            if not self._counted(counts, check.matches, event):
                counts.filtered_count += 1
                return True
        for change in self._transforms:
            counts = self._stats.of_transformer(change)
            event = self._counted(counts, change.transform, event)
            if event is None:
                counts.filtered_count += 1
                return True
        try:
            done = self._action.act(event) is not False
        except Exception:
            self._stats.action_stats.exception_count += 1
            raise
        self._stats.action_stats.success_count += 1
        return done

    def _event(self, envelope: Any) -> Any:
        arrival = Arrival(self.name, next(self._numbers), envelope, int(time.time() * 1000))
        [event] = self._decoder.decode([arrival])
        if isinstance(event, Event):
            event.envelope = envelope
            return event
        raise event

    def _counted(self, counts: Any, call: Any, event: Any) -> Any:
        counts.processed_count += 1
        try:
            return call(event)
        except Exception:
            counts.exception_count += 1
            raise

    def _keep(self, envelope: Any) -> None:
        if self._failed_file is None:
            self._failed_events.parent.mkdir(parents=True, exist_ok=True)
            self._failed_file = self._failed_events.open("a")
        self._failed_file.write(envelope.as_json() + "\n")
        self._failed_file.flush()


def _own(step: Any) -> Any:
    """The user's own object of a step that was adapted."""
    return getattr(step, "plugin", step)


class EnginePipeline(Pipeline):
    """A pipeline that reads Kafka: everything of `penstock run`, in this process."""

    def __init__(self, config: dict[str, Any]) -> None:  # made by `Pipeline.create` only
        self.name = str(config["name"])
        self._config = config
        self._stop = threading.Event()
        self._instance: Any = None

    def run(self) -> None:
        """Work until `stop`; `PipelineException` where the pipeline fails."""
        from penstock.config.settings import Settings  # noqa: PLC0415 - with Spark behind it, for those only who run it
        from penstock.service.run import run_instance  # noqa: PLC0415 - as above

        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "pipeline.yaml"  # JSON is YAML, too
            file.write_bytes(orjson.dumps(self._config, default=str))
            summary = run_instance([file], Settings.load(), stop=self._stop, on_ready=self._watch)
        if summary.failed:
            raise PipelineException(f"the pipeline {self.name} has failed; its dead letters say why")

    def _watch(self, instance: Any) -> None:
        """An instance waits for a person when a pipeline has failed; this one has nobody to wait for."""
        self._instance = instance

        def end_when_failed() -> None:
            while not self._stop.wait(_LOOK_EVERY):
                if all(flow.state == "failed" for flow in instance.runners):
                    self._stop.set()

        threading.Thread(target=end_when_failed, daemon=True, name=f"watch-{self.name}").start()

    def stop(self) -> None:
        self._stop.set()

    def close(self) -> None:
        """All is closed when `run` is over."""
        self._stop.set()

    def stats(self) -> PipelineStats:
        from penstock.service.statistics import statistics  # noqa: PLC0415 - as above

        flows = self._instance.runners if self._instance else ()
        return PipelineStats.of(statistics(flows[0])) if flows else PipelineStats()
