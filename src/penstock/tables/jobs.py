"""Job definitions as WhereHows keeps them in its database, properties decrypted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from penstock.config.dialects.wherehows_job import JobSelection, StoredJob, StoredProperty
from penstock.core.errors import ConfigError
from penstock.tables.errors import TargetError
from penstock.tables.jasypt import decrypt
from penstock.tables.target import Target

_KAFKA: Final = "KAFKA_CONSUMER_ETL"
_KEY_PLACE: Final = "wherehows.encrypt.master.key.loc"
_DEFAULT_KEY: Final = "~/.wherehows/master_key"
_OLD_PROPERTIES: Final = {
    "schema_registry_url": "schemaRegistryUrl",
    "zookeeper_connect": "zookeeper.connect",
    "group_id": "group.id",
    "zookeeper_session_timeout_ms": "zookeeper.session.timeout.ms",
    "auto_commit_interval_ms": "auto.commit.interval.ms",
    "zookeeper_sync_time_ms": "zookeeper.sync.time.ms",
}
"""Columns of the first versions, which had a table of Kafka jobs of its own."""
_OLD_LISTS: Final = {"topic_name": "kafka.topics", "processor": "kafka.processors", "db_table": "kafka.db.tables"}

Found = Mapping[Any, Any]


def read_jobs(selection: JobSelection) -> list[StoredJob]:
    """The jobs in the order of their ids; one that cannot be read says so and leaves the others."""
    target = open_target(selection.url)
    try:
        with target.transaction() as connection:
            tables = set(sa.inspect(connection).get_table_names())
            if "wh_etl_job" in tables:
                key = _MasterKey(selection.master_key_file or _key_place(connection, tables))
                return [_job(connection, number, key) for number in selection.ids]
            if "wh_kafka_property" in tables:
                return [_old_job(connection, number) for number in selection.ids]
    finally:
        target.close()
    raise TargetError(f"{target.shown} has no table wh_etl_job", hint="is it WhereHows' database?")


def open_target(url: str) -> Target:
    """The database, if there is one: a SQLite file that is not there would be made by asking for it."""
    target = Target(url)
    file = target.url.database if target.url.get_backend_name() == "sqlite" else None
    if file and not Path(file).expanduser().exists():
        raise TargetError(f"there is no file {file}")
    return target


class _MasterKey:
    """The first line of a file, read when the first encrypted value is met."""

    def __init__(self, place: str) -> None:
        self._file = Path(place).expanduser()
        self._password: str | None = None

    def decrypt(self, text: str) -> str:
        if self._password is None:
            try:
                self._password = self._file.read_text(encoding="utf-8").split("\n", 1)[0].removesuffix("\r")
            except UnicodeDecodeError:
                raise ConfigError(f"the master key file {self._file} is not UTF-8 text") from None
            except OSError as error:
                raise ConfigError(
                    f"the value is encrypted, and the master key file {self._file} cannot be read: {error.strerror}",
                    hint=f"set master_key_file, or {_KEY_PLACE} in wh_property",
                ) from None
        return decrypt(text, self._password)


def _rows(connection: sa.Connection, table: str, **where: object) -> Iterator[Found]:
    # All columns, whichever there are: they differ from version to version.
    query: sa.Select[Any] = sa.select(sa.literal_column("*")).select_from(sa.table(table))
    for column, value in where.items():
        query = query.where(sa.column(column) == value)
    return iter(connection.execute(query).mappings().all())


def _key_place(connection: sa.Connection, tables: set[str]) -> str:
    rows = _rows(connection, "wh_property", property_name=_KEY_PLACE) if "wh_property" in tables else iter(())
    return str(next(rows, {}).get("property_value") or _DEFAULT_KEY)


def _job(connection: sa.Connection, number: int, key: _MasterKey) -> StoredJob:
    label = f"wh_etl_job[{number}]"
    row = next(_rows(connection, "wh_etl_job", wh_etl_job_id=number), None)
    if row is None:
        return _missing(number, label)
    name, ref = row["wh_etl_job_name"], row["ref_id"]
    job = StoredJob(f"{name}-{ref}".lower(), label, disabled=(row.get("is_active") or "Y") != "Y")
    if name != _KAFKA:
        hint = f"jobs of this name are {_KAFKA}"
        job.problems.append((f"{label}.wh_etl_job_name", f"{name!r} is no Kafka job", hint))
        return job
    for each in _rows(connection, "wh_etl_job_property", wh_etl_job_name=name, ref_id=ref):
        _take(job, each, key)
    return job


def _take(job: StoredJob, row: Found, key: _MasterKey) -> None:
    name, value = str(row["property_name"]), row["property_value"]
    if value is None:
        return
    label = f"wh_etl_job_property[{row['id']}]"
    if (row["is_encrypted"] or "N") == "N":
        job.properties[name] = StoredProperty(str(value), label)
        return
    try:
        job.properties[name] = StoredProperty(key.decrypt(str(value)), label, secret=True)
    except ConfigError as error:
        job.problems.append((f"{label}.{name}", error.message, error.hint))


def _old_job(connection: sa.Connection, number: int) -> StoredJob:
    """A job of the first versions; its topics are rows."""
    label = f"wh_kafka_property[{number}]"
    row = next(_rows(connection, "wh_kafka_property", wh_kafka_property_id=number), None)
    if row is None:
        return _missing(number, label)
    job = StoredJob(f"kafka-{number}", label)
    for column, name in _OLD_PROPERTIES.items():
        if row.get(column) is not None:
            job.properties[name] = StoredProperty(str(row[column]), label)
    topics = list(_rows(connection, "wh_kafka_topic", wh_kafka_property_id=number))
    for column, name in _OLD_LISTS.items():
        job.properties[name] = StoredProperty(_joined(topics, column), f"wh_kafka_topic[{number}]")
    return job


def _joined(rows: Sequence[Found], column: str) -> str:
    return ",".join(str(row.get(column) or "") for row in rows)


def _missing(number: int, label: str) -> StoredJob:
    table = label.partition("[")[0]
    return StoredJob(f"job-{number}", label, problems=[(label, f"there is no job {number} in {table}", None)])
