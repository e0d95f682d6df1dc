"""The tables of WhereHows in a target database: made, and merged into the load status."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from penstock.config.dialects.jdbc import database_address
from penstock.core.clock import SYSTEM
from penstock.tables.creation import Creation, create_tables
from penstock.tables.merge import Merge, MergeRun
from penstock.tables.target import Target


def database_url(address: str) -> str:
    """With the log-in of the environment where the address has none, as WhereHows has it."""
    environ = SYSTEM.environ
    return database_address(address, environ.get("WHZ_DB_USERNAME"), environ.get("WHZ_DB_PASSWORD")).url


@contextmanager
def _opened(address: str) -> Iterator[Target]:
    target = Target(database_url(address))
    try:
        yield target
    finally:
        target.close()


def create_staging(address: str, only: Sequence[str]) -> Creation:
    """Make the tables that are missing; `address` is a SQLAlchemy or a JDBC URL."""
    with _opened(address) as target:
        return create_tables(target, only)


def merge_load_status(
    address: str, tables: Sequence[str], start: int | None, end: int | None, keep: float | None = None
) -> tuple[MergeRun, int]:
    """Merge what is new, or the events of a range of time; then delete staging rows older than `keep` seconds.

    Returns the run, and how many rows were deleted.
    """
    with _opened(address) as target:
        merge = Merge(target, tables)
        run = merge.new_rows() if start is None and end is None else merge.events_between(start, end)
        return run, 0 if keep is None else merge.prune(SYSTEM.now_ms() - int(keep * 1000))
