"""Whether the edges of a workflow make sense: every end exists, no name is taken twice, nothing follows itself."""

from __future__ import annotations

from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

from penstock.config.problems import Path as KeyPath
from penstock.config.problems import did_you_mean
from penstock.config.workflow import WORDS, EdgeSpec, WorkflowSpec
from penstock.core.errors import ConfigError
from penstock.core.expression import StateExpression

Found = tuple[KeyPath, str, str | None]
"""Where, what, and what to do."""


def graph_problems(spec: WorkflowSpec) -> Iterator[Found]:
    """Everything that is wrong with names and edges."""
    yield from _taken_names(spec)
    known = True
    for problem in _loose_ends(spec):
        known = False
        yield problem
    yield from _conditions(spec)
    if known:
        yield from _cycles(spec)


def _taken_names(spec: WorkflowSpec) -> Iterator[Found]:
    seen: dict[str, str] = {}
    named = [("triggers", index, trigger.name) for index, trigger in enumerate(spec.triggers)]
    named += [("steps", index, step.name) for index, step in enumerate(spec.steps)]
    for kind, index, name in named:
        if name in seen:
            yield (
                (kind, index, "name"),
                f"the name {name!r} is taken by another of the {seen[name]}",
                "names are unique",
            )
        seen.setdefault(name, kind)


def _loose_ends(spec: WorkflowSpec) -> Iterator[Found]:
    triggers, steps = [each.name for each in spec.triggers], [step.name for step in spec.steps]
    pairs: set[tuple[str, str]] = set()
    for index, edge in enumerate(spec.edges):
        if edge.source not in (*triggers, *steps):
            near = did_you_mean(edge.source, [*triggers, *steps]) or _listed([*triggers, *steps])
            yield ("edges", index, "from"), f"there is no trigger or step {edge.source!r}", near
        if edge.target in triggers:
            yield ("edges", index, "to"), f"{edge.target!r} is a trigger, which follows nothing", _listed(steps)
        elif edge.target not in steps:
            near = did_you_mean(edge.target, steps) or _listed(steps)
            yield ("edges", index, "to"), f"there is no step {edge.target!r}", near
        if (edge.source, edge.target) in pairs:
            yield ("edges", index), f"another edge leads from {edge.source!r} to {edge.target!r}", "one is enough"
        pairs.add((edge.source, edge.target))


def _conditions(spec: WorkflowSpec) -> Iterator[Found]:
    triggers = {trigger.name for trigger in spec.triggers}
    for index, edge in enumerate(spec.edges):
        if edge.source in triggers and edge.when == "failure":
            yield ("edges", index, "when"), f"{edge.source!r} is a trigger, which does not fail", None
        if edge.when not in WORDS:
            yield from _expression(index, edge)


def _expression(index: int, edge: EdgeSpec) -> Iterator[Found]:
    try:
        StateExpression(edge.when)
    except ConfigError as error:
        hint = did_you_mean(edge.when, WORDS) or error.hint or f"or one of {', '.join(WORDS)}"
        yield ("edges", index, "when"), error.message, hint


def _cycles(spec: WorkflowSpec) -> Iterator[Found]:
    before: dict[str, list[str]] = {}
    for edge in spec.edges:
        before.setdefault(edge.target, []).append(edge.source)
    try:
        TopologicalSorter(before).prepare()
    except CycleError as error:
        ring = _from_the_first(error.args[1][:-1], [step.name for step in spec.steps])
        pairs = set(pairwise(ring))
        index = max(i for i, edge in enumerate(spec.edges) if (edge.source, edge.target) in pairs)
        yield ("edges", index), f"the steps go round in a circle: {' → '.join(ring)}", "a run must come to an end"


def _from_the_first(ring: list[str], order: list[str]) -> list[str]:
    first = ring.index(min(ring, key=order.index))
    return [*ring[first:], *ring[: first + 1]]


def _listed(names: list[str]) -> str:
    return f"known are: {', '.join(names)}"
