"""Another numbering of runs, by which also short texts are found: the texts of all letters are indexed anew."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0006"
down_revision = "0005"

TABLE = "penstock_dead_letter_search"


def upgrade() -> None:
    if op.get_bind().dialect.name != "postgresql":
        return
    # An instance numbers them again, piece by piece; until then a letter's text may not be found.
    op.drop_column(TABLE, "grams")
    op.add_column(TABLE, sa.Column("grams", postgresql.ARRAY(sa.SmallInteger()), nullable=True))
    op.execute(f"ALTER TABLE {TABLE} ALTER COLUMN grams SET STORAGE EXTERNAL")
    # Without statistics the planner always asks the index. It would rather look at all rows for what it takes to be
    # frequent, and so fetch all numbers of all of them; what is frequent is found before the index is asked.
    op.execute(f"ALTER TABLE {TABLE} ALTER COLUMN grams SET STATISTICS 0")
    op.create_index("ix_penstock_dead_letter_search_grams", TABLE, ["grams"], postgresql_using="gin")
    op.execute("UPDATE penstock_dead_letters SET searchable = false WHERE searchable")
