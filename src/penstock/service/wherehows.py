"""What loading WhereHows jobs asks of the layers that config does not know."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock.config.dialects.wherehows_job import JobSelection, Lookups, Pairing, StoredJob
from penstock.kafka.client import knows_property

if TYPE_CHECKING:
    from penstock.tables.pairings import PairingChecks


@contextmanager
def lookups() -> Iterator[Lookups]:
    """Connections that were opened on the way are closed at the end."""
    found = _Lookups()
    try:
        yield found
    finally:
        found.close()


class _Lookups:
    """Databases are touched, and their library loaded, only where a job asks for it."""

    def __init__(self) -> None:
        self._checks: PairingChecks | None = None

    def read_jobs(self, selection: JobSelection) -> Sequence[StoredJob]:
        from penstock.tables.jobs import read_jobs  # noqa: PLC0415

        return read_jobs(selection)

    def refusal(self, pairing: Pairing, url: str, folder: str | None) -> tuple[str, str, str | None] | None:
        if self._checks is None:
            from penstock.tables import pairings  # noqa: PLC0415

            self._checks = pairings.PairingChecks()
        return self._checks.refusal(pairing, url, folder)

    def knows_property(self, name: str, value: str) -> bool:
        return knows_property(name, value)

    def close(self) -> None:
        if self._checks is not None:
            self._checks.close()
