"""Warnings about predicates that no event can match: nothing is wrong with them, but nobody writes them on purpose."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.config.loading import Loaded
from penstock.config.problems import Path, Problem
from penstock.config.spec import PipelineSpec
from penstock.core.predicate import never_matching


def predicate_warnings(loaded: Loaded, spec: PipelineSpec) -> Iterator[Problem]:
    """For `event_type` and `match` filters and DataHub's legacy `filter`."""
    for index, step in enumerate(spec.filters):
        if step.type == "event_type":
            for path, predicate in _of_types(step.config.get("filter")):
                yield from _said(loaded, spec, ("filters", index, "config", "filter", *path), predicate)
        elif step.type == "match":
            yield from _said(loaded, spec, ("filters", index, "config", "event"), step.config.get("event"))
    for index, step in enumerate(spec.transform):
        if step.type == "__filter":
            yield from _said(loaded, spec, ("transform", index, "config", "event"), step.config.get("event"))


def _of_types(by_type: Any) -> Iterator[tuple[Path, Any]]:
    for event_type, given in by_type.items() if isinstance(by_type, dict) else ():
        predicates = given.get("event") if isinstance(given, dict) else None
        if predicates == []:
            yield (event_type, "event"), []
        for index, predicate in enumerate(predicates or ()):
            yield (event_type, "event", index), predicate


def _said(loaded: Loaded, spec: PipelineSpec, path: Path, predicate: Any) -> Iterator[Problem]:
    for sentence in never_matching(predicate):
        yield loaded.problem(spec, path, sentence)
