"""What pipelines should do: revisions, restarts, timed resumes, live rate limits, leases for offset resets."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    # Columns are only added, each with a default: instances of the version before go on writing rows meanwhile.
    for column in (
        sa.Column("revision", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("restarts", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("resume_at", sa.BigInteger(), nullable=True),
        sa.Column("rate_limit", sa.Float(), nullable=True),
        sa.Column("held_by", sa.Text(), nullable=True),
        sa.Column("held_until", sa.BigInteger(), nullable=True),
        sa.Column("data", sa.Text(), server_default="{}", nullable=False),
    ):
        op.add_column("penstock_desired_states", column)
    op.add_column("penstock_pipeline_states", sa.Column("revision", sa.BigInteger(), nullable=True))
