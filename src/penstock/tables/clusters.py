"""Cluster codes from `cfg_cluster`: loaded before the first event, and again now and then."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import sqlalchemy as sa

from penstock.core.clock import SYSTEM, Clock
from penstock.tables.lookup_tables import cfg_cluster
from penstock.tables.processor import Values

REFRESH_SECONDS: Final = 60.0
_EVERY_CLUSTER: Final = "[all]"
_REMEMBERED: Final = 10_000
"""Names whose codes are kept; there are as many as clusters, unless somebody sends nonsense."""


class Cluster(NamedTuple):
    code: str
    short_name: str | None


class Clusters:
    """Finds the cluster that a name belongs to."""

    def __init__(
        self,
        rows: Iterable[Cluster] = (),
        *,
        values: Values = "fixed",
        every: float = REFRESH_SECONDS,
        surroundings: Clock = SYSTEM,
    ) -> None:
        self._values = values
        self._every = every
        self._surroundings = surroundings
        self._due = 0.0
        self._codes: list[tuple[str, str]] = []
        self._short_names: list[tuple[str, str]] = []
        self._known: dict[str, str] = {}
        self._take(rows)

    def code_of(self, name: str | None) -> str | None:
        """A code that is part of the name, else the code of a short name that is, else the name itself."""
        if name is None:
            return None
        found = self._known.get(name)
        if found is None:
            found = self._search(name)
            if len(self._known) < _REMEMBERED:
                self._known[name] = found
        return found

    def refresh(self, connection: sa.Connection) -> None:
        """Read the table where it was last read a while ago; without the table there are no clusters."""
        now = self._surroundings.monotonic()
        if now < self._due:
            return
        rows: list[Cluster] = []
        if sa.inspect(connection).has_table(cfg_cluster.name):
            c = cfg_cluster.c
            query = sa.select(c.cluster_code, c.cluster_short_name).order_by(c.cluster_id)
            rows = [Cluster(code, short) for code, short in connection.execute(query) if code != _EVERY_CLUSTER]
        self._take(rows)
        self._due = now + self._every

    def _take(self, rows: Iterable[Cluster]) -> None:
        kept = list(rows)
        codes = [(row.code, row.code) for row in kept if row.code]
        short_names = [(row.short_name, row.code) for row in kept if row.short_name and row.code]
        if self._values == "fixed":
            # The original takes the first in the database's order, whatever lies behind it.
            codes.sort(key=_longest_first)
            short_names.sort(key=_longest_first)
        if (codes, short_names) != (self._codes, self._short_names):
            self._codes, self._short_names, self._known = codes, short_names, {}

    def _search(self, name: str) -> str:
        pairs = (code for part, code in (*self._codes, *self._short_names) if part in name)
        return next(pairs, name)


def _longest_first(pair: tuple[str, str]) -> int:
    return -len(pair[0])
