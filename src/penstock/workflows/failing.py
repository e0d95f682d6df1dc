"""How steps fail: on purpose, by an error, or because their time is over."""

from __future__ import annotations

from typing import Any

from penstock.core.errors import PenstockError, Terminal


class StepFailed(PenstockError, Terminal):
    """What the step was to do cannot be done; users' functions raise it. The run goes on along `failure` edges."""

    code = "step-failed"
    state: dict[str, Any] | None = None
    """What the steps after it are given; None: what it was given itself."""


class StepKilled(PenstockError, Terminal):
    """A step took longer, or more memory, than it may."""

    code = "step-killed"


class RunCancelled(PenstockError, Terminal):
    """Someone ended the run while a step was at work."""

    code = "run-cancelled"


class StateError(PenstockError, Terminal):
    """A step returned something that cannot be the next state."""

    code = "step-state"
