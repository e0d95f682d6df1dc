"""Projects, workflows, triggers, work orders and their runs, with an index of words."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0004"
down_revision = "0003"

ID = sa.String(36).with_variant(postgresql.UUID(as_uuid=False), "postgresql")
ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
WORDS = postgresql.TSVECTOR().with_variant(sa.Text(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "penstock_bulk_jobs",
        sa.Column("id", ID, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("request", sa.Text(), server_default="{}", nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("total", sa.BigInteger(), nullable=False),
        sa.Column("done", sa.BigInteger(), nullable=False),
        sa.Column("skipped", sa.BigInteger(), nullable=False),
        sa.Column("position", sa.Text(), nullable=True),
        sa.Column("asked_by", sa.Text(), nullable=True),
        sa.Column("claimed_by", sa.Text(), nullable=True),
        sa.Column("heartbeat_at", sa.BigInteger(), nullable=True),
        sa.Column("inserted_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "penstock_dataclips",
        sa.Column("id", ID, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("body", sa.Text(), nullable=True),
        sa.Column("request", sa.Text(), nullable=True),
        sa.Column("raw", sa.LargeBinary(), nullable=True),
        sa.Column("trigger_id", ID, nullable=True),
        sa.Column("topic", sa.Text(), nullable=True),
        sa.Column("topic_id", sa.Text(), nullable=True),
        sa.Column("partition", sa.Integer(), nullable=True),
        sa.Column("offset", sa.BigInteger(), nullable=True),
        sa.Column("wiped_at", sa.BigInteger(), nullable=True),
        sa.Column("inserted_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        "uq_penstock_dataclips_message",
        "penstock_dataclips",
        ["trigger_id", "topic_id", "partition", "offset"],
        unique=True,
        postgresql_where=sa.text("trigger_id IS NOT NULL"),
        sqlite_where=sa.text("trigger_id IS NOT NULL"),
    )
    op.create_table(
        "penstock_log_lines",
        sa.Column("id", ID, nullable=False),
        sa.Column("run_id", ID, nullable=False),
        sa.Column("step_id", ID, nullable=True),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("level", sa.Text(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("timestamp", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_penstock_log_lines_run", "penstock_log_lines", ["run_id", "timestamp", "id"])
    op.create_table(
        "penstock_positions",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("position", sa.Text(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "penstock_projects",
        sa.Column("id", ID, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("concurrency", sa.BigInteger(), nullable=True),
        sa.Column("soft_limit", sa.BigInteger(), nullable=True),
        sa.Column("hard_limit", sa.BigInteger(), nullable=True),
        sa.Column("limit_period", sa.Text(), server_default="month", nullable=False),
        sa.Column("retention_policy", sa.Text(), server_default="retain_all", nullable=False),
        sa.Column("history_retention", sa.BigInteger(), nullable=True),
        sa.Column("dataclip_retention", sa.BigInteger(), nullable=True),
        sa.Column("settings", sa.Text(), server_default="{}", nullable=False),
        sa.Column("inserted_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name"),
    )
    op.create_table(
        "penstock_runs",
        sa.Column("id", ID, nullable=False),
        sa.Column("work_order_id", ID, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("workflow_id", ID, nullable=False),
        sa.Column("snapshot_id", ID, nullable=False),
        sa.Column("starting_step", sa.Text(), nullable=True),
        sa.Column("starting_trigger_id", ID, nullable=True),
        sa.Column("created_by", sa.Text(), nullable=True),
        sa.Column("dataclip_id", ID, nullable=True),
        sa.Column("final_dataclip_id", ID, nullable=True),
        sa.Column("state", sa.Text(), server_default="available", nullable=False),
        sa.Column("error_type", sa.Text(), nullable=True),
        sa.Column("priority", sa.SmallInteger(), server_default="1", nullable=False),
        sa.Column("queue", sa.Text(), server_default="default", nullable=False),
        sa.Column("order_key", sa.Text(), nullable=True),
        sa.Column("worker_name", sa.Text(), nullable=True),
        sa.Column("heartbeat_at", sa.BigInteger(), nullable=True),
        sa.Column("options", sa.Text(), server_default="{}", nullable=False),
        sa.Column("claimed_at", sa.BigInteger(), nullable=True),
        sa.Column("started_at", sa.BigInteger(), nullable=True),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.Column("inserted_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        "ix_penstock_runs_available",
        "penstock_runs",
        ["queue", "workflow_id", "priority", "id"],
        postgresql_where=sa.text("state = 'available'"),
        sqlite_where=sa.text("state = 'available'"),
    )
    op.create_index(
        "ix_penstock_runs_backlog",
        "penstock_runs",
        ["starting_trigger_id"],
        postgresql_where=sa.text("state IN ('available', 'claimed', 'started')"),
        sqlite_where=sa.text("state IN ('available', 'claimed', 'started')"),
    )
    op.create_index(
        "ix_penstock_runs_held",
        "penstock_runs",
        ["worker_name", "id"],
        postgresql_where=sa.text("state IN ('claimed', 'started')"),
        sqlite_where=sa.text("state IN ('claimed', 'started')"),
    )
    op.create_index(
        "ix_penstock_runs_in_flight",
        "penstock_runs",
        ["project_id", "workflow_id"],
        postgresql_where=sa.text("state IN ('claimed', 'started')"),
        sqlite_where=sa.text("state IN ('claimed', 'started')"),
    )
    op.create_index(
        "ix_penstock_runs_order",
        "penstock_runs",
        ["workflow_id", "order_key", "id"],
        postgresql_where=sa.text("order_key IS NOT NULL AND state IN ('available', 'claimed', 'started')"),
        sqlite_where=sa.text("order_key IS NOT NULL AND state IN ('available', 'claimed', 'started')"),
    )
    op.create_index("ix_penstock_runs_work_order", "penstock_runs", ["work_order_id", "id"])
    op.create_table(
        "penstock_secrets",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.LargeBinary(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "penstock_steps",
        sa.Column("id", ID, nullable=False),
        sa.Column("run_id", ID, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("snapshot_id", ID, nullable=False),
        sa.Column("input_dataclip_id", ID, nullable=True),
        sa.Column("output_dataclip_id", ID, nullable=True),
        sa.Column("exit_reason", sa.Text(), nullable=True),
        sa.Column("error_type", sa.Text(), nullable=True),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_penstock_steps_run", "penstock_steps", ["run_id", "started_at", "id"])
    op.create_table(
        "penstock_usage",
        sa.Column("scope", ID, nullable=False),
        sa.Column("period", sa.Text(), nullable=False),
        sa.Column("work_orders", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("scope", "period"),
    )
    op.create_table(
        "penstock_users",
        sa.Column("id", ID, nullable=False),
        sa.Column("email", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("role", sa.Text(), nullable=True),
        sa.Column("inserted_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("email"),
    )
    op.create_table(
        "penstock_work_orders",
        sa.Column("id", ID, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("workflow_id", ID, nullable=False),
        sa.Column("snapshot_id", ID, nullable=False),
        sa.Column("trigger_id", ID, nullable=True),
        sa.Column("dataclip_id", ID, nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("last_activity", sa.BigInteger(), nullable=False),
        sa.Column("inserted_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        "ix_penstock_work_orders_activity",
        "penstock_work_orders",
        ["workflow_id", "state", "last_activity", "id", "trigger_id"],
    )
    op.create_index(
        "ix_penstock_work_orders_created",
        "penstock_work_orders",
        ["workflow_id", "state", "id", "last_activity", "trigger_id"],
    )
    op.create_table(
        "penstock_work_search",
        sa.Column("number", ROW_ID, nullable=False),
        sa.Column("work_order_id", ID, nullable=False),
        sa.Column("part", ID, nullable=False),
        sa.Column("words", WORDS, nullable=True),
        sa.PrimaryKeyConstraint("number"),
        sa.UniqueConstraint("work_order_id", "part", name="uq_penstock_work_search"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_penstock_work_search_part", "penstock_work_search", ["part"])
    op.create_index(
        "ix_penstock_work_search_words",
        "penstock_work_search",
        ["words"],
        postgresql_using="gin",
        sqlite_where=sa.text("words IS NOT NULL"),
    )
    op.create_table(
        "penstock_project_members",
        sa.Column("project_id", ID, nullable=False),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["penstock_projects.id"], ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["user_id"], ["penstock_users.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("project_id", "user_id"),
    )
    op.create_table(
        "penstock_workflows",
        sa.Column("id", ID, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("origin", sa.Text(), server_default="store", nullable=False),
        sa.Column("concurrency", sa.BigInteger(), nullable=True),
        sa.Column("snapshot_id", ID, nullable=True),
        sa.Column("deleted_at", sa.BigInteger(), nullable=True),
        sa.Column("inserted_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["penstock_projects.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        "uq_penstock_workflows_name",
        "penstock_workflows",
        ["project_id", "name"],
        unique=True,
        postgresql_where=sa.text("deleted_at IS NULL"),
        sqlite_where=sa.text("deleted_at IS NULL"),
    )
    op.create_table(
        "penstock_triggers",
        sa.Column("id", ID, nullable=False),
        sa.Column("workflow_id", ID, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("type", sa.Text(), server_default="kafka", nullable=False),
        sa.Column("enabled", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("comment", sa.Text(), nullable=True),
        sa.Column("kafka_configuration", sa.Text(), server_default="{}", nullable=False),
        sa.Column("options", sa.Text(), server_default="{}", nullable=False),
        sa.Column("revision", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("notified_at", sa.BigInteger(), nullable=True),
        sa.Column("unreported", sa.Text(), server_default="{}", nullable=False),
        sa.Column("deleted_at", sa.BigInteger(), nullable=True),
        sa.Column("inserted_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["workflow_id"], ["penstock_workflows.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        "uq_penstock_triggers_name",
        "penstock_triggers",
        ["workflow_id", "name"],
        unique=True,
        postgresql_where=sa.text("deleted_at IS NULL"),
        sqlite_where=sa.text("deleted_at IS NULL"),
    )
    op.create_table(
        "penstock_workflow_snapshots",
        sa.Column("id", ID, nullable=False),
        sa.Column("workflow_id", ID, nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("definition", sa.Text(), server_default="{}", nullable=False),
        sa.Column("inserted_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["workflow_id"], ["penstock_workflows.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("workflow_id", "version", name="uq_penstock_workflow_snapshots"),
    )

    if op.get_bind().dialect.name == "sqlite":
        # Without places of words, which only searches for phrases need: half the size.
        op.execute("CREATE VIRTUAL TABLE penstock_work_words USING fts5(words, detail = none, tokenize = 'ascii')")
