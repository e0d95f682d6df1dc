"""Whether a job's topics can be worked on: their processors are there, and so are the tables and columns they fill."""

from __future__ import annotations

from typing import Final

from penstock.config.dialects.wherehows_job import Pairing
from penstock.core.errors import ConfigError, PenstockError
from penstock.tables.errors import TargetUnavailable
from penstock.tables.jobs import open_target
from penstock.tables.processor import Processor, Writer
from penstock.tables.registry import resolve_processor
from penstock.tables.target import Target

Refusal = tuple[str, str, str | None]
"""Key to blame, message, hint."""

_MAKE: Final = "`penstock db create-staging` makes the staging tables"


class PairingChecks:
    """Asks each database once whether it is there; one that is away is no reason to refuse anything."""

    def __init__(self) -> None:
        self._targets: dict[str, Target | PenstockError] = {}

    def refusal(self, pairing: Pairing, url: str, folder: str | None) -> Refusal | None:
        """Why the topic cannot be worked on."""
        try:
            processor = resolve_processor(pairing.processor, folder)
        except ConfigError as error:
            return "kafka.processors", error.message, error.hint
        target = self._target(url)
        if isinstance(target, TargetUnavailable):
            return None
        if isinstance(target, PenstockError):
            return "db.wherehows.url", target.message, target.hint
        try:
            return _refused(target, pairing, processor)
        except TargetUnavailable as error:
            self._targets[url] = error
            return None

    def close(self) -> None:
        for target in self._targets.values():
            if isinstance(target, Target):
                target.close()
        self._targets.clear()

    def _target(self, url: str) -> Target | PenstockError:
        if url not in self._targets:
            try:
                self._targets[url] = open_target(url)
            except PenstockError as error:
                self._targets[url] = error
        return self._targets[url]


def _refused(target: Target, pairing: Pairing, processor: type[Processor]) -> Refusal | None:
    if issubclass(processor, Writer):
        # It knows its tables itself; the one that the job pairs it with is never written to.
        missing = [name for name in processor.tables if target.inspect(name) is None]
        return ("kafka.db.tables", f"{target.shown} has no table {', '.join(missing)}", _MAKE) if missing else None
    table = target.inspect(pairing.table)
    if table is None:
        return "kafka.db.tables", f"{target.shown} has no table {pairing.table}", _MAKE
    missing = [name for name in processor.columns if name not in table.c]
    if missing:
        return "kafka.db.tables", f"table {pairing.table} has no column {', '.join(missing)}", None
    return None
