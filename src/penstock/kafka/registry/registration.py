"""Registers schemas, in each of the dialects that WhereHows topics use."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from urllib.parse import quote, unquote, urlencode, urlsplit

from penstock.config.wire import IdType, RegistryDialect
from penstock.core.errors import ConfigError
from penstock.kafka.registry.client import RegistryUnavailable, without_user

_TIMEOUT = 10.0
_ID_TYPES: dict[int, IdType] = {32: "UUID", 40: "SHA1"}
"""By the length of an id in hex digits."""


def register_schema(base: str, dialect: RegistryDialect, topic: str, schema: str) -> tuple[IdType, bytes]:
    """Register the schema of a topic's values; the id's type, and the id as it is written into values."""
    url = base.partition(",")[0].strip().rstrip("/")
    if not url.lower().startswith(("http://", "https://")):
        raise ConfigError("a registry's address begins with http:// or https://", received=without_user(url))
    if dialect == "confluent":
        place = f"{url}/subjects/{quote(topic, safe='')}-value/versions"
        body, _ = _post(place, json.dumps({"schema": schema}).encode(), "application/vnd.schemaregistry.v1+json")
        return "INT", _number(body, url).to_bytes(4, "big")
    _, location = _post(url, urlencode({"schema": schema}).encode(), "application/x-www-form-urlencoded")
    return _id_in(location, url)


def _post(url: str, body: bytes, kind: str) -> tuple[bytes, str]:
    """The body and the Location header of the answer."""
    login, parts = {}, urlsplit(url)
    if parts.username is not None:
        plain = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        login = {"Authorization": f"Basic {base64.b64encode(plain.encode()).decode()}"}
    bare = without_user(url)
    request = urllib.request.Request(bare, body, {"Content-Type": kind} | login, method="POST")  # noqa: S310 - checked above
    where = f"schema registry {bare}"
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT) as answer:  # noqa: S310 - as above
            return answer.read(), answer.headers.get("Location", "")
    except urllib.error.HTTPError as error:
        said = error.read(500).decode("utf-8", "replace")
        raise RegistryUnavailable(f"{where}: registering a schema: HTTP {error.code}, {said}") from None
    except OSError as error:
        reason = getattr(error, "reason", error)
        raise RegistryUnavailable(f"{where}: {reason}", hint="is the registry up and its URL right?") from None


def _number(body: bytes, url: str) -> int:
    try:
        return int(json.loads(body)["id"])
    except (ValueError, KeyError, TypeError):
        raise _no_id(url, body.decode("utf-8", "replace")) from None


def _id_in(location: str, url: str) -> tuple[IdType, bytes]:
    """The id in a location like `/id=0f1e…`: hex digits, or a number."""
    text = location.rpartition("id=")[2]
    try:
        if len(text) in _ID_TYPES:
            return _ID_TYPES[len(text)], bytes.fromhex(text)
        number = int(text)
        return (
            ("INT", number.to_bytes(4, "big", signed=True))
            if abs(number) < 2**31
            else ("LONG", number.to_bytes(8, "big", signed=True))
        )
    except (ValueError, OverflowError):
        raise _no_id(url, location) from None


def _no_id(url: str, said: str) -> RegistryUnavailable:
    hint = "are its URL and its dialect right?"
    return RegistryUnavailable(
        f"schema registry {without_user(url)}: the answer names no id: {said[:200]!r}", hint=hint
    )
