"""How a request becomes an actor: by a session's cookie, by a token, or by being here where no log-in is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import structlog

from penstock.config.settings import Settings
from penstock.core.clock import SYSTEM, Clock, format_time
from penstock.core.errors import PenstockError, Terminal
from penstock.service.access import Actor, Role, at_most, member_role, system_actor
from penstock.service.attempts import Attempts, address_key, token_key, user_key
from penstock.service.audit import audited
from penstock.service.passwords import SHOWN, TOKEN_PREFIX, csrf_of, digest, new_key, same, verify_password
from penstock.service.pipelines import person
from penstock.store import PersonRow, Store, TokenRow

log = structlog.get_logger("penstock.access")

SESSION_COOKIE: Final = "penstock_session"
CSRF_HEADER: Final = "x-csrf-token"


class LogInFirst(PenstockError, Terminal):
    """Nobody has logged in, or what was shown is no longer good."""

    code = "unauthenticated"


class CsrfMissing(PenstockError, Terminal):
    """A change was asked for by a page that does not know the session's CSRF token."""

    code = "csrf"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedIn:
    """A session that has begun."""

    session: str
    """For the cookie only."""
    csrf: str
    expires_at: int
    """Epoch milliseconds."""
    seconds: float
    actor: Actor


class Authentication:
    """Knows who asks. Threads may share it."""

    def __init__(self, store: Store, settings: Settings, clock: Clock = SYSTEM) -> None:
        self._store, self._http = store, settings.http
        self._attempts = Attempts(store.failed_logins, settings.http.attempts, clock)

    @property
    def required(self) -> bool:
        """Whether a log-in is asked for."""
        return self._http.auth != "off"

    def actor_of(
        self, headers: Mapping[str, str], cookies: Mapping[str, str], address: str | None = None
    ) -> Actor | None:
        """Who asks; None: nobody that is known. A token that is no longer good is an error that says so."""
        if not self.required:
            return system_actor(person(), address)
        key = _bearer(headers)
        if key is not None:
            return self._by_token(key, address)
        return self._by_session(cookies.get(SESSION_COOKIE), address)

    def check_csrf(self, headers: Mapping[str, str], cookies: Mapping[str, str]) -> None:
        """For changes that a browser asks for by its cookie: a page of somebody else's could make it do that."""
        if not self.required or _bearer(headers) is not None:
            return  # another scheme is somebody else's, a proxy's for instance, and browsers send it by themselves
        session = cookies.get(SESSION_COOKIE)
        if session and not same(headers.get(CSRF_HEADER, ""), csrf_of(session)):
            raise CsrfMissing(
                "the request does not carry the session's CSRF token",
                hint=f"send what GET /api/v1/session gives as the header {CSRF_HEADER}",
            )

    def log_in(self, email: str, password: str, *, address: str | None = None, agent: str | None = None) -> LoggedIn:
        """Begin a session; `LogInFirst` where user or password is wrong, `TooManyAttempts` after too many of those."""
        keys = (address_key(address), user_key(email))
        self._attempts.check(*keys)
        user = self._store.people.by_email(email)
        right = verify_password(user.password if user else None, password)
        if user is None or not right or user.disabled_at is not None:
            self._attempts.failed(*keys)
            log.warning("log-in failed", address=address)
            raise LogInFirst("the user or the password is wrong")
        # Not the address: who has a user here could try the passwords of all others, between log-ins of their own.
        self._attempts.succeeded(user_key(email))
        return self.begin(user, address=address, agent=agent)

    def begin(self, user: PersonRow, *, address: str | None = None, agent: str | None = None) -> LoggedIn:
        """A session for somebody who has shown who they are."""
        session, seconds = new_key(), self._http.session
        actor = actor_for(user, address)
        with audited(self._store, actor, "session.begin", f"user/{user.email}"):
            ends = self._store.sessions.begin(
                digest(session), user.id, seconds=seconds, address=address, agent=(agent or "")[:200] or None
            )
        return LoggedIn(session=session, csrf=csrf_of(session), expires_at=ends, seconds=seconds, actor=actor)

    def log_out(self, session: str | None) -> None:
        if session:
            self._store.sessions.end(digest(session))

    def first_token(self) -> str | None:
        """Where a log-in is asked for and nobody could yet: an admin's token, shown this once."""
        if not self.required or self._store.people.all() or self._store.tokens.all():
            return None
        key = new_key(TOKEN_PREFIX)
        actor = system_actor(person())
        with audited(self._store, actor, "tokens.create", "token/first start"):
            self._store.tokens.create("first start", digest(key), key[:SHOWN], role="admin", by=actor.name)
        return key

    def _by_session(self, session: str | None, address: str | None) -> Actor | None:
        row = self._store.sessions.get(digest(session)) if session else None
        user = self._store.people.get(row.user_id) if row else None
        if user is None or user.disabled_at is not None:
            return None
        return actor_for(user, address)

    def _by_token(self, key: str, address: str | None) -> Actor:
        row = self._store.tokens.by_hash(digest(key)) if key.startswith(TOKEN_PREFIX) else None
        if row is None:
            # Only those that fail: many programs may come from one address, and nobody guesses a good token.
            self._attempts.recall(token_key(address))
            self._attempts.check(token_key(address))
            self._attempts.failed(token_key(address))
            raise LogInFirst("the token is not known", hint="`penstock tokens create` makes one")
        if row.revoked_at is not None:
            raise LogInFirst(f"the token {row.prefix}… was revoked", hint="make another one")
        if row.expired and row.expires_at is not None:
            raise LogInFirst(f"the token {row.prefix}… expired at {format_time(row.expires_at)}", hint="make another")
        return self._holder(row, address)

    def _holder(self, row: TokenRow, address: str | None) -> Actor:
        """The token's own rights, within those that its user has now."""
        role: Role = member_role(row.role)
        name = f"token {row.name}"
        user = self._store.people.get(row.user_id) if row.user_id else None
        if row.user_id is None:
            if row.project_id is None:
                return Actor(name=name, role=role, kind="token", address=address)
            return Actor(name=name, projects={row.project_id: role}, kind="token", address=address)
        if user is None or user.disabled_at is not None:
            raise LogInFirst(f"the user of the token {row.prefix}… is gone", hint="make another one")
        whole = actor_for(user, address)
        name = f"{user.email} ({name})"
        if row.project_id is not None:
            own = at_most(whole.role_in(row.project_id), role)
            projects = {row.project_id: own} if own is not None else {}
            return Actor(name=name, projects=projects, kind="token", address=address, user_id=user.id)
        projects = {project: at_most(own, role) or role for project, own in whole.projects.items()}
        own = at_most(whole.role, role)
        return Actor(name=name, role=own, projects=projects, kind="token", address=address, user_id=user.id)


def _bearer(headers: Mapping[str, str]) -> str | None:
    """The token that is shown, if any."""
    scheme, _, key = headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else None


def actor_for(user: PersonRow, address: str | None = None) -> Actor:
    """A user as an actor."""
    projects = {project: member_role(role) for project, role in user.projects.items()}
    role = member_role(user.role) if user.role else None
    return Actor(name=user.email, role=role, projects=projects, kind="person", address=address, user_id=user.id)
