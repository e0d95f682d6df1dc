"""Log-ins, tokens, the record of changes, and pipelines kept in the store."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0005"
down_revision = "0004"

ID = sa.String(36).with_variant(postgresql.UUID(as_uuid=False), "postgresql")
ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "penstock_credentials",
        sa.Column("user_id", ID, nullable=False),
        sa.Column("password", sa.Text(), nullable=True),
        sa.Column("subject", sa.Text(), nullable=True),
        sa.Column("disabled_at", sa.BigInteger(), nullable=True),
        sa.Column("revision", sa.BigInteger(), server_default="1", nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["penstock_users.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("user_id"),
    )
    op.create_index("uq_penstock_credentials_subject", "penstock_credentials", ["subject"], unique=True)
    op.create_table(
        "penstock_sessions",
        sa.Column("id_hash", sa.Text(), nullable=False),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("seen_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("address", sa.Text(), nullable=True),
        sa.Column("agent", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["user_id"], ["penstock_users.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id_hash"),
    )
    op.create_index("ix_penstock_sessions_user", "penstock_sessions", ["user_id"])
    op.create_index("ix_penstock_sessions_expires", "penstock_sessions", ["expires_at"])
    op.create_table(
        "penstock_tokens",
        sa.Column("id", ID, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("prefix", sa.Text(), nullable=False),
        sa.Column("user_id", ID, nullable=True),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("project_id", ID, nullable=True),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("used_at", sa.BigInteger(), nullable=True),
        sa.Column("revoked_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["user_id"], ["penstock_users.id"], ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["project_id"], ["penstock_projects.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("hash"),
    )
    op.create_index("ix_penstock_tokens_user", "penstock_tokens", ["user_id"])
    op.create_table(
        "penstock_audit",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("actor_kind", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=True),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("project_id", ID, nullable=True),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("before", sa.Text(), nullable=True),
        sa.Column("after", sa.Text(), nullable=True),
        sa.Column("data", sa.Text(), server_default="{}", nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_penstock_audit_subject", "penstock_audit", ["subject", "id"])
    op.create_index("ix_penstock_audit_actor", "penstock_audit", ["actor", "id"])
    op.create_index("ix_penstock_audit_action", "penstock_audit", ["action", "id"])
    op.create_index("ix_penstock_audit_at", "penstock_audit", ["at", "id"])
    op.create_table(
        "penstock_managed_pipelines",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("project_id", ID, nullable=True),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("changed_by", sa.Text(), nullable=False),
        sa.Column("changed_at", sa.BigInteger(), nullable=False),
        sa.Column("deleted_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["project_id"], ["penstock_projects.id"], ondelete="SET NULL"),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "penstock_managed_versions",
        sa.Column("pipeline", sa.Text(), nullable=False),
        sa.Column("revision", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("changed_by", sa.Text(), nullable=False),
        sa.Column("changed_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("pipeline", "revision"),
    )
