"""Versions of the store's schema: looked at, and brought up to date."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from penstock.config.settings import Settings
from penstock.service.opening import opened_for_writing
from penstock.store.errors import StoreMissing
from penstock.store.schema import known_version, version_at, versions


@dataclass(frozen=True, slots=True)
class SchemaView:
    """Where a store stands, in the shape that `penstock db current --json` promises."""

    current: str | None
    """None: there is no store yet."""
    known: str
    """What this Penstock works with."""

    @property
    def state(self) -> str:
        if self.current == self.known:
            return "current"
        if self.current is None:
            return "missing"
        return "older" if self.current in versions() else "newer"

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"state": self.state}


def schema_view(settings: Settings) -> SchemaView:
    """The store's version, which is left as it is."""
    try:
        return SchemaView(version_at(settings.store_url), known_version())
    except StoreMissing:
        return SchemaView(None, known_version())


def upgrade_store(settings: Settings) -> tuple[SchemaView, SchemaView]:
    """Bring the store to the version this Penstock knows, made where it is missing; before and after."""
    before = schema_view(settings)
    opened_for_writing(settings).close()
    return before, schema_view(settings)
