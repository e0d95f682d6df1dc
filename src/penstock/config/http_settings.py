"""Settings of the HTTP server: where it listens, who is let in, and what those who come in may name."""

from __future__ import annotations

import ipaddress
from typing import Any, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from penstock.config.model import Model, ProblemAt
from penstock.core.durations import Duration
from penstock.core.secrets import Secret
from penstock.core.sizes import Size

Auth = Literal["off", "local", "oidc"]
Allowed = Literal["python", "command", "file", "import", "env", "env-file", "private"]

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
    host: str = "127.0.0.1"
    """Address to listen at; only loopback addresses, unless `auth` is on."""
    port: int = Field(default=8642, ge=0, le=65535)
    """Port to listen at; 0 takes any free one. Where the default port is taken, the next free one is used."""
    names: list[str] = Field(default_factory=list)
    """Names by which browsers reach the server; requests for another name are refused. Absent: with `auth` on any name,
    otherwise those of this machine."""
    public_url: str | None = Field(default=None, pattern=r"^https?://[^\s/]+(/[^\s]*)?$")
    """Address of the console as people reach it, for links in notices; absent: that of host and port."""
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

    @field_validator("names", mode="before")
    @classmethod
    def _names(cls, names: Any) -> Any:
        return comma_list(names)

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
    address: str | None = None
    """Where browsers reach Penstock, such as https://penstock.example.org; absent: as the request says."""


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
