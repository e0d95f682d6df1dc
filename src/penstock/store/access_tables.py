"""Tables of who may do what, who did what, and of the pipelines that people keep in the store. Times are epoch
milliseconds; users and projects, to which these refer, are tables of workflows."""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa

from penstock.store.tables import ID, ROW_ID, CleanText, JsonText, metadata
from penstock.store.workflow_tables import projects, users


def _text(name: str, *, nullable: bool = False, **options: Any) -> sa.Column[Any]:
    return sa.Column(name, CleanText(), nullable=nullable, **options)


def _number(name: str, *, nullable: bool = False, **options: Any) -> sa.Column[Any]:
    return sa.Column(name, sa.BigInteger(), nullable=nullable, **options)


def _user(**options: Any) -> sa.Column[Any]:
    return sa.Column("user_id", ID, sa.ForeignKey(users.c.id, ondelete="CASCADE"), **options)


credentials: Final = sa.Table(
    "penstock_credentials",
    metadata,
    _user(primary_key=True),
    # Argon2; none: the user logs in elsewhere, or not at all.
    _text("password", nullable=True),
    # Issuer and subject of an OpenID provider, as one text.
    _text("subject", nullable=True),
    _number("disabled_at", nullable=True),
    # Counts every change of the user, for whoever changes it from what was shown before.
    _number("revision", server_default="1"),
    _number("updated_at"),
    sa.Index("uq_penstock_credentials_subject", "subject", unique=True),
)

sessions: Final = sa.Table(
    "penstock_sessions",
    metadata,
    # SHA-256 of what the browser holds: who reads the store can log in as nobody.
    _text("id_hash", primary_key=True),
    _user(nullable=False),
    _number("created_at"),
    _number("seen_at"),
    _number("expires_at"),
    _text("address", nullable=True),
    _text("agent", nullable=True),
    sa.Index("ix_penstock_sessions_user", "user_id"),
    sa.Index("ix_penstock_sessions_expires", "expires_at"),
)

tokens: Final = sa.Table(
    "penstock_tokens",
    metadata,
    sa.Column("id", ID, primary_key=True),
    _text("name"),
    # SHA-256; the beginning is kept, so that people know which one it is.
    _text("hash", unique=True),
    _text("prefix"),
    # Whose rights bound the token's own; none: made by the command line or at the first start.
    _user(nullable=True),
    _text("role"),
    sa.Column("project_id", ID, sa.ForeignKey(projects.c.id, ondelete="CASCADE"), nullable=True),
    _text("created_by"),
    _number("created_at"),
    _number("expires_at", nullable=True),
    _number("used_at", nullable=True),
    _number("revoked_at", nullable=True),
    # The token that made this one: it is revoked together with that one. Tokens are never deleted by themselves.
    sa.Column("parent_id", ID, nullable=True),
    sa.Index("ix_penstock_tokens_user", "user_id"),
    sa.Index("ix_penstock_tokens_parent", "parent_id"),
)

token_sessions: Final = sa.Table(
    "penstock_token_sessions",
    metadata,
    # SHA-256 of what the browser holds, as above.
    _text("id_hash", primary_key=True),
    sa.Column("token_id", ID, sa.ForeignKey(tokens.c.id, ondelete="CASCADE"), nullable=False),
    _number("created_at"),
    _number("expires_at"),
    _text("address", nullable=True),
    _text("agent", nullable=True),
    sa.Index("ix_penstock_token_sessions_token", "token_id"),
    sa.Index("ix_penstock_token_sessions_expires", "expires_at"),
)

audit: Final = sa.Table(
    "penstock_audit",
    metadata,
    sa.Column("id", ROW_ID, primary_key=True),
    _number("at"),
    _text("actor"),
    _text("actor_kind"),
    _text("address", nullable=True),
    # What was done, as `pipelines.pause`, and on what, as `pipeline/orders`.
    _text("action"),
    _text("subject"),
    sa.Column("project_id", ID, nullable=True),
    # `begun` before the change, `done` or `failed` after it: a process that dies in between leaves the row.
    _text("outcome"),
    _text("before", nullable=True),
    _text("after", nullable=True),
    sa.Column("data", JsonText(), nullable=False, server_default="{}"),
    sa.Index("ix_penstock_audit_subject", "subject", "id"),
    sa.Index("ix_penstock_audit_actor", "actor", "id"),
    sa.Index("ix_penstock_audit_action", "action", "id"),
    sa.Index("ix_penstock_audit_at", "at", "id"),
    sqlite_autoincrement=True,
)

failed_logins: Final = sa.Table(
    "penstock_failed_logins",
    metadata,
    sa.Column("id", ROW_ID, primary_key=True),
    # SHA-256 of the address or the user: people also type passwords where users are asked for.
    _text("key_hash"),
    _number("at"),
    sa.Index("ix_penstock_failed_logins_key", "key_hash", "at"),
    sa.Index("ix_penstock_failed_logins_at", "at"),
)

managed_pipelines: Final = sa.Table(
    "penstock_managed_pipelines",
    metadata,
    _text("name", primary_key=True),
    sa.Column("project_id", ID, sa.ForeignKey(projects.c.id, ondelete="SET NULL"), nullable=True),
    # The document as it was written; secrets are references.
    _text("text"),
    _number("revision"),
    _text("changed_by"),
    _number("changed_at"),
    # Gone, but its versions are kept, and its name is free for the same project.
    _number("deleted_at", nullable=True),
)

managed_versions: Final = sa.Table(
    "penstock_managed_versions",
    metadata,
    _text("pipeline", primary_key=True),
    sa.Column("revision", sa.BigInteger(), primary_key=True, autoincrement=False),
    _text("text"),
    _text("changed_by"),
    _number("changed_at"),
)
