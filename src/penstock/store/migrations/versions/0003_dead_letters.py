"""Dead letters: replays that hold them, steps with their doers, large payloads, an index of texts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0003"
down_revision = "0002"

ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
GRAMS = postgresql.ARRAY(sa.SmallInteger()).with_variant(sa.Text(), "sqlite")


def upgrade() -> None:
    # Columns are only added, each with a default: instances of the version before go on writing rows meanwhile.
    for column in (
        sa.Column("claimed_by", sa.Text(), nullable=True),
        sa.Column("claimed_at", sa.BigInteger(), nullable=True),
        sa.Column("claimed_from", sa.Text(), nullable=True),
        sa.Column("changed_at", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("size", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("searchable", sa.Boolean(), server_default=sa.false(), nullable=False),
    ):
        op.add_column("penstock_dead_letters", column)
    op.create_index(
        "ix_penstock_dead_letters_unsearchable",
        "penstock_dead_letters",
        ["id"],
        postgresql_where=sa.text("searchable = false"),
        sqlite_where=sa.text("searchable = false"),
    )
    op.add_column("penstock_dead_letter_payloads", sa.Column("value_file", sa.Text(), nullable=True))
    op.add_column("penstock_dead_letter_steps", sa.Column("taken_by", sa.Text(), nullable=True))
    op.create_table(
        "penstock_dead_letter_search",
        sa.Column("letter_id", ROW_ID, autoincrement=False, nullable=False),
        sa.Column("last_failed_at", sa.BigInteger(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("grams", GRAMS, nullable=True),
        sa.ForeignKeyConstraint(["letter_id"], ["penstock_dead_letters.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("letter_id"),
    )
    op.create_index(
        "ix_penstock_dead_letter_search_grams",
        "penstock_dead_letter_search",
        ["grams"],
        postgresql_using="gin",
        sqlite_where=sa.text("grams IS NOT NULL"),
    )
    if op.get_bind().dialect.name == "postgresql":
        # The numbers are needed by their index only: apart from the rows, a search reads a third of the pages.
        op.execute("ALTER TABLE penstock_dead_letter_search SET (toast_tuple_target = 512)")
        op.execute("ALTER TABLE penstock_dead_letter_search ALTER COLUMN grams SET STORAGE EXTERNAL")
        for name in ("error", "content"):
            op.execute(f"ALTER TABLE penstock_dead_letter_search ALTER COLUMN {name} SET STORAGE MAIN")
