"""Settings of the HTTP server: where it listens, who is let in, and what those who come in may name."""

from __future__ import annotations

import ipaddress
from typing import Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, ValidationInfo, field_validator, model_validator

from penstock.config.model import Model, ProblemAt
from penstock.core.durations import Duration
from penstock.core.secrets import Secret
from penstock.core.sizes import Size

Auth = Literal["off", "local", "oidc"]
Allowed = Literal["python", "command", "file", "import", "env", "env-file", "private"]

_ROLES = ("viewer", "operator", "admin")
ALLOWED: tuple[Allowed, ...] = ("python", "command", "file", "import", "env", "env-file", "private")


class HttpSettings(Model):
    """The HTTP server of `penstock run`."""

    enabled: bool = True
    """False: no server."""
    console: bool = True
    """False: metrics and health only, no console and no API."""
    auth: Auth = "off"
    """Who is let in: `off` everybody on this machine, `local` users and tokens kept in the store, `oidc` also those
    that an OpenID provider vouches for."""
    passwords: bool = True
    """False: no password is taken, and none is set; people log in at the OpenID provider only. Tokens are taken all the
    same."""
    host: str = "127.0.0.1"
    """Address to listen at; only loopback addresses, unless `auth` is on."""
    port: int = Field(default=8642, ge=0, le=65535)
    """Port to listen at; 0 takes any free one. Where the default port is taken, the next free one is used."""
    names: list[str] = Field(default_factory=list)
    """Names by which browsers reach the server; requests for another name are refused. Absent: with `auth` on any name,
    otherwise those of this machine."""
    public_url: str | None = Field(default=None, pattern=r"^https?://[^\s/]+(/[^\s]*)?$")
    """Address of the console as people reach it, for links in notices; absent: that of host and port."""
    trusted_proxies: list[str] = Field(default_factory=list)
    """Addresses and networks of proxies, such as 10.1.0.0/16, whose X-Forwarded-For and X-Forwarded-Proto are believed.
    Absent: nobody's; behind a proxy all people then come from one address, and share its limit of failed log-ins."""
    session: Duration = Field(default=43_200.0, gt=0)
    """How long a log-in lasts."""
    attempts: int = Field(default=10, ge=1)
    """Failed log-ins per address, and per user, that all instances together answer within five minutes."""
    max_body: Size = Field(default=1_000_000, ge=1_000)
    """Larger requests are refused."""
    tls_certificate: str | None = None
    """File of the certificate, in PEM; with `tls_key`, the server speaks HTTPS."""
    tls_key: str | None = None
    """File of the certificate's key, in PEM."""

    @field_validator("auth", mode="before")
    @classmethod
    def _off_is_a_word(cls, auth: Any) -> Any:
        return "off" if auth is False else auth

    @field_validator("names", "trusted_proxies", mode="before")
    @classmethod
    def _lists(cls, words: Any) -> Any:
        return comma_list(words)

    @field_validator("trusted_proxies")
    @classmethod
    def _are_networks(cls, networks: list[str]) -> list[str]:
        for network in networks:
            try:
                ipaddress.ip_network(network)
            except ValueError:
                raise ValueError(f"{network!r} is neither an address nor a network such as 10.1.0.0/16") from None
        return networks

    @field_validator("host")
    @classmethod
    def _lets_nobody_in_unasked(cls, host: str, info: ValidationInfo) -> str:
        if info.data.get("auth") == "off" and not is_loopback(host):
            raise ValueError(f"{host!r} is refused: without authentication only 127.0.0.1, ::1 or localhost is allowed")
        return host

    @model_validator(mode="after")
    def _certificate_and_key(self) -> Self:
        if (self.tls_certificate is None) != (self.tls_key is None):
            missing = "tls_key" if self.tls_key is None else "tls_certificate"
            raise ProblemAt([missing], "required: a certificate and its key go together")
        return self

    @model_validator(mode="after")
    def _somebody_can_log_in(self) -> Self:
        if not self.passwords and self.auth != "oidc":
            raise ProblemAt(["passwords"], "false is for `auth: oidc` only: nobody could log in otherwise")
        return self

    @property
    def is_https(self) -> bool:
        """Whether people reach the console over TLS, as far as the settings know."""
        return self.tls_certificate is not None or (self.public_url or "").startswith("https://")

    @property
    def address(self) -> str:
        """Where people find the console, without a slash at its end."""
        if self.public_url is not None:
            return self.public_url.rstrip("/")
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls_certificate else 'http'}://{host}:{self.port}"

    @property
    def port_was_set(self) -> bool:
        """Whether someone chose the port: then a taken one is an error."""
        return "port" in self.model_fields_set


class OidcSettings(Model):
    """The OpenID provider that `http.auth: oidc` asks."""

    issuer: str | None = None
    """Its address, as its own configuration gives it."""
    client_id: str | None = None
    """Who Penstock is to it."""
    client_secret: Secret | None = None
    """Penstock's password there; absent for public clients."""
    scopes: str = "openid email profile"
    """What is asked for."""
    role: Literal["viewer", "operator", "admin"] | None = None
    """Role of people who log in for the first time; absent: only those that are users already are let in."""
    roles: dict[str, str] = Field(default_factory=dict)
    """Roles by group of the provider: `viewer`, `operator` or `admin`, or in one project `PROJECT=ROLE`. They replace
    what the user has, at each log-in; who is in none of the groups has `oidc.role`. As a variable: GROUP:ROLE, with
    commas between."""
    groups_claim: str = Field(default="groups", min_length=1)
    """The claim of the ID token that lists a person's groups, such as `groups` or `realm_access.roles`."""
    verifies_addresses: bool = False
    """True: e-mail addresses count as verified also where the ID token does not say so (Microsoft Entra does not)."""
    token_age: Duration = Field(default=30 * 86_400.0, gt=0)
    """How long tokens of people who log in at the provider are good for at most: the provider cannot end them."""
    address: str | None = Field(default=None, pattern=r"^https?://[^\s/]+(/[^\s]*)?$")
    """Where browsers reach Penstock, such as https://penstock.example.org; absent: `http.public_url`, else as the
    request says."""

    @field_validator("issuer")
    @classmethod
    def _is_https(cls, issuer: str | None) -> str | None:
        if issuer is None:
            return None
        found = urlsplit(issuer)
        if found.scheme == "https" or (found.scheme == "http" and is_loopback(found.hostname or "")):
            return issuer
        raise ValueError(f"{issuer!r} is refused: an https:// address is wanted, or http:// of this machine")

    @field_validator("roles", mode="before")
    @classmethod
    def _by_group(cls, roles: Any) -> Any:
        if not isinstance(roles, str):
            return roles
        pairs = [word.rpartition(":") for word in comma_list(roles)]
        if not all(group and role for group, _, role in pairs):
            raise ValueError(f"{roles!r}: GROUP:ROLE is wanted, with commas between")
        return {group.strip(): role.strip() for group, _, role in pairs}

    @field_validator("roles")
    @classmethod
    def _are_roles(cls, roles: dict[str, str]) -> dict[str, str]:
        for group, written in roles.items():
            project, equals, role = written.rpartition("=")
            if role not in _ROLES or (equals and not project):
                raise ValueError(f"{group}: {written!r} is neither viewer, operator, admin nor PROJECT=ROLE")
        return roles


class ApiSettings(Model):
    """What callers of the API may name in specs and requests. Nothing of it holds for pipeline files."""

    allow: list[Allowed] = Field(default_factory=list)
    """What admins may use in specs: `python` (functions), `import` (types that are not built in), `command`
    (programs), `file` (files that are written), `env` and `env-file` (variables and files that are read), `private`
    (any address)."""
    networks: list[str] = Field(default_factory=list)
    """Private networks and hosts that documents of callers may name and reach, such as 10.1.0.0/16 or kafka.internal;
    without any, public addresses only."""

    @field_validator("allow", "networks", mode="before")
    @classmethod
    def _lists(cls, words: Any) -> Any:
        return comma_list(words)


class MaskRule(Model):
    """Fields of one topic's events that nobody but an admin who asks for them is shown."""

    topic: str
    """The topic, or a pattern with `*`."""
    fields: list[str] = Field(min_length=1)
    """Paths within the value, such as `customer.email`; `*` stands for any key or list position."""


class MaskingSettings(Model):
    """What is not shown of events."""

    rules: list[MaskRule] = Field(default_factory=list)
    """All that match apply."""


def comma_list(words: Any) -> Any:
    """Variables are texts: a comma list there is a list."""
    return [word.strip() for word in words.split(",") if word.strip()] if isinstance(words, str) else words


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
