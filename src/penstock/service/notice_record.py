"""What is kept of a notice: whom it reached, in the history of the trigger's pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

TOLD: Final = "notified"
NOT_TOLD: Final = "not notified"
"""Kinds of entries in the history."""


@dataclass(slots=True)
class Told:
    """Whom a notice has reached."""

    recipients: list[str] = field(default_factory=list)
    """E-mail addresses."""
    services: list[str] = field(default_factory=list)
    """Kinds of the project's other addresses, which are secrets themselves."""
    failures: list[str] = field(default_factory=list)
    """Why others were not reached."""


def addresses_of(settings: Mapping[str, Any]) -> list[str]:
    """The `notify` addresses of a project."""
    given = settings.get("notify") or []
    return [given] if isinstance(given, str) else list(given)


def kind_of(address: str) -> str:
    """`slack`, `json`…: all of an address that may be shown."""
    return address.partition(":")[0]
