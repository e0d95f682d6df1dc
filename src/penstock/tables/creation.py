"""Makes the tables of WhereHows where they are missing; what is there is left as it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import exc

from penstock.core.errors import ConfigError
from penstock.core.loading import did_you_mean
from penstock.tables import lookup_tables, metadata_tables, staging
from penstock.tables.errors import TargetError, words
from penstock.tables.target import Target

_JOBS: Final = ("wh_etl_job", "wh_etl_job_property", "wh_property", "wh_etl_job_execution")
_LOAD_STATUS: Final = (staging.log_dataset_instance_load_status.name,)
_ALL: Final = {
    table.name: table
    for metadata in (staging.metadata, metadata_tables.metadata, lookup_tables.metadata)
    for table in metadata.sorted_tables
}
GROUPS: Final[dict[str, tuple[str, ...]]] = {
    "staging": tuple(name for name in staging.metadata.tables if name not in _LOAD_STATUS),
    "load-status": _LOAD_STATUS,
    "metadata": tuple(metadata_tables.metadata.tables),
    "lookup": tuple(name for name in lookup_tables.metadata.tables if name not in _JOBS),
    "jobs": _JOBS,
}
"""Words for several tables at once."""
_OLDEST_POSTGRES: Final = (15,)


@dataclass(frozen=True, slots=True)
class Creation:
    """What was done, in the shape that `penstock db create-staging --json` promises."""

    database: str
    """The address without its password."""
    created: list[str]
    existing: list[str]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def chosen_tables(only: Sequence[str] = ()) -> list[sa.Table]:
    """The tables of these names and groups; none given: all of them."""
    names: list[str] = []
    for word in only or GROUPS:
        if word in GROUPS:
            names += GROUPS[word]
        elif word in _ALL:
            names.append(word)
        else:
            known = [*GROUPS, *_ALL]
            hint = did_you_mean(word, known) or f"groups are: {', '.join(GROUPS)}"
            raise ConfigError(f"there is no table or group `{word}`", received=word, allowed=known, hint=hint)
    return [_ALL[name] for name in dict.fromkeys(names)]


def create_tables(target: Target, only: Sequence[str] = ()) -> Creation:
    """Make what is missing of them, in one transaction where the database has such."""
    tables = chosen_tables(only)
    done = Creation(target.shown, [], [])
    with target.transaction() as connection:
        _require_version(connection)
        there = set(sa.inspect(connection).get_table_names())
        for table in tables:
            if table.name in there:
                done.existing.append(table.name)
                continue
            try:
                table.create(connection)
            except exc.DBAPIError as error:
                text = f"the table {table.name} cannot be made in {target.shown}: {words(error)}"
                raise TargetError(text, received=table.name) from error
            done.created.append(table.name)
    return done


def _require_version(connection: sa.Connection) -> None:
    version = connection.dialect.server_version_info or ()
    if connection.dialect.name == "postgresql" and tuple(version) < _OLDEST_POSTGRES:
        shown = ".".join(map(str, version))
        hint = "older ones have no unique keys in which NULL equals NULL"
        raise TargetError(f"PostgreSQL {shown} is too old for staging tables; 15 is wanted", received=shown, hint=hint)
