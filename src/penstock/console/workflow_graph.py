"""The picture of a workflow: triggers and steps as boxes, what follows what as lines, left to right."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from statistics import fmean
from typing import Any, Final, NamedTuple

from nicegui import ui

from penstock.console.parts import text

_WIDTH: Final = 188
_HEIGHT: Final = 52
_ACROSS: Final = 124
"""Between two columns: room for the condition of an edge."""
_DOWN: Final = 24
_MARGIN: Final = 10
_NAME: Final = 24
_CONDITION: Final = 17
"""Characters of a name, and of a condition, that fit."""


class Node(NamedTuple):
    name: str
    kind: str
    """`trigger`, or the kind of a step."""


class Edge(NamedTuple):
    source: str
    target: str
    when: str


@dataclass(frozen=True, slots=True)
class Placed:
    """Where everything stands."""

    nodes: dict[str, Node]
    edges: list[Edge]
    at: dict[str, tuple[int, int]]
    """The upper left corner of each node, by its name."""

    @property
    def size(self) -> tuple[int, int]:
        right = max((x for x, _ in self.at.values()), default=0) + _WIDTH
        bottom = max((y for _, y in self.at.values()), default=0) + _HEIGHT
        return right + _MARGIN, bottom + _MARGIN


def placed(definition: Mapping[str, Any], triggers: Sequence[str]) -> Placed:
    """Each node one column behind the last of those it follows; within a column, near the ones it follows."""
    nodes = {name: Node(name, "trigger") for name in triggers}
    nodes |= {str(step["name"]): Node(str(step["name"]), str(step.get("kind"))) for step in definition.get("steps", ())}
    edges = [Edge(str(each["from"]), str(each["to"]), str(each["when"])) for each in definition.get("edges", ())]
    edges = [edge for edge in edges if edge.source in nodes and edge.target in nodes]
    before: dict[str, list[str]] = {name: [] for name in nodes}
    for edge in edges:
        before[edge.target].append(edge.source)
    columns: dict[int, list[str]] = defaultdict(list)
    column: dict[str, int] = {}
    for name in _in_order(before):
        column[name] = max((column.get(each, -1) for each in before[name]), default=-1) + 1
        columns[column[name]].append(name)
    return Placed(nodes, edges, _corners(columns, before))


def _in_order(before: Mapping[str, list[str]]) -> list[str]:
    try:
        return list(TopologicalSorter(before).static_order())
    except CycleError:
        # Nothing that was checked goes round in a circle; what came from elsewhere is shown all the same.
        return list(before)


def _corners(columns: Mapping[int, list[str]], before: Mapping[str, list[str]]) -> dict[str, tuple[int, int]]:
    row: dict[str, float] = {}
    most = max((len(names) for names in columns.values()), default=0)
    at: dict[str, tuple[int, int]] = {}
    for index in sorted(columns):
        names = sorted(columns[index], key=lambda name: fmean([row.get(each, 0) for each in before[name]] or [0]))
        top = (most - len(names)) * (_HEIGHT + _DOWN) // 2
        for place, name in enumerate(names):
            row[name] = place + (most - len(names)) / 2
            at[name] = (_MARGIN + index * (_WIDTH + _ACROSS), _MARGIN + top + place * (_HEIGHT + _DOWN))
    return at


def draw(found: Placed, label: str, tones: Mapping[str, str] | None = None) -> None:
    """`tones` say how loud each node is, by its name: how its step ended."""
    width, height = found.size
    with ui.element("div").classes("graph"):
        with _svg("svg", viewBox=f"0 0 {width} {height}", width=width, height=height, role="img") as picture:
            text(label, tag="title")
            for edge in found.edges:
                _draw_edge(edge, found.at[edge.source], found.at[edge.target])
            for name, node in found.nodes.items():
                _draw_node(node, found.at[name], (tones or {}).get(name, ""))
        picture.classes("workflow")


def _draw_node(node: Node, at: tuple[int, int], tone: str) -> None:
    x, y = at
    with _svg("g").classes(f"node {'trigger' if node.kind == 'trigger' else ''} {tone}"):
        text(f"{node.name} ({node.kind})", tag="title")
        _svg("rect", x=x, y=y, width=_WIDTH, height=_HEIGHT, rx=_HEIGHT // 2 if node.kind == "trigger" else 8)
        _words(_cut(node.name, _NAME), "what", x + _WIDTH // 2, y + 22)
        _words(node.kind, "kind", x + _WIDTH // 2, y + 40)


def _draw_edge(edge: Edge, source: tuple[int, int], target: tuple[int, int]) -> None:
    x1, y1 = source[0] + _WIDTH, source[1] + _HEIGHT // 2
    x2, y2 = target[0] - 7, target[1] + _HEIGHT // 2
    bend = max(_ACROSS // 2, (x2 - x1) // 2)
    kind = edge.when if edge.when in ("always", "success", "failure") else "condition"
    with _svg("g").classes(f"edge {kind}"):
        text(f"{edge.source} to {edge.target}: {edge.when}", tag="title")
        _svg("path", d=f"M {x1} {y1} C {x1 + bend} {y1}, {x2 - bend} {y2}, {x2} {y2}").classes("line")
        _svg("path", d=f"M {x2} {y2 - 5} L {x2 + 7} {y2} L {x2} {y2 + 5} Z").classes("tip")
        if edge.when != "always":
            _words(_cut(edge.when, _CONDITION), "when", (x1 + x2) // 2, (y1 + y2) // 2 - 6)


def _svg(tag: str, **attributes: object) -> ui.element:
    return ui.element(tag).props(" ".join(f'{name}="{value}"' for name, value in attributes.items()))


def _words(shown: str, classes: str, x: int, y: int) -> None:
    text(shown, classes, "text").props(f"x={x} y={y} text-anchor=middle")


def _cut(shown: str, longest: int) -> str:
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"
