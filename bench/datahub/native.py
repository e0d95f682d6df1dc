"""An action class of Penstock's own: one object, and so one lane."""

from __future__ import annotations

from typing import Any, Self

from bench.datahub import acts
from penstock import Action


class Changed(Action):
    """Entity changes, in one lane."""

    @classmethod
    def create(cls, config: dict[str, Any], ctx: Any) -> Self:  # noqa: ARG003 - the contract
        return cls()

    def act(self, event: Any) -> None:
        acts.changed(event)

    def close(self) -> None:
        """Nothing is open."""


class Logged(Changed):
    """Metadata change logs, in one lane."""

    def act(self, event: Any) -> None:
        acts.logged(event)
