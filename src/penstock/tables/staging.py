"""The staging tables that processors fill, as WhereHows named them (spellings included), and the load status."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import sqlalchemy as sa

from penstock.tables.column_kinds import big, long_text, name_text, text

metadata: Final = sa.MetaData()

_MYSQL: Final = ("mysql", "mariadb")
NOTES: Final = "ps_notes"
"""Column that lists the columns which fell back to 0."""


def _origin() -> list[sa.Column[Any]]:
    """Where a row comes from; WhereHows did not keep it."""
    return [
        text("ps_topic"),
        sa.Column("ps_partition", sa.Integer()),
        big("ps_offset"),
        big("ps_ingested_at"),
        text(NOTES),
    ]


def _staging(name: str, identity: Sequence[str], *columns: sa.Column[Any]) -> sa.Table:
    table = sa.Table(name, metadata, *columns, *_origin())
    # NULL equals NULL: a compaction without a partition is one row, however often it is told.
    key = sa.Index(f"uq_{name}", *(table.c[c] for c in identity), unique=True, postgresql_nulls_not_distinct=True)
    key.ddl_if(callable_=_not_mysql)
    # The merge asks for what happened in a range of time, and for what was written since it last ran.
    for column in ("log_event_time", "ps_ingested_at"):
        sa.Index(f"ix_{name}_{column}", table.c[column])
    sa.event.listen(table, "after_create", _mysql_identity(name, table, identity))
    _IDENTITIES[name] = tuple(identity)
    return table


def _not_mysql(*_: Any, dialect: sa.Dialect, **_rest: Any) -> bool:
    return dialect.name not in _MYSQL


def _mysql_identity(name: str, table: sa.Table, identity: Sequence[str]) -> Any:
    """MySQL has neither equal NULLs nor long keys: the row's identity is the hash of what it consists of."""
    # Texts hold no NUL, so it parts them; `=` tells an empty text from NULL.
    parts = ", ".join(f"coalesce(concat('=', `{column}`), '-')" for column in identity)
    made: Any = sa.DDL(  # type: ignore[no-untyped-call]  # SQLAlchemy has no types here
        f"ALTER TABLE `{table.name}` ADD COLUMN `ps_identity` CHAR(64) CHARACTER SET ascii"
        f" AS (sha2(concat_ws(char(0), {parts}), 256)) VIRTUAL, ADD UNIQUE KEY `uq_{name}` (`ps_identity`)"
    )
    return made.execute_if(dialect=_MYSQL)


_UNUSED: Final = ("old_info", "new_info")
_IDENTITIES: Final[dict[str, tuple[str, ...]]] = {}
_JOB: Final = ("project_name", "flow_name", "job_name")
_EVENT: Final = ("dataset", "cluster", "log_event_time", "job_context", "partition_name")

stg_kafka_gobblin_compaction: Final = _staging(
    "stg_kafka_gobblin_compaction",
    _EVENT,
    text("cluster", nullable=False),
    text("dataset", nullable=False),
    text("partition_type"),
    text("partition_name"),
    big("record_count"),
    big("late_record_count"),
    text("dedupe_status"),
    text("job_context"),
    *(text(name) for name in _JOB),
    sa.Column("flow_exec_id", sa.Integer()),
    big("log_event_time", nullable=False),
)

stg_kafka_gobblin_lumos: Final = _staging(
    "stg_kafka_gobblin_lumos",
    (*_EVENT, "subpartition_name"),
    text("cluster", nullable=False),
    text("dataset", nullable=False),
    text("location", nullable=False),
    text("partition_type"),
    text("partition_name"),
    text("subpartition_type"),
    text("subpartition_name"),
    big("max_data_date_epoch3"),
    big("max_data_key"),
    big("record_count"),
    text("source_datacenter"),
    text("source_deployment_env"),
    text("source_database"),
    text("source_table"),
    text("job_context"),
    *(text(name) for name in _JOB),
    sa.Column("flow_exec_id", sa.Integer()),
    big("log_event_time", nullable=False),
)

stg_kafka_gobblin_distcp: Final = _staging(
    "stg_kafka_gobblin_distcp",
    _EVENT,
    text("cluster", nullable=False),
    text("dataset", nullable=False),
    text("partition_type"),
    text("partition_name"),
    big("upsteam_timestamp"),
    big("origin_timestamp"),
    text("source_path"),
    text("target_path"),
    text("job_context"),
    *(text(name) for name in _JOB),
    sa.Column("flow_exec_id", sa.Integer()),
    big("log_event_time", nullable=False),
)

stg_kafka_metastore_audit: Final = _staging(
    "stg_kafka_metastore_audit",
    ("db_name", "table_name", "time_partition", "instance", "log_event_time", "event_type", "event_name"),
    text("server", nullable=False),
    text("instance", nullable=False),
    text("app_name", nullable=False),
    text("event_name", nullable=False),
    text("event_type", nullable=False),
    big("log_event_time", nullable=False),
    text("metastore_thrift_uri"),
    text("metastore_version"),
    sa.Column("is_successful", sa.String(5)),
    sa.Column("is_data_deleted", sa.String(5)),
    text("db_name", nullable=False),
    text("table_name", nullable=False),
    text("time_partition", nullable=False),
    text("location"),
    text("owner"),
    big("create_time"),
    big("last_access_time"),
    long_text("old_info"),
    long_text("new_info"),
)

log_dataset_instance_load_status: Final = sa.Table(
    "log_dataset_instance_load_status",
    metadata,
    sa.Column("dataset_id", sa.BigInteger(), primary_key=True, autoincrement=False, server_default="0"),
    sa.Column("db_id", sa.Integer(), primary_key=True, autoincrement=False, server_default="0"),
    name_text("dataset_type", 30, nullable=False),
    # Unknown datasets all have the id 0: only their names tell them apart.
    name_text("dataset_native_name", 350, primary_key=True),
    name_text("operation_type", 50),
    name_text("partition_grain", 30, primary_key=True),
    name_text("partition_expr", 350, primary_key=True),
    sa.Column("data_time_expr", sa.String(20), nullable=False),
    sa.Column("data_time_epoch", sa.BigInteger(), primary_key=True, autoincrement=False),
    big("record_count"),
    big("size_in_byte"),
    big("log_time_epoch", nullable=False),
    name_text("ref_dataset_type", 30),
    sa.Column("ref_db_id", sa.Integer()),
    text("ref_uri"),
    sa.Column("last_modified", sa.DateTime()),
    sa.Index("ix_log_dataset_instance_load_status_name", "dataset_native_name"),
    sa.Index("ix_log_dataset_instance_load_status_uri", "ref_uri", mysql_length={"ref_uri": 255}),
)

# Names that early installations used for the same tables.
_EARLY_NAMES: Final = {
    "stg_gobblin_tracking_compaction": "stg_kafka_gobblin_compaction",
    "stg_gobblin_tracking_lumos": "stg_kafka_gobblin_lumos",
    "stg_gobblin_tracking_distcp_ng": "stg_kafka_gobblin_distcp",
    "stg_metastore_audit": "stg_kafka_metastore_audit",
}


def identity_of(table_name: str) -> tuple[str, ...] | None:
    """The columns that tell one row of a staging table from another, where NULL equals NULL; None: no staging table."""
    bare = table_name.rpartition(".")[2]
    return _IDENTITIES.get(_EARLY_NAMES.get(bare, bare))


def filled_columns(table: sa.Table) -> tuple[str, ...]:
    """Columns that a processor fills; those that Penstock adds may be missing in a table of WhereHows' own."""
    return tuple(c.name for c in table.columns if not c.name.startswith("ps_") and c.name not in _UNUSED)


def required_columns(table: sa.Table) -> tuple[str, ...]:
    """Columns without which a row is not stored."""
    return tuple(column.name for column in table.columns if not column.nullable)
