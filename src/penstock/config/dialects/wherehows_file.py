"""A YAML file with `dialect: wherehows`: which jobs of an installation are run, and what they share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema

from penstock.config.dialects.jdbc import Address, database_address
from penstock.config.model import Model
from penstock.config.spec import OptionsSpec

_COMMA = re.compile(r"\s*,\s*")
_SEVERAL = {"type": "array", "items": {"type": ["integer", "string"]}}

JobIds = Annotated[
    Any,
    WithJsonSchema(
        {
            "anyOf": [_SEVERAL, {"type": "integer"}, {"type": "string"}],
            "description": "a list of whole numbers, or a text",
        }
    ),
]
"""As written: a bad one among them leaves the others."""


class WhereHowsFile(Model):
    """Jobs of a WhereHows installation, each of which becomes a pipeline."""

    dialect: Literal["wherehows"]
    """Says that this is such a file."""
    enabled: bool = True
    """False: nothing of the file is started."""
    database: str | None = None
    """JDBC or SQLAlchemy URL of the database with the jobs and the tables; default: the variable `WHZ_DB_URL`."""
    username: str | None = None
    """Log-in of the database where its URL has none; default: `WHZ_DB_USERNAME`."""
    password: str | None = None
    """Its password; default: `WHZ_DB_PASSWORD`."""
    jobs: JobIds | None = None
    """Ids in `wh_etl_job`, as a list or as a text with commas: `[7, 9]`, `${WHZ_KAFKA_JOB_IDS}`."""
    jobs_dir: str | None = None
    """Folder of `.job` files; a relative path starts at this file's folder."""
    master_key_file: str | None = None
    """File whose first line decrypts properties; default: as the database says, else `~/.wherehows/master_key`."""
    properties: dict[str, Any] = Field(default_factory=dict)
    """Given to every job, in place of its own of the same names: `bootstrap.servers`, for instance."""
    options: OptionsSpec = Field(default_factory=OptionsSpec)
    """Options of every job's pipeline."""


@dataclass(frozen=True, slots=True)
class Installation:
    """What the jobs of one file share."""

    database: Address | None
    ids: tuple[int, ...] = ()
    folders: tuple[tuple[str, str], ...] = ()
    """(key, folder) of `.job` files."""
    master_key_file: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    secrets: frozenset[str] = frozenset()


def address_of(
    environ: Mapping[str, str], url: str | None, username: str | None, password: str | None
) -> Address | None:
    """The database; what is not given is taken from WhereHows' variables."""
    found = url or environ.get("WHZ_DB_URL")
    if not found:
        return None
    return database_address(
        found, username or environ.get("WHZ_DB_USERNAME"), password or environ.get("WHZ_DB_PASSWORD")
    )


def job_ids(written: Any) -> tuple[tuple[int, ...], list[object]]:
    """Ids from `[7, 9]`, `7, 9` or a list; and what among them is no id."""
    if isinstance(written, str):
        text = written.strip().removeprefix("[").removesuffix("]").strip()
        written = _COMMA.split(text) if text else []
    parts = written if isinstance(written, list) else [] if written is None else [written]
    ids: list[int] = []
    bad: list[object] = []
    for part in parts:
        text = str(part).strip().strip('"')
        if text.isascii() and text.isdecimal() and not isinstance(part, bool):
            ids.append(int(text))
        elif text or isinstance(part, bool):
            bad.append(part)
    return tuple(dict.fromkeys(ids)), bad
