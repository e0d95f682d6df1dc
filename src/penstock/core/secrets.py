"""What must never be shown: which names hold secrets, how they are masked, and how texts are scrubbed of them."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Annotated, Any
from urllib.parse import quote, quote_plus, unquote

from pydantic import GetCoreSchemaHandler, PlainSerializer, PlainValidator, WithJsonSchema

MASK = "********"


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_ALWAYS = _words(
    "password passwords passwd passphrase pwd token tokens secret secrets jaas authorization apikey"
    " accesskey privatekey secretkey credential credentials cookie bearer"
)
# `key` alone is no secret: the kafka action's record key, `keys` of a table, `key.deserializer` and the like.
_KEY_OWNERS = _words(
    "access account api auth client encryption fernet hmac master private secret service shared signing ssl store"
)
_KEY_ENDINGS = _words("key pem value data")
# `password_file`, `token.endpoint.url`, `ssl.key.location` say where a secret is or how it is used, not what it is.
_ABOUT = _words(
    "path paths location file files folder dir url uri endpoint type types id ids name names class handler provider"
    " enabled timeout ms seconds sec interval expiry ttl algorithm format length size count limit max min refresh scope"
    " second minute"
)

# Keys of actions whose addresses are passwords in themselves: who knows one may write to the channel.
_ADDRESSES = _words("urls webhook_url")

_URL_PASSWORD = re.compile(r"([a-zA-Z][\w+.-]*://[^\s/?#:@]*):([^\s/?#]+)@")
_URL_QUERY = re.compile(r"([?&;])([\w.-]+)=([^&;#\s]+)")
_SCHEME = re.compile(r"\b(bearer|basic|token)\s+(\S+)", re.IGNORECASE)
_ASSIGNED = re.compile(r"([\w.-]+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s;\"']+))")
_TOKEN = 12
"""Letters from which on a part of a secret address is taken for a token."""
_QUOTED = re.compile(r"%[0-9A-F]{2}")
_SHORTEST = 4
"""Shorter values are not scrubbed: they would blacken half of any text and hide nothing."""


class Secret:
    """A text that shows itself only when asked by `reveal()`."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __str__(self) -> str:
        return MASK

    __repr__ = __str__

    def __format__(self, _spec: str) -> str:
        return MASK

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __bool__(self) -> bool:
        return bool(self._value)

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, handler: GetCoreSchemaHandler) -> Any:
        shape = WithJsonSchema({"type": "string", "writeOnly": True})
        return handler.generate_schema(Annotated[Any, PlainValidator(_as_secret), PlainSerializer(str), shape])


def _as_secret(value: Any) -> Secret:
    if not isinstance(value, (str, Secret)):
        raise ValueError("a text is wanted")
    return value if isinstance(value, Secret) else Secret(value)


class Scrubber:
    """Replaces given secret values in texts, also where they are URL-encoded, in hex or base64 (also within a longer
    text, as `user:password`), or escaped as in JSON."""

    __slots__ = ("_forms",)

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        forms = {form for secret in secrets for form in _forms(secret)}
        # Longest first: of two secrets where one contains the other, nothing of the longer one may remain.
        self._forms = sorted(forms, key=lambda form: (-len(form), form))

    def scrub(self, text: str) -> str:
        # Nearly always there is nothing: looking for each takes a tenth of the time of a pattern of all of them.
        found = [form for form in self._forms if form in text]
        return re.sub("|".join(map(re.escape, found)), MASK, text) if found else text


def _forms(secret: str) -> Iterator[str]:
    if len(secret) < _SHORTEST:
        return
    yield secret
    for quoted in (quote(secret, safe=""), quote_plus(secret)):
        yield quoted
        yield _QUOTED.sub(lambda match: match[0].lower(), quoted)
    yield json.dumps(secret)[1:-1]
    yield repr(secret)[1:-1]
    raw = secret.encode("utf-8", "surrogateescape")
    yield raw.hex()
    yield raw.hex().upper()
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        yield encode(raw).decode().rstrip("=")
        # Within a longer text, such as `user:password`: of the three ways it can lie there, the letters that depend on
        # nothing but the secret.
        for before in range(3):
            inner = encode(b"\0" * before + raw).decode()[-(-before * 8 // 6) : (before + len(raw)) * 8 // 6]
            if len(inner) > _SHORTEST:
                yield inner


def is_secret_key(name: str) -> bool:
    """Whether a key of this name (`sasl.password`, `x-api-key`, `botToken`) holds a secret."""
    if name.lower() in _ADDRESSES:
        return True
    words = [word.lower() for word in _WORD.findall(name)]
    if not words or words[-1] in _ABOUT or words[0] in ("max", "min"):
        return False
    if not _ALWAYS.isdisjoint(words) or any(pair == ("user", "info") for pair in pairwise(words)):
        return True
    if "keystore" in words and words[-1] == "key":
        return True
    return any(
        word == "key" and index and words[index - 1] in _KEY_OWNERS and words[-1] in _KEY_ENDINGS
        for index, word in enumerate(words)
    )


def mask_url(text: str) -> str:
    """The text with passwords of URLs in it, and secret query parameters, masked."""
    if "://" not in text:
        return text
    masked = _URL_PASSWORD.sub(rf"\1:{MASK}@", text)
    return _URL_QUERY.sub(lambda m: f"{m[1]}{m[2]}={MASK}" if is_secret_key(m[2]) else m[0], masked)


def secrets_in_url(text: str) -> set[str]:
    """Passwords and secret query parameters of the URLs in a text, as written and decoded."""
    if "://" not in text:
        return set()
    written = [match[2] for match in _URL_PASSWORD.finditer(text)]
    written += [match[3] for match in _URL_QUERY.finditer(text) if is_secret_key(match[2])]
    return {form for value in written for form in (value, unquote(value))}


def secrets_at_key(value: str) -> set[str]:
    """A value at a secret key, with the secrets inside it: `Bearer …`, `user:password`, a JAAS line's password."""
    found = {value} | secrets_in_url(value)
    for scheme, rest in _SCHEME.findall(value):
        found.add(rest)
        if scheme.lower() == "basic":
            found |= _basic_password(rest)
    found |= {a or b or c for name, a, b, c in _ASSIGNED.findall(value) if is_secret_key(name)}
    if "://" in value:
        # Tokens stand in any place of such an address; a host has a dot in it.
        parts = re.split(r"[/?&=@:#]", value.partition("://")[2])
        found |= {part for part in parts if len(part) >= _TOKEN and "." not in part}
    user, colon, password = value.partition(":")
    if colon and user and " " not in value and "//" not in value:
        found.add(password)
    return {text for text in found if text}


def _basic_password(encoded: str) -> set[str]:
    try:
        plain = base64.b64decode(encoded, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return set()
    return {plain, plain.partition(":")[2]}


def find_secrets(config: Any, *, secret: bool = False) -> set[str]:
    """Every secret value in a configuration: at keys named like secrets, and passwords in URLs."""
    if isinstance(config, Mapping):
        parts = (find_secrets(value, secret=secret or is_secret_key(str(key))) for key, value in config.items())
        return set().union(*parts)
    if isinstance(config, (list, tuple)):
        return set().union(*(find_secrets(value, secret=secret) for value in config))
    if isinstance(config, Secret):
        return {config.reveal()}
    if isinstance(config, str):
        return secrets_at_key(config) if secret else secrets_in_url(config)
    return {str(config)} if secret and isinstance(config, (int, float)) and not isinstance(config, bool) else set()


def masked(config: Any, *, secret: bool = False) -> Any:
    """A copy of a configuration that may be shown."""
    if isinstance(config, Mapping):
        return {key: masked(value, secret=secret or is_secret_key(str(key))) for key, value in config.items()}
    if isinstance(config, (list, tuple)):
        return [masked(value, secret=secret) for value in config]
    if isinstance(config, Secret) or (secret and config is not None and not isinstance(config, bool)):
        return MASK
    return mask_url(config) if isinstance(config, str) else config
