"""A version of a workflow, ready to be executed: its steps and the edges between them."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from penstock.core.errors import ConfigError
from penstock.core.loading import load_installed
from penstock.workflows.steps.step import MakeAction, State, Step

if TYPE_CHECKING:
    # Each kind of step is loaded when there is one: a run with a process of its own waits for nothing else.
    from penstock.core.expression import StateExpression

WORDS: Final = ("always", "success", "failure")
_KINDS: Final = {
    "python": "penstock.workflows.steps.python:PythonStep",
    "command": "penstock.workflows.steps.command:CommandStep",
    "http": "penstock.workflows.steps.http:HttpStep",
}


@dataclass(frozen=True, slots=True)
class Edge:
    """Leads to a step."""

    target: str
    when: str
    condition: StateExpression | None

    def leads_on(self, state: State, *, failed: bool) -> bool:
        """Whether it is followed, after a step that succeeded or failed with this state."""
        if self.condition is not None:
            return self.condition(state) is True
        return self.when == "always" or failed == (self.when == "failure")


class Graph:
    """Built from a snapshot's definition, in which secrets are in their place; threads may share it."""

    def __init__(self, definition: Mapping[str, Any], make_action: MakeAction) -> None:
        self._written = {step["name"]: step for step in definition["steps"]}
        self._folder: str | None = definition.get("folder")
        self._make_action = make_action
        self._made: dict[str, Step] = {}
        self._making = threading.Lock()
        self._edges: dict[str, list[Edge]] = {}
        for edge in definition.get("edges", ()):
            when = edge.get("when", "always")
            condition = None if when in WORDS else _condition(when)
            self._edges.setdefault(edge["from"], []).append(Edge(edge["to"], when, condition))
        self.triggers = tuple(definition.get("triggers", ()))

    def first(self, trigger: str | None) -> Iterator[Edge]:
        """Edges to the steps that a run begins with; without a trigger those of all of them."""
        seen: set[str] = set()
        for name in [trigger] if trigger in self.triggers else self.triggers:
            for edge in self._edges.get(str(name), ()):
                if edge.target not in seen:
                    seen.add(edge.target)
                    yield edge
        if not self.triggers:
            followed = {edge.target for edges in self._edges.values() for edge in edges}
            yield from (Edge(name, "always", None) for name in self._written if name not in followed)

    def after(self, step: str) -> list[Edge]:
        return self._edges.get(step, [])

    def step(self, name: str) -> Step:
        """The step, made when it is first wanted: what its making raises is its own failure."""
        made = self._made.get(name)
        if made is None:
            with self._making:
                made = self._made.get(name) or self._make(name)
                self._made[name] = made
        return made

    def _make(self, name: str) -> Step:
        if name not in self._written:
            raise ConfigError(f"there is no step `{name}`", received=name, allowed=sorted(self._written))
        if reason := self._written[name].get("refused"):  # by the policy of the instance
            raise ConfigError(reason, received=name, hint="api.allow and api.networks of the instance decide")
        kind, config = self._written[name]["kind"], self._written[name]["config"]
        if kind == "action":
            from penstock.workflows.steps.action import ActionStep  # noqa: PLC0415 - as at the top of this module

            return ActionStep(config, self._folder, self._make_action)
        if kind not in _KINDS:
            raise ConfigError(f"the step `{name}` is of no known kind", received=kind, allowed=[*_KINDS, "action"])
        made: Step = cast("Any", load_installed(_KINDS[kind]))(config, self._folder)
        return made

    def close(self) -> None:
        for step in self._made.values():
            step.close()


def _condition(source: str) -> StateExpression:
    from penstock.core.expression import StateExpression  # noqa: PLC0415 - as at the top of this module

    return StateExpression(source)
