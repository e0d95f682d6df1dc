"""Sessions of browsers and tokens of programs, each known only by its hash."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa

from penstock.core.ids import new_id
from penstock.store.access_tables import sessions, token_sessions, tokens
from penstock.store.database import Database

_USED_EVERY: Final = 60_000
"""Milliseconds: that a token or session was used is written down no more often than this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRow:
    """Somebody is logged in."""

    user_id: str
    created_at: int
    seen_at: int
    expires_at: int
    address: str | None = None
    agent: str | None = None


class Sessions:
    """The repository of sessions."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def begin(self, id_hash: str, user_id: str, *, seconds: float, address: str | None, agent: str | None) -> int:
        """When it ends, epoch milliseconds; sessions that have ended are forgotten on the way."""
        with self._database.write() as connection:
            now = self._database.now(connection)
            connection.execute(sa.delete(sessions).where(sessions.c.expires_at <= now))
            values = {
                "id_hash": id_hash,
                "user_id": user_id,
                "created_at": now,
                "seen_at": now,
                "expires_at": now + int(seconds * 1000),
                "address": address,
                "agent": agent,
            }
            connection.execute(sa.insert(sessions), values)
        return now + int(seconds * 1000)

    def get(self, id_hash: str) -> SessionRow | None:
        """None where there is none that has not ended."""
        columns = [column for column in sessions.c if column.name != "id_hash"]
        with self._database.read() as connection:
            now = self._database.now(connection)
            mine = (sessions.c.id_hash == id_hash) & (sessions.c.expires_at > now)
            found = connection.execute(sa.select(*columns).where(mine)).mappings().one_or_none()
        if found is None:
            return None
        if now - found["seen_at"] > _USED_EVERY:
            with self._database.write() as connection:
                connection.execute(sa.update(sessions).where(sessions.c.id_hash == id_hash).values(seen_at=now))
        return SessionRow(**found)

    def end(self, id_hash: str) -> None:
        with self._database.write() as connection:
            connection.execute(sa.delete(sessions).where(sessions.c.id_hash == id_hash))
            connection.execute(sa.delete(token_sessions).where(token_sessions.c.id_hash == id_hash))

    def begin_by_token(
        self, id_hash: str, row: TokenRow, *, seconds: float, address: str | None, agent: str | None
    ) -> int:
        """A session with a token's rights, which ends when the token does at the latest. When it ends, epoch
        milliseconds."""
        with self._database.write() as connection:
            now = self._database.now(connection)
            connection.execute(sa.delete(token_sessions).where(token_sessions.c.expires_at <= now))
            ends = now + int(seconds * 1000)
            ends = ends if row.expires_at is None else min(ends, row.expires_at)
            values = {"id_hash": id_hash, "token_id": row.id, "created_at": now, "expires_at": ends}
            connection.execute(sa.insert(token_sessions), values | {"address": address, "agent": agent})
        return ends

    def token_of(self, id_hash: str) -> str | None:
        """The id of the token that a session was begun with; None where there is no such session, or it has ended."""
        c = token_sessions.c
        with self._database.read() as connection:
            mine = (c.id_hash == id_hash) & (c.expires_at > self._database.now(connection))
            found: str | None = connection.scalar(sa.select(c.token_id).where(mine))
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRow:
    """What a program shows to be let in."""

    id: str
    name: str
    prefix: str
    user_id: str | None = None
    role: str
    project_id: str | None = None
    created_by: str
    created_at: int
    expires_at: int | None = None
    used_at: int | None = None
    revoked_at: int | None = None
    parent_id: str | None = None
    """The token that made this one."""
    read_at: int = 0
    """The store's clock when the row was read."""

    @property
    def expired(self) -> bool:
        return self.expires_at is not None and self.expires_at <= self.read_at


_TOKEN: Final = [column for column in tokens.c if column.name != "hash"]


class Tokens:
    """The repository of tokens."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(
        self,
        name: str,
        digest: str,
        prefix: str,
        *,
        role: str,
        by: str,
        user_id: str | None = None,
        project_id: str | None = None,
        seconds: float | None = None,
        until: int | None = None,
        parent_id: str | None = None,
    ) -> TokenRow:
        """`seconds`: how long it is good for; None: until it is revoked. `until`: the latest time, epoch milliseconds,
        whatever `seconds` says."""
        with self._database.write() as connection:
            now = self._database.now(connection)
            ends = [now + int(seconds * 1000)] if seconds is not None else []
            ends += [until] if until is not None else []
            values = {
                "id": new_id(),
                "name": name,
                "hash": digest,
                "prefix": prefix,
                "user_id": user_id,
                "role": role,
                "project_id": project_id,
                "created_by": by,
                "created_at": now,
                "expires_at": min(ends, default=None),
                "parent_id": parent_id,
            }
            connection.execute(sa.insert(tokens), values)
            return self._read(connection, tokens.c.id == values["id"])[0]

    def by_hash(self, digest: str) -> TokenRow | None:
        """Also one that has expired or was revoked: whoever asks can say so."""
        with self._database.read() as connection:
            found = self._read(connection, tokens.c.hash == digest)
        if not found:
            return None
        [row] = found
        if not row.expired and row.revoked_at is None and row.read_at - (row.used_at or 0) > _USED_EVERY:
            with self._database.write() as connection:
                connection.execute(sa.update(tokens).where(tokens.c.id == row.id).values(used_at=row.read_at))
        return row

    def get(self, token_id: str) -> TokenRow | None:
        with self._database.read() as connection:
            found = self._read(connection, tokens.c.id == token_id)
        return found[0] if found else None

    def all(self, user_id: str | None = None) -> list[TokenRow]:
        """Newest first; of one user, or all."""
        wanted = [] if user_id is None else [tokens.c.user_id == user_id]
        with self._database.read() as connection:
            return self._read(connection, *wanted)

    def revoke(self, token_id: str) -> bool:
        """With all that it made, and that those made. False where there is none, or it was revoked before."""
        c = tokens.c
        with self._database.write() as connection:
            now = self._database.now(connection)
            done, revoked = False, [token_id]
            while revoked:
                mine = c.id.in_(revoked) & c.revoked_at.is_(None)
                done |= bool(connection.execute(sa.update(tokens).where(mine).values(revoked_at=now)).rowcount)
                open_ones = sa.select(c.id).where(c.parent_id.in_(revoked), c.revoked_at.is_(None))
                revoked = list(connection.execute(open_ones).scalars())
            return done

    def _read(self, connection: sa.Connection, *conditions: sa.ColumnElement[bool]) -> list[TokenRow]:
        now = self._database.now(connection)
        query = sa.select(*_TOKEN).where(*conditions).order_by(tokens.c.created_at.desc(), tokens.c.id.desc())
        return [TokenRow(**row, read_at=now) for row in connection.execute(query).mappings()]
