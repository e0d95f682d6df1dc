"""How a request becomes an actor: by a session's cookie, by a token, or by being here where no log-in is asked for."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from penstock.config.http_settings import HttpSettings
from penstock.config.settings import Settings
from penstock.core.clock import SYSTEM, Clock, format_time
from penstock.core.errors import ConfigError, PenstockError, Terminal, Unavailable
from penstock.service.access import Actor, Role, at_most, member_role, system_actor
from penstock.service.attempts import Attempts, address_key, token_key, user_key
from penstock.service.audit import Recent, audited, record
from penstock.service.passwords import SHOWN, TOKEN_PREFIX, csrf_of, digest, new_key, same, verify_password
from penstock.service.pipelines import person
from penstock.store import PersonRow, Store, TokenRow

log = structlog.get_logger("penstock.access")

SESSION_COOKIE: Final = "penstock_session"
SECURE_COOKIE: Final = "__Host-penstock_session"
"""Over TLS: browsers take it from this very host only, over TLS only."""
FIRST_TOKEN: Final = "first-token"  # noqa: S105 - the name of a file
FIRST_TOKEN_AGE: Final = 86_400.0
"""Seconds for which the first token is good."""
_FAILED_AGAIN: Final = 300.0
"""Seconds after which another use of a token that is no longer good is written down again."""
_BY_TOKEN: Final = "token-"  # noqa: S105 - what sessions begin with that a token began
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
        self._store, self._http, self._settings = store, settings.http, settings
        self._recent = Recent(_FAILED_AGAIN)
        self._attempts = Attempts(store.failed_logins, settings.http.attempts, clock)

    @property
    def required(self) -> bool:
        """Whether a log-in is asked for."""
        return self._http.auth != "off"

    @property
    def takes_passwords(self) -> bool:
        """Whether people may log in by a password."""
        return self._http.passwords

    @property
    def has_provider(self) -> bool:
        """Whether people may log in at an OpenID provider."""
        return self._http.auth == "oidc"

    def actor_of(
        self, headers: Mapping[str, str], cookies: Mapping[str, str], address: str | None = None
    ) -> Actor | None:
        """Who asks; None: nobody that is known. A token that is no longer good is an error that says so."""
        if not self.required:
            return system_actor(person(), address)
        key = _bearer(headers)
        if key is not None:
            return self._holder(self._token(key, address), address)
        return self._by_session(self.session_of(cookies), address)

    def session_of(self, cookies: Mapping[str, str]) -> str | None:
        """The session that a browser brings. Where people come over TLS, a cookie that another host of the same domain
        could have set is not one."""
        secure = cookies.get(SECURE_COOKIE)
        return secure if secure or self._settings.is_https else cookies.get(SESSION_COOKIE)

    def is_secure(self, scheme: str) -> bool:
        """Whether cookies are for TLS only: the request came over it, or people do."""
        return scheme == "https" or self._settings.is_https

    def check_csrf(self, headers: Mapping[str, str], cookies: Mapping[str, str]) -> None:
        """For changes that a browser asks for by its cookie: a page of somebody else's could make it do that."""
        if not self.required or _bearer(headers) is not None:
            return  # another scheme is somebody else's, a proxy's for instance, and browsers send it by themselves
        session = self.session_of(cookies)
        if session and not same(headers.get(CSRF_HEADER, ""), csrf_of(session)):
            raise CsrfMissing(
                "the request does not carry the session's CSRF token",
                hint=f"send what GET /api/v1/session gives as the header {CSRF_HEADER}",
            )

    def log_in(self, email: str, password: str, *, address: str | None = None, agent: str | None = None) -> LoggedIn:
        """Begin a session; `LogInFirst` where user or password is wrong, `TooManyAttempts` after too many of those."""
        if not self.takes_passwords:
            raise LogInFirst("passwords are not taken here", hint="log in at the OpenID provider, or with a token")
        with self._attempts.counted(address_key(address), user_key(email)) as attempt:
            user = self._store.people.by_email(email)
            right = verify_password(user.password if user else None, password)
            if user is not None and right and user.disabled_at is None and not logs_in_elsewhere(user, self._http):
                # Not the address: who has a user here could try the passwords of all others, between log-ins of their
                # own.
                attempt.succeeded, attempt.forgiven = True, [user_key(email)]
        if user is None or not attempt.succeeded:
            # Not what was typed: people type passwords where users are asked for.
            self.note_failure(f"user/{user.email}" if user else "user/unknown", address, by="password")
            if self._attempts.is_closed(address_key(address), user_key(email)):
                self._record("session.locked", f"user/{user.email}" if user else "user/unknown", address)
            raise LogInFirst("the user or the password is wrong")
        return self.begin(user, address=address, agent=agent)

    def log_in_with_token(self, key: str, *, address: str | None = None, agent: str | None = None) -> LoggedIn:
        """Begin a session with a token's rights, which ends with the token; `LogInFirst` where it is not good."""
        row = self._token(key.strip(), address)
        session, actor = new_key(_BY_TOKEN), self._holder(row, address)
        with audited(self._store, actor, "session.begin", f"token/{row.name}", project=row.project_id):
            ends = self._store.sessions.begin_by_token(
                digest(session), row, seconds=self._http.session, address=address, agent=(agent or "")[:200] or None
            )
        return self._begun(session, ends, actor)

    def begin(self, user: PersonRow, *, address: str | None = None, agent: str | None = None) -> LoggedIn:
        """A session for somebody who has shown who they are."""
        session = new_key()
        actor = actor_for(user, address)
        with audited(self._store, actor, "session.begin", f"user/{user.email}"):
            ends = self._store.sessions.begin(
                digest(session), user.id, seconds=self._http.session, address=address, agent=(agent or "")[:200] or None
            )
        return self._begun(session, ends, actor)

    def log_out(self, session: str | None, actor: Actor) -> None:
        if session:
            with audited(self._store, actor, "session.end", f"user/{actor.name}"):
                self._store.sessions.end(digest(session))

    def note_failure(self, subject: str, address: str | None, **data: str) -> None:
        """Write down that somebody could not log in."""
        self._record("session.failed", subject, address, **data)

    def _record(self, action: str, subject: str, address: str | None, **data: str) -> None:
        """Attempts are limited, and so are these rows; the answer does not depend on them."""
        with contextlib.suppress(Unavailable):
            somebody = Actor(name="unknown", address=address)
            record(self._store, somebody, action, subject, outcome="failed", data=data)

    def write_first_token(self) -> Path | None:
        """Where a log-in is asked for and nobody could yet: the file, readable by its owner only, with an admin's token
        that is good for a day. None where it is not needed."""
        if not self.required or self._store.people.all():
            return None
        if any(row.revoked_at is None and not row.expired for row in self._store.tokens.all()):
            return None
        key, file = new_key(TOKEN_PREFIX), self._settings.home / FIRST_TOKEN
        actor = system_actor(person())
        with audited(self._store, actor, "tokens.create", "token/first start"):
            _write_secretly(file, key)
            self._store.tokens.create(
                "first start", digest(key), key[:SHOWN], role="admin", by=actor.name, seconds=FIRST_TOKEN_AGE
            )
        return file

    def _begun(self, session: str, ends: int, actor: Actor) -> LoggedIn:
        seconds = max(1.0, (ends - SYSTEM.now_ms()) / 1000)
        return LoggedIn(session=session, csrf=csrf_of(session), expires_at=ends, seconds=seconds, actor=actor)

    def _by_session(self, session: str | None, address: str | None) -> Actor | None:
        if session and session.startswith(_BY_TOKEN):
            token = self._store.sessions.token_of(digest(session))
            row = self._store.tokens.get(token) if token else None
            return self._holder(row, address) if row is not None and self._refused(row) is None else None
        known = self._store.sessions.get(digest(session)) if session else None
        user = self._store.people.get(known.user_id) if known else None
        if user is None or user.disabled_at is not None:
            return None
        return actor_for(user, address)

    def _token(self, key: str, address: str | None) -> TokenRow:
        row = self._store.tokens.by_hash(digest(key)) if key.startswith(TOKEN_PREFIX) else None
        if row is None:
            # Only those that fail: many programs may come from one address, and nobody guesses a good token.
            self._attempts.recall(token_key(address))
            self._attempts.check(token_key(address))
            self._attempts.failed(token_key(address))
            self.note_failure("token/unknown", address, by="token")
            raise LogInFirst("the token is not known", hint="`penstock tokens create` makes one")
        if (refused := self._refused(row)) is not None:
            if self._recent.is_new(row.id, address or ""):
                self.note_failure(f"token/{row.name}", address, by="token")
            raise refused
        return row

    def _refused(self, row: TokenRow) -> LogInFirst | None:
        """Why a token is not good any more."""
        if row.revoked_at is not None:
            return LogInFirst(f"the token {row.prefix}… was revoked", hint="make another one")
        if row.expired and row.expires_at is not None:
            return LogInFirst(f"the token {row.prefix}… expired at {format_time(row.expires_at)}", hint="make another")
        user = self._store.people.get(row.user_id) if row.user_id else None
        if row.user_id is not None and (user is None or user.disabled_at is not None):
            return LogInFirst(f"the user of the token {row.prefix}… is gone", hint="make another one")
        if user is not None and logs_in_elsewhere(user, self._http):
            # Also those that were made before the user logged in at the provider, or before the setting.
            ends = row.created_at + int(self._settings.oidc.token_age * 1000)
            if ends <= row.read_at:
                return LogInFirst(f"the token {row.prefix}… expired at {format_time(ends)}", hint="make another")
        return None

    def _holder(self, row: TokenRow, address: str | None) -> Actor:
        """The token's own rights, within those that its user has now."""
        role: Role = member_role(row.role)
        user = self._store.people.get(row.user_id) if row.user_id else None
        if user is None:
            name = f"token {row.name}"
            own, projects = (role, {}) if row.project_id is None else (None, {row.project_id: role})
        else:
            name = f"{user.email} (token {row.name})"
            own, projects = _within(actor_for(user), role, row.project_id)
        return Actor(
            name=name,
            role=own,
            projects=projects,
            kind="token",
            address=address,
            user_id=row.user_id,
            token_id=row.id,
            expires_at=row.expires_at,
        )


def logs_in_elsewhere(user: PersonRow, http: HttpSettings) -> bool:
    """Whether the OpenID provider vouches for the user: a password here would let them in after they are gone there."""
    return http.auth == "oidc" and user.subject is not None


def _within(whole: Actor, role: Role, project: str | None) -> tuple[Role | None, dict[str, Role]]:
    """What is left of a user's rights in a token with this role, for all projects or for one."""
    if project is not None:
        own = at_most(whole.role_in(project), role)
        return None, {project: own} if own is not None else {}
    return at_most(whole.role, role), {each: at_most(own, role) or role for each, own in whole.projects.items()}


def _write_secretly(file: Path, text: str) -> None:
    """A new file that nobody but its owner can read, whatever was there before."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w") as opened:
            opened.write(f"{text}\n")
    except OSError as error:
        raise ConfigError(
            f"the first admin token cannot be written: {error.strerror}",
            received=str(file),
            hint="`penstock tokens create NAME --role admin` makes one",
        ) from error


def _bearer(headers: Mapping[str, str]) -> str | None:
    """The token that is shown, if any."""
    scheme, _, key = headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else None


def actor_for(user: PersonRow, address: str | None = None) -> Actor:
    """A user as an actor."""
    projects = {project: member_role(role) for project, role in user.projects.items()}
    role = member_role(user.role) if user.role else None
    return Actor(name=user.email, role=role, projects=projects, kind="person", address=address, user_id=user.id)
