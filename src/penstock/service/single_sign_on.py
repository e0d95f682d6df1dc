"""Logging in at an OpenID provider: the code flow with PKCE, its tokens checked by the provider's own keys."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import httpx2
import structlog
from authlib.common.errors import AuthlibBaseError
from authlib.integrations.httpx_client import OAuth2Client
from authlib.oidc.core import CodeIDToken
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from penstock.config.http_settings import OidcSettings
from penstock.core.clock import SYSTEM, Clock
from penstock.core.errors import ConfigError, PenstockError, Unavailable
from penstock.core.net.guard import AddressGuard, AddressRefused
from penstock.core.net.http import guarded_client, guarded_options
from penstock.core.net.url import parse_url
from penstock.service.access import ROLES
from penstock.service.audit import audited
from penstock.service.authentication import LogInFirst, actor_for
from penstock.service.passwords import new_key, same
from penstock.store import PersonRow, Store

log = structlog.get_logger("penstock.access")

_SECONDS: Final = 10.0
_ALGORITHMS: Final = ["RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "EdDSA"]
"""Signatures by the provider's private key; never by a password that we know too."""
_LEEWAY: Final = 60
"""Seconds by which clocks may differ."""
_FRESH: Final = 3_600.0
"""Seconds for which what the provider says of itself holds."""
_AWAY: Final = 5.0
"""Seconds for which a provider that did not answer is not asked again."""
_PATIENCE: Final = 2.0
"""Seconds that a log-in waits while another one asks the provider."""


class ProviderAway(Unavailable):
    """The OpenID provider does not answer as it should."""

    code = "provider"


@dataclass(frozen=True, slots=True, kw_only=True)
class Journey:
    """A log-in that is under way; the browser keeps it, out of reach of scripts, until it comes back."""

    state: str
    nonce: str
    verifier: str


class SingleSignOn:
    """Knows one provider. What it says about itself is read when the first person comes, and again every hour. Threads
    may share it."""

    def __init__(
        self, store: Store, settings: OidcSettings, networks: Sequence[str] = (), clock: Clock = SYSTEM
    ) -> None:
        """`networks`: open besides the issuer's own host and public addresses, for what the provider names."""
        if not settings.issuer or not settings.client_id:
            raise ConfigError("http.auth is oidc: oidc.issuer and oidc.client_id are wanted", allowed=["oidc.issuer"])
        self._store, self._settings, self._clock = store, settings, clock
        self._issuer: str = settings.issuer.rstrip("/")
        try:
            host = parse_url(self._issuer, example="https://login.example.org").raw_host or ""
        except ValueError as error:
            raise ConfigError(f"oidc.issuer: {error}", received=self._issuer) from None
        self._guard = AddressGuard((*networks, host))
        self._lock = threading.Lock()
        self._known: tuple[float, dict[str, Any] | ProviderAway] | None = None
        """What the provider said of itself, or that it did not, and until when that holds."""

    def begin(self, back: str) -> tuple[str, Journey]:
        """Where to send the browser, and what it must bring back to `back`."""
        journey = Journey(state=new_key(), nonce=new_key(), verifier=new_key())
        with self._client(back) as client:
            address, _ = client.create_authorization_url(
                self._provider["authorization_endpoint"],
                state=journey.state,
                nonce=journey.nonce,
                code_verifier=journey.verifier,
            )
        return str(address), journey

    def finish(self, journey: Journey, *, state: str, code: str, back: str) -> PersonRow:
        """Who came back; `LogInFirst` where it is nobody that may come in."""
        if not same(state, journey.state):
            raise LogInFirst("this log-in was not begun here", hint="begin again")
        claims = self._claims(code, journey, back)
        return self._user(claims)

    def _claims(self, code: str, journey: Journey, back: str) -> dict[str, Any]:
        try:
            with self._client(back) as client:
                endpoint = self._checked(self._provider["token_endpoint"])
                token = client.fetch_token(endpoint, code=code, code_verifier=journey.verifier, timeout=_SECONDS)
            checked = jwt.decode(str(token["id_token"]), self._keys(), algorithms=_ALGORITHMS)
            wanted: dict[str, Any] = {
                "iss": {"essential": True, "values": [self._issuer, f"{self._issuer}/"]},
                "aud": {"essential": True, "value": self._settings.client_id},
            }
            params = {"nonce": journey.nonce, "client_id": self._settings.client_id}
            claims = CodeIDToken(checked.claims, checked.header, wanted, params)
            claims.validate(now=int(time.time()), leeway=_LEEWAY)  # type: ignore[no-untyped-call]  # it has none
        except (httpx2.HTTPError, AddressRefused) as error:
            raise ProviderAway(f"the OpenID provider is away: {type(error).__name__}") from error
        except (AuthlibBaseError, JoseError, KeyError, ValueError) as error:
            # What it says may hold parts of the token.
            log.warning("single sign-on failed", reason=type(error).__name__)
            raise LogInFirst("the OpenID provider did not vouch for this log-in", hint="begin again") from error
        return dict(claims)

    def _user(self, claims: dict[str, Any]) -> PersonRow:
        subject = f"{self._issuer}|{claims['sub']}"
        email = str(claims.get("email") or "").lower()
        # An address that is somebody else's would keep that one out, and be the name that changes are written under.
        said = claims.get("email_verified")
        verified = bool(email) and (said is True or (said is None and self._settings.verifies_addresses))
        user = self._store.people.by_subject(subject)
        if user is None and verified:
            user = self._joined(email, subject)
        role, projects = self._roles(claims)
        if user is None and verified and (role or projects):
            user = self._made(email, subject, claims.get("name"), role, projects)
        if user is None or user.disabled_at is not None:
            raise LogInFirst("you are no user here", hint="ask an admin to make you one")
        return self._with_roles(user, role, projects) if self._settings.roles else user

    def _roles(self, claims: dict[str, Any]) -> tuple[str | None, dict[str, str]]:
        """What the person's groups give: the strongest role of the instance, and of each project."""
        groups = [self._settings.roles[group] for group in self._groups(claims) if group in self._settings.roles]
        found: dict[str, str] = {}
        for written in groups:
            project, _, role = written.rpartition("=")
            found[project] = max(role, found.get(project, role), key=[str(each) for each in ROLES].index)
        everywhere = found.pop("", None) or self._settings.role
        known = {row.name: row.id for row in self._store.people.projects()}
        return everywhere, {known[name]: role for name, role in found.items() if name in known}

    def _groups(self, claims: dict[str, Any]) -> list[str]:
        said: Any = claims
        for name in [self._settings.groups_claim] if self._settings.groups_claim in claims else self._path:
            said = said.get(name) if isinstance(said, dict) else None
        said = [said] if isinstance(said, str) else said
        return [group for group in said if isinstance(group, str)] if isinstance(said, list) else []

    @property
    def _path(self) -> list[str]:
        return self._settings.groups_claim.split(".")

    def _with_roles(self, user: PersonRow, role: str | None, projects: dict[str, str]) -> PersonRow:
        """The user as the groups say now: who has left them has their role no longer, nor have their tokens."""
        if (user.role, user.projects) != (role, projects):
            user = self._store.people.change(user.id, None, role=role, projects=projects)
            self._write_down(user, "users.change", {"role": role, "projects": projects})
        if role is None and not projects:
            raise LogInFirst("you are in no group that is let in here", hint="ask for a group of oidc.roles")
        return user

    def _made(
        self, email: str, subject: str, name: object, role: str | None, projects: dict[str, str]
    ) -> PersonRow | None:
        """Somebody whom nobody has made a user before."""
        if self._store.people.by_email(email) is not None:
            return None
        called = name if isinstance(name, str) else None
        user = self._store.people.create(email, name=called, role=role, subject=subject, projects=projects)
        self._write_down(user, "users.create")
        return user

    def _joined(self, email: str, subject: str) -> PersonRow | None:
        """A user that was made before, who comes for the first time."""
        user = self._store.people.by_email(email)
        if user is None or user.subject is not None:
            return None
        user = self._store.people.change(user.id, None, subject=subject)
        self._write_down(user, "users.change")
        return user

    def _write_down(self, user: PersonRow, action: str, data: Mapping[str, Any] | None = None) -> None:
        more = {"by": "single sign-on"} | dict(data or {})
        with audited(self._store, actor_for(user), action, f"user/{user.email}", data=more):
            pass

    def _client(self, back: str) -> Any:
        password = self._settings.client_secret
        return OAuth2Client(  # type: ignore[no-untyped-call]  # it has none
            self._settings.client_id,
            password.reveal() if password else None,
            token_endpoint_auth_method="client_secret_basic" if password else "none",
            scope=self._settings.scopes,
            redirect_uri=back,
            code_challenge_method="S256",
            **guarded_options(self._guard, use_proxies=True),
        )

    @property
    def _provider(self) -> dict[str, Any]:
        """Callers have not logged in: however many come, the provider is asked once, also while it is away."""
        if not self._lock.acquire(timeout=_PATIENCE):
            raise ProviderAway("the OpenID provider has not answered yet", received=self._issuer)
        try:
            if self._known is None or self._clock.monotonic() >= self._known[0]:
                try:
                    self._known = (self._clock.monotonic() + _FRESH, self._discovered())
                except ProviderAway as error:
                    self._known = (self._clock.monotonic() + _AWAY, error)
            found = self._known[1]
        finally:
            self._lock.release()
        if isinstance(found, ProviderAway):
            raise ProviderAway(found.message, received=found.received)
        return found

    def _discovered(self) -> dict[str, Any]:
        said = self._get(f"{self._issuer}/.well-known/openid-configuration")
        if str(said.get("issuer", "")).rstrip("/") != self._issuer:
            raise ProviderAway("the OpenID provider calls itself otherwise", received=said.get("issuer"))
        return said

    def _keys(self) -> KeySet:
        # Asked each time: providers change their keys, and log-ins are few.
        return KeySet.import_key_set(self._get(self._provider["jwks_uri"]))  # type: ignore[arg-type]  # as read

    def _checked(self, address: str) -> str:
        """An address that the provider names. A proxy of the environment resolves names, but gets no inner address."""
        url = parse_url(address)
        self._guard.check_literal(url.raw_host or "")
        return str(url)

    def _get(self, address: str) -> dict[str, Any]:
        try:
            with guarded_client(self._guard, timeout=_SECONDS, use_proxies=True) as client:
                answer = client.get(self._checked(address)).raise_for_status()
            said: dict[str, Any] = answer.json()
        except (httpx2.HTTPError, PenstockError, ValueError) as error:
            raise ProviderAway(f"the OpenID provider is away: {type(error).__name__}", received=address) from error
        return said
