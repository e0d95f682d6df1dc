"""A lease for the digest of a trigger's failures while it is being sent, so that none is lost with the process."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.add_column("penstock_triggers", sa.Column("notifying_until", sa.BigInteger(), nullable=True))
