"""Sessions that were begun with a token, and which token made which."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0010"
down_revision = "0009"

ID = sa.String(36).with_variant(postgresql.UUID(as_uuid=False), "postgresql")


def upgrade() -> None:
    op.add_column("penstock_tokens", sa.Column("parent_id", ID, nullable=True))
    op.create_index("ix_penstock_tokens_parent", "penstock_tokens", ["parent_id"])
    op.create_table(
        "penstock_token_sessions",
        sa.Column("id_hash", sa.Text(), nullable=False),
        sa.Column("token_id", ID, nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("address", sa.Text(), nullable=True),
        sa.Column("agent", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["token_id"], ["penstock_tokens.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id_hash"),
    )
    op.create_index("ix_penstock_token_sessions_token", "penstock_token_sessions", ["token_id"])
    op.create_index("ix_penstock_token_sessions_expires", "penstock_token_sessions", ["expires_at"])
