"""The store's tables. Times are epoch milliseconds; names carry a prefix, for the database may be shared."""

from __future__ import annotations

import json
from typing import Any, Final

import orjson
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

metadata: Final = sa.MetaData()


def clean(text: str) -> str:
    """Text that any database takes: messages may hold NUL and halves of surrogate pairs, PostgreSQL's text may not."""
    if "\0" in text:
        text = text.replace("\0", "\\x00")
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


class CleanText(sa.types.TypeDecorator[str]):
    """Text that is cleaned on its way in."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: sa.Dialect) -> str | None:  # noqa: ARG002 - SQLAlchemy's
        return None if value is None else clean(value)


class JsonText(sa.types.TypeDecorator[dict[str, Any]]):
    """A small mapping as JSON; escapes keep what `clean` would change. Texts in it are mostly plain."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: dict[str, Any] | None, dialect: sa.Dialect) -> str:  # noqa: ARG002 - see above
        try:
            return orjson.dumps(value or {}, default=str).decode()
        except orjson.JSONEncodeError:  # halves of surrogate pairs, numbers of more than 64 bits
            return json.dumps(value, default=str)

    def process_result_value(self, value: str | None, dialect: sa.Dialect) -> dict[str, Any]:  # noqa: ARG002 - see above
        loaded: dict[str, Any] = json.loads(value or "{}")
        return loaded


# SQLite numbers rows by itself only where the column is declared as INTEGER.
ROW_ID: Final = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
# UUIDs that grow with time, made by `core.ids`.
ID: Final = sa.String(36).with_variant(postgresql.UUID(as_uuid=False), "postgresql")


def _text(name: str, *, nullable: bool = False, primary_key: bool = False) -> sa.Column[Any]:
    return sa.Column(name, CleanText(), nullable=nullable, primary_key=primary_key)


def _number(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.BigInteger(), nullable=nullable)


def _letter_id(*, primary_key: bool) -> sa.Column[Any]:
    parent = sa.ForeignKey("penstock_dead_letters.id", ondelete="CASCADE")
    return sa.Column("letter_id", ROW_ID, parent, nullable=False, primary_key=primary_key, autoincrement=False)


dead_letters: Final = sa.Table(
    "penstock_dead_letters",
    metadata,
    sa.Column("id", ROW_ID, primary_key=True),
    _text("pipeline"),
    _text("topic"),
    _text("topic_id"),
    sa.Column("partition", sa.Integer(), nullable=False),
    _number("offset"),
    _text("consumer_group"),
    _text("spec_version"),
    _number("timestamp"),
    sa.Column("timestamp_type", sa.SmallInteger(), nullable=False),
    _number("schema_id", nullable=True),
    _text("stage"),
    _text("error_code"),
    _text("error_class"),
    _text("error"),
    _text("fingerprint"),
    sa.Column("attempts", sa.Integer(), nullable=False),
    sa.Column("replays", sa.Integer(), nullable=False, server_default="0"),
    sa.Column("status", CleanText(), nullable=False, server_default="new"),
    _number("first_failed_at"),
    _number("last_failed_at"),
    # Who replays it, since when (renewed while the replay lives), and the status it had before.
    _text("claimed_by", nullable=True),
    _number("claimed_at", nullable=True),
    _text("claimed_from", nullable=True),
    # When its status changed last; failures have a time of their own.
    sa.Column("changed_at", sa.BigInteger(), nullable=False, server_default="0"),
    sa.Column("size", sa.BigInteger(), nullable=False, server_default="0"),
    # False: written by an instance of an older version, whose letters are made searchable later.
    sa.Column("searchable", sa.Boolean(), nullable=False, server_default=sa.false()),
    sa.UniqueConstraint("pipeline", "topic_id", "partition", "offset", name="uq_penstock_dead_letters_coordinates"),
    # Every list is newest first: each filter has the order of the list behind it, so that a page is read, not sorted.
    sa.Index("ix_penstock_dead_letters_recent", "last_failed_at", "id"),
    sa.Index("ix_penstock_dead_letters_pipeline", "pipeline", "last_failed_at", "id"),
    # The console's usual question; also counts the open letters of each pipeline without a look at the rows.
    sa.Index("ix_penstock_dead_letters_pipeline_status", "pipeline", "status", "last_failed_at", "id"),
    sa.Index("ix_penstock_dead_letters_topic", "topic", "partition", "last_failed_at", "id"),
    sa.Index("ix_penstock_dead_letters_stage", "stage", "last_failed_at", "id"),
    sa.Index("ix_penstock_dead_letters_status", "status", "last_failed_at", "id"),
    sa.Index("ix_penstock_dead_letters_fingerprint", "fingerprint", "last_failed_at", "id"),
    sa.Index(
        "ix_penstock_dead_letters_unsearchable",
        "id",
        postgresql_where=sa.text("searchable = false"),
        sqlite_where=sa.text("searchable = false"),
    ),
    sqlite_autoincrement=True,  # an id that was shown to someone never names another letter
)

dead_letter_payloads: Final = sa.Table(
    "penstock_dead_letter_payloads",
    metadata,
    # Apart from the letters, so that lists and filters read narrow rows.
    _letter_id(primary_key=True),
    sa.Column("key", sa.LargeBinary()),
    sa.Column("value", sa.LargeBinary()),
    _text("headers"),
    _text("traceback"),
    sa.Column("value_seen", sa.LargeBinary()),
    # Where the value is not in the row but in a file beside a local store.
    _text("value_file", nullable=True),
)

dead_letter_search: Final = sa.Table(
    "penstock_dead_letter_search",
    metadata,
    _letter_id(primary_key=True),
    # As in the letter: what is found by its text is put in order without a look at the letters.
    _number("last_failed_at"),
    _text("error"),
    _text("content"),
    # What PostgreSQL finds the texts by; SQLite has none, and nothing in its index.
    sa.Column("grams", postgresql.ARRAY(sa.SmallInteger()).with_variant(sa.Text(), "sqlite")),
    sa.Index(
        "ix_penstock_dead_letter_search_grams",
        "grams",
        postgresql_using="gin",
        sqlite_where=sa.text("grams IS NOT NULL"),
    ),
)

dead_letter_steps: Final = sa.Table(
    "penstock_dead_letter_steps",
    metadata,
    sa.Column("id", ROW_ID, primary_key=True),
    _letter_id(primary_key=False),
    _number("at"),
    _text("kind"),
    _text("text"),
    _text("taken_by", nullable=True),
    sa.Column("data", JsonText(), nullable=False),
    # A settle whose answer was lost is done again: its step must not appear twice.
    sa.UniqueConstraint("letter_id", "at", "kind", name="uq_penstock_dead_letter_steps"),
)

letter_jobs: Final = sa.Table(
    "penstock_letter_jobs",
    metadata,
    # Replays and discards of many letters: each is done by the instance that was asked for it.
    sa.Column("id", ID, primary_key=True),
    _text("kind"),
    _text("asked_by"),
    _text("what"),
    # The pipelines whose letters it takes, each with its figures so far; empty where it may be any.
    sa.Column("pipelines", JsonText(), nullable=False),
    _text("state"),
    _number("total"),
    _number("done"),
    _text("note", nullable=True),
    _text("error", nullable=True),
    _text("instance"),
    # What it claims letters by, which also tells on the same machine whether its process lives.
    _text("runner"),
    _number("asked_at"),
    _number("started_at", nullable=True),
    _number("ended_at", nullable=True),
    _number("heartbeat_at"),
    # Since when others wonder whether its runner lives; its next word clears that.
    _number("missed_at", nullable=True),
    # Whoever runs it looks at this whenever it says how far it is.
    _number("stop_asked_at", nullable=True),
)

pipeline_states: Final = sa.Table(
    "penstock_pipeline_states",
    metadata,
    _text("pipeline", primary_key=True),
    _text("instance", primary_key=True),
    _text("state"),
    _text("reason", nullable=True),
    _number("events"),
    _number("failures"),
    _number("acted"),
    _number("filtered"),
    sa.Column("p50_ms", sa.Float()),
    sa.Column("p99_ms", sa.Float()),
    _number("updated_at"),
    # The revision of the desired state that the instance has carried out.
    _number("revision", nullable=True),
)

pipeline_specs: Final = sa.Table(
    "penstock_pipeline_specs",
    metadata,
    _text("pipeline", primary_key=True),
    _text("version", primary_key=True),
    _text("spec"),
    _number("saved_at"),
)

desired_states: Final = sa.Table(
    "penstock_desired_states",
    metadata,
    _text("pipeline", primary_key=True),
    _text("state"),
    _text("set_by", nullable=True),
    _text("reason", nullable=True),
    _number("set_at"),
    # Counts every change, so that a command can tell when instances have obeyed it.
    sa.Column("revision", sa.BigInteger(), nullable=False, server_default="0"),
    sa.Column("restarts", sa.BigInteger(), nullable=False, server_default="0"),
    _number("resume_at", nullable=True),
    sa.Column("rate_limit", sa.Float()),
    _text("held_by", nullable=True),
    _number("held_until", nullable=True),
    sa.Column("data", JsonText(), nullable=False, server_default="{}"),
)

pipeline_history: Final = sa.Table(
    "penstock_pipeline_history",
    metadata,
    sa.Column("id", ROW_ID, primary_key=True),
    _text("pipeline"),
    _text("instance", nullable=True),
    _number("at"),
    _text("kind"),
    _text("text"),
    sa.Column("data", JsonText(), nullable=False),
    sa.Index("ix_penstock_pipeline_history_pipeline", "pipeline", "id"),
)

mirrored_offsets: Final = sa.Table(
    "penstock_mirrored_offsets",
    metadata,
    _text("consumer_group", primary_key=True),
    _text("topic", primary_key=True),
    sa.Column("partition", sa.Integer(), primary_key=True, autoincrement=False),
    _text("topic_id"),
    _number("offset"),
    _text("metadata"),
    _number("mirrored_at"),
)

first_starts: Final = sa.Table(
    "penstock_first_starts",
    metadata,
    # One row per group, so that one insert decides between instances that start together.
    _text("consumer_group", primary_key=True),
    _number("started_at"),
    # Number of partitions by topic id.
    sa.Column("topics", JsonText(), nullable=False),
)

partition_owners: Final = sa.Table(
    "penstock_partition_owners",
    metadata,
    # The instance is part of the key: every instance reads every partition of a stateless pipeline.
    _text("pipeline", primary_key=True),
    _text("topic", primary_key=True),
    sa.Column("partition", sa.Integer(), primary_key=True, autoincrement=False),
    _text("instance", primary_key=True),
    _number("committed", nullable=True),
    _number("end", nullable=True),
    _number("updated_at"),
    sa.Index("ix_penstock_partition_owners_instance", "instance", "pipeline"),
)

instances: Final = sa.Table(
    "penstock_instances",
    metadata,
    _text("id", primary_key=True),
    _text("host"),
    sa.Column("pid", sa.Integer(), nullable=False),
    _text("version"),
    _number("started_at"),
    _text("http_address", nullable=True),
    _number("heartbeat_at"),
)
