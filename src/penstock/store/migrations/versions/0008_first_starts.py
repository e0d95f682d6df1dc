"""The first start of each consumer group: which topics it found, and how many partitions each had."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.create_table(
        "penstock_first_starts",
        sa.Column("consumer_group", sa.Text(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("topics", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("consumer_group"),
    )
