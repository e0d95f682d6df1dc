"""First schema: dead letters, pipelines, offsets, instances."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "penstock_dead_letters",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("pipeline", sa.Text(), nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("topic_id", sa.Text(), nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("offset", sa.BigInteger(), nullable=False),
        sa.Column("consumer_group", sa.Text(), nullable=False),
        sa.Column("spec_version", sa.Text(), nullable=False),
        sa.Column("timestamp", sa.BigInteger(), nullable=False),
        sa.Column("timestamp_type", sa.SmallInteger(), nullable=False),
        sa.Column("schema_id", sa.BigInteger(), nullable=True),
        sa.Column("stage", sa.Text(), nullable=False),
        sa.Column("error_code", sa.Text(), nullable=False),
        sa.Column("error_class", sa.Text(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("replays", sa.Integer(), server_default="0", nullable=False),
        sa.Column("status", sa.Text(), server_default="new", nullable=False),
        sa.Column("first_failed_at", sa.BigInteger(), nullable=False),
        sa.Column("last_failed_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("pipeline", "topic_id", "partition", "offset", name="uq_penstock_dead_letters_coordinates"),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "ix_penstock_dead_letters_fingerprint",
        "penstock_dead_letters",
        ["fingerprint", "last_failed_at", "id"],
        unique=False,
    )
    op.create_index(
        "ix_penstock_dead_letters_pipeline", "penstock_dead_letters", ["pipeline", "last_failed_at", "id"], unique=False
    )
    op.create_index(
        "ix_penstock_dead_letters_pipeline_status",
        "penstock_dead_letters",
        ["pipeline", "status", "last_failed_at", "id"],
        unique=False,
    )
    op.create_index("ix_penstock_dead_letters_recent", "penstock_dead_letters", ["last_failed_at", "id"], unique=False)
    op.create_index(
        "ix_penstock_dead_letters_stage", "penstock_dead_letters", ["stage", "last_failed_at", "id"], unique=False
    )
    op.create_index(
        "ix_penstock_dead_letters_status", "penstock_dead_letters", ["status", "last_failed_at", "id"], unique=False
    )
    op.create_index(
        "ix_penstock_dead_letters_topic",
        "penstock_dead_letters",
        ["topic", "partition", "last_failed_at", "id"],
        unique=False,
    )
    op.create_table(
        "penstock_desired_states",
        sa.Column("pipeline", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("set_by", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("set_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("pipeline"),
    )
    op.create_table(
        "penstock_instances",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("http_address", sa.Text(), nullable=True),
        sa.Column("heartbeat_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "penstock_mirrored_offsets",
        sa.Column("consumer_group", sa.Text(), nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("partition", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("topic_id", sa.Text(), nullable=False),
        sa.Column("offset", sa.BigInteger(), nullable=False),
        sa.Column("metadata", sa.Text(), nullable=False),
        sa.Column("mirrored_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("consumer_group", "topic", "partition"),
    )
    op.create_table(
        "penstock_partition_owners",
        sa.Column("pipeline", sa.Text(), nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("partition", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("instance", sa.Text(), nullable=False),
        sa.Column("committed", sa.BigInteger(), nullable=True),
        sa.Column("end", sa.BigInteger(), nullable=True),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("pipeline", "topic", "partition", "instance"),
    )
    op.create_index(
        "ix_penstock_partition_owners_instance", "penstock_partition_owners", ["instance", "pipeline"], unique=False
    )
    op.create_table(
        "penstock_pipeline_history",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("pipeline", sa.Text(), nullable=False),
        sa.Column("instance", sa.Text(), nullable=True),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("data", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        "ix_penstock_pipeline_history_pipeline", "penstock_pipeline_history", ["pipeline", "id"], unique=False
    )
    op.create_table(
        "penstock_pipeline_specs",
        sa.Column("pipeline", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("saved_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("pipeline", "version"),
    )
    op.create_table(
        "penstock_pipeline_states",
        sa.Column("pipeline", sa.Text(), nullable=False),
        sa.Column("instance", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("events", sa.BigInteger(), nullable=False),
        sa.Column("failures", sa.BigInteger(), nullable=False),
        sa.Column("acted", sa.BigInteger(), nullable=False),
        sa.Column("filtered", sa.BigInteger(), nullable=False),
        sa.Column("p50_ms", sa.Float(), nullable=True),
        sa.Column("p99_ms", sa.Float(), nullable=True),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("pipeline", "instance"),
    )
    op.create_table(
        "penstock_dead_letter_payloads",
        sa.Column("letter_id", ROW_ID, autoincrement=False, nullable=False),
        sa.Column("key", sa.LargeBinary(), nullable=True),
        sa.Column("value", sa.LargeBinary(), nullable=True),
        sa.Column("headers", sa.Text(), nullable=False),
        sa.Column("traceback", sa.Text(), nullable=False),
        sa.Column("value_seen", sa.LargeBinary(), nullable=True),
        sa.ForeignKeyConstraint(["letter_id"], ["penstock_dead_letters.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("letter_id"),
    )
    op.create_table(
        "penstock_dead_letter_steps",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("letter_id", ROW_ID, autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("data", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["letter_id"], ["penstock_dead_letters.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("letter_id", "at", "kind", name="uq_penstock_dead_letter_steps"),
    )
