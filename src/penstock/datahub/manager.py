"""DataHub's manager of pipelines, for code that runs several of them in threads."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import Any, ClassVar

log = logging.getLogger("penstock.datahub")


@dataclass
class PipelineSpec:
    """A pipeline and the thread that runs it."""

    name: str
    pipeline: Any
    thread: threading.Thread
    failed: bool = False
    """It ended with an exception."""


class PipelineManager:
    """Runs each pipeline in a thread of its own."""

    pipeline_registry: ClassVar[dict[str, PipelineSpec]] = {}
    """Shared by all managers, as in DataHub."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._stopping = False

    def start_pipeline(self, name: str, pipeline: Any) -> None:
        with self._lock:
            if self._stopping:
                raise RuntimeError(f"pipelines are being stopped; {name} is not started")
            if name in self.pipeline_registry:
                raise RuntimeError(f"a pipeline named {name} is running already")
            thread = threading.Thread(target=self._run, args=(name, pipeline), name=f"pipeline-{name}")
            self.pipeline_registry[name] = PipelineSpec(name, pipeline, thread)
            thread.start()

    def _run(self, name: str, pipeline: Any) -> None:
        try:
            pipeline.run()
        except Exception:
            log.exception("pipeline %s failed", name)
            self.pipeline_registry[name].failed = True
            for end in (pipeline.stop, pipeline.close):
                self._quietly(end, name)

    def _quietly(self, end: Any, name: str) -> None:
        try:
            end()
        except Exception:
            log.exception("pipeline %s, which has failed, did not end in good order", name)

    def has_running_pipelines(self) -> bool:
        return any(spec.thread.is_alive() for spec in self.pipeline_registry.values())

    def has_failed_pipelines(self) -> bool:
        return any(spec.failed for spec in self.pipeline_registry.values())

    def stop_pipeline(self, name: str) -> None:
        """Stop, wait, close, print the statistics; one that cannot be stopped stays registered."""
        if name not in self.pipeline_registry:
            raise KeyError(f"there is no pipeline named {name}")
        spec = self.pipeline_registry[name]
        try:
            spec.pipeline.stop()
            spec.thread.join()
        finally:
            spec.pipeline.close()
        spec.pipeline.stats().pretty_print_summary(name)
        del self.pipeline_registry[name]

    def stop_all(self) -> None:
        with self._lock:
            self._stopping = True
            names = list(self.pipeline_registry)
        for name in names:
            self.stop_pipeline(name)
