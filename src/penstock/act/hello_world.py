"""The `hello_world` action: prints what it receives."""

from __future__ import annotations

import json
import sys
from typing import Any, ClassVar, Self

from penstock.config.spec import Model
from penstock.core.event import Event
from penstock.core.plugin import Action, PipelineContext
from penstock.core.plugin_config import parse_config


class HelloWorldConfig(Model):
    """Keys of the `hello_world` action."""

    to_upper: bool | None = None
    """True: print in capitals."""


class HelloWorld(Action):
    """Prints a heading and the envelope as indented JSON to standard output."""

    parallel_safe: ClassVar[bool] = True
    config_model: ClassVar[type[HelloWorldConfig]] = HelloWorldConfig
    type_name: ClassVar[str] = "hello_world"

    def __init__(self, config: HelloWorldConfig) -> None:
        self._upper = bool(config.to_upper)

    @classmethod
    def create(cls, config: dict[str, Any], ctx: PipelineContext) -> Self:  # noqa: ARG003 - the contract's signature
        return cls(parse_config(HelloWorldConfig, config, "hello_world"))

    def act(self, event: Event) -> None:
        text = json.dumps(json.loads(event.as_json()), indent=4)
        # One write, so that the lines of events acted on side by side do not mix.
        sys.stdout.write(f"Hello world! Received event:\n{text.upper() if self._upper else text}\n")
        sys.stdout.flush()

    def close(self) -> None:
        """Nothing is open."""
