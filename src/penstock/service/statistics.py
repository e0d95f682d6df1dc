"""What a pipeline did, as DataHub Actions prints it when a pipeline stops: its keys, its meanings, and Penstock's own
exact counters beside them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from penstock.config.spec import PipelineSpec, StepSpec
from penstock.core.errors import PluginError
from penstock.core.registry import Registry
from penstock.engine.pipelines.runner import PipelineRunner
from penstock.filter.registry import filters
from penstock.pipeline.messages import StepCounts
from penstock.transform.registry import transforms

_NAMES = {"__filter": "FilterTransformer"}
"""What DataHub calls the class behind a type, where Penstock's class has another name."""


def statistics(flow: PipelineRunner) -> dict[str, Any]:
    """DataHub's object; an event that is acted on, dropped, deferred, or failed with CONTINUE counts as a success."""
    spec, books = flow.spec, flow.stats
    counts, cut = books.counts, len(spec.filters)
    failed = counts.failed if spec.options.failure_mode == "CONTINUE" else 0
    # Neither reaches a filter of DataHub's, so it does not count them.
    unseen = counts.unrouted + sum(count for answer, count in counts.early.items() if answer != "passed")
    return {
        "started_at": int(books.started_at * 1000),
        "failed_event_count": counts.failed,
        "failed_ack_count": books.commits_refused + counts.failed_acks,
        "success_count": counts.acted + counts.filtered - unseen + failed,
        "filter_stats": _by_class(spec, spec.filters, filters, books.steps[:cut]),
        "transformer_stats": _by_class(spec, spec.transform, transforms, books.steps[cut:]),
        "action_stats": {"success_count": counts.acted, "exception_count": counts.act_errors},
        "penstock": books.summary().as_dict() | {"retried": counts.retried, "unrouted": counts.unrouted},
    }


def report(name: str, stats: dict[str, Any]) -> str:
    """A heading with name, start and duration, and the object as JSON with its keys in order."""
    began = stats["started_at"] / 1000
    local = datetime.fromtimestamp(began, UTC).astimezone()
    return "\n".join(
        (
            "",
            f"Statistics of pipeline {name}",
            f"started {local:%Y-%m-%d %H:%M:%S} (local time), ran for {max(0.0, time.time() - began):.3f} s",
            "",
            json.dumps(stats, indent=4, sort_keys=True),
        )
    )


def _by_class(
    spec: PipelineSpec, steps: Iterable[StepSpec], registry: Registry[Any], counts: Iterable[StepCounts]
) -> dict[str, Any]:
    """Two steps of one class share a line; a step that saw no event has none."""
    summed: dict[str, StepCounts] = {}
    for step, count in zip(steps, counts, strict=False):
        if count.processed:
            summed.setdefault(_class_name(spec, step, registry), StepCounts()).add(count)
    return {
        name: {
            "processed_count": count.processed,
            "filtered_count": count.filtered,
            "exception_count": count.failed,
        }
        for name, count in summed.items()
    }


def _class_name(spec: PipelineSpec, step: StepSpec, registry: Registry[Any]) -> str:
    if step.type in _NAMES:
        return _NAMES[step.type]
    try:
        return registry.resolve(step.type, spec.folder).__name__
    except PluginError:  # it could be loaded once, or nothing would have been counted
        return step.type.rpartition(":")[2].rpartition(".")[2]
