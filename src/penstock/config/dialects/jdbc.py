"""JDBC addresses of databases, as SQLAlchemy writes them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from penstock.core.errors import ConfigError
from penstock.core.secrets import mask_url

_ALLOWED = (
    "jdbc:mysql://HOST:PORT/DATABASE",
    "jdbc:mariadb://HOST:PORT/DATABASE",
    "jdbc:postgresql://HOST:PORT/DATABASE",
    "postgresql://USER:PASSWORD@HOST:PORT/DATABASE",
    "mysql+pymysql://USER:PASSWORD@HOST:PORT/DATABASE",
    "sqlite:///FILE",
)
_DRIVERS = {"mysql": "mysql+pymysql", "mariadb": "mariadb+pymysql", "postgresql": "postgresql+psycopg"}
_URL = re.compile(r"(?P<scheme>[a-z][\w+.]*)://(?P<login>[^/@]*@)?(?P<rest>.*)", re.IGNORECASE | re.DOTALL)
_POSTGRES_RENAMED = {
    "applicationname": "application_name",
    "connecttimeout": "connect_timeout",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
}
_ENCRYPTING = {"usessl", "requiressl", "sslmode", "verifyservercertificate"}
"""MySQL's ways to ask for encryption; PyMySQL wants files for it, which JDBC keeps in a Java trust store."""


@dataclass(frozen=True, slots=True)
class Address:
    """A database's address with its log-in."""

    url: str
    notes: tuple[str, ...] = ()
    """What could not be carried over, a sentence each."""


def database_address(text: str, user: str | None = None, password: str | None = None) -> Address:
    """The address for SQLAlchemy; a log-in in the address itself goes first."""
    written = text.strip()
    if written.lower().startswith("jdbc:"):
        return _from_jdbc(written[len("jdbc:") :], user, password)
    match = _URL.fullmatch(written)
    if match is None:
        raise _refused(text)
    if match["scheme"].partition("+")[0].lower() == "sqlite":
        return Address(written)
    login = match["login"] or _login(user, password)
    return Address(f"{match['scheme']}://{login}{match['rest']}")


def _from_jdbc(written: str, user: str | None, password: str | None) -> Address:
    kind, _, rest = written.partition(":")
    kind = kind.lower()
    if kind == "sqlite" and rest:
        return Address(f"sqlite:///{rest}")
    parts = urlsplit(written)
    if kind not in _DRIVERS or not parts.netloc:
        raise _refused(written)
    given = dict(parse_qsl(parts.query, keep_blank_values=True))
    hosts = parts.netloc.rpartition("@")[2].split(",")
    notes = [f"only the first of {len(hosts)} hosts is used"] if len(hosts) > 1 else []
    name = unquote(parts.username) if parts.username else given.pop("user", None) or user
    secret = unquote(parts.password) if parts.password else given.pop("password", None) or password
    for once_more in ("user", "password"):
        given.pop(once_more, None)
    if kind == "postgresql":
        query, left_out = _postgres_query(given)
    else:
        query, left_out = {}, [key for key in given if key.lower() in _ENCRYPTING]
        if any(given[key].lower() in ("false", "disabled") for key in left_out):
            left_out = []
    notes += _left_out(left_out)
    path = parts.path if parts.path.strip("/") else ""
    return Address(
        f"{_DRIVERS[kind]}://{_login(name, secret)}{hosts[0]}{path}{'?' + urlencode(query) if query else ''}",
        tuple(notes),
    )


def _postgres_query(given: dict[str, str]) -> tuple[dict[str, str], list[str]]:
    query: dict[str, str] = {}
    left_out = []
    for key, value in given.items():
        lower = key.lower()
        if lower in _POSTGRES_RENAMED:
            query[_POSTGRES_RENAMED[lower]] = value
        elif lower == "currentschema":
            query["options"] = f"-csearch_path={value}"
        elif lower == "ssl" and value.lower() in ("true", ""):
            query.setdefault("sslmode", "verify-full")
        elif lower.startswith("ssl"):
            left_out.append(key)
    return query, left_out


def _left_out(keys: Iterable[str]) -> list[str]:
    named = ", ".join(sorted(keys))
    return (
        [f"{named} of the JDBC address cannot be carried over: write a SQLAlchemy URL for an encrypted connection"]
        if named
        else []
    )


def _login(user: str | None, password: str | None) -> str:
    if not user:
        return ""
    return f"{quote(user, safe='')}{':' + quote(password, safe='') if password else ''}@"


def _refused(text: str) -> ConfigError:
    return ConfigError(
        "the database's address is neither a JDBC nor a SQLAlchemy URL that Penstock knows",
        received=mask_url(text),
        allowed=_ALLOWED,
        hint=f"write it like {_ALLOWED[0]} or {_ALLOWED[3]}",
    )
