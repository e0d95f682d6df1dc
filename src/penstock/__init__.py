"""Penstock runs actions on Kafka events, on Spark, and loses none of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.core.errors import PenstockError, Terminal, Transient, Unavailable
    from penstock.core.event import Event
    from penstock.core.plugin import Action, BatchAction, Decoder, Filter, PipelineContext, Transform
    from penstock.tables.processor import Processor

    __version__: str

__all__ = [
    "Action",
    "BatchAction",
    "Decoder",
    "Event",
    "Filter",
    "PenstockError",
    "PipelineContext",
    "Processor",
    "Terminal",
    "Transform",
    "Transient",
    "Unavailable",
    "__version__",
]

_HOMES = {
    "Action": "penstock.core.plugin",
    "BatchAction": "penstock.core.plugin",
    "Decoder": "penstock.core.plugin",
    "Event": "penstock.core.event",
    "Filter": "penstock.core.plugin",
    "PenstockError": "penstock.core.errors",
    "PipelineContext": "penstock.core.plugin",
    "Processor": "penstock.tables.processor",
    "Terminal": "penstock.core.errors",
    "Transform": "penstock.core.plugin",
    "Transient": "penstock.core.errors",
    "Unavailable": "penstock.core.errors",
}


def __getattr__(name: str) -> Any:
    """Names come from their homes when they are asked for: every worker and command imports this module first."""
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415 - only who asks pays for the look-up

        return version("penstock")
    if name in _HOMES:
        from importlib import import_module  # noqa: PLC0415 - as above

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'penstock' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
