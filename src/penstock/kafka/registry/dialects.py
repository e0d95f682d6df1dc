"""Client of schema registries in the three dialects of WhereHows: several addresses, ids of any type."""

from __future__ import annotations

import base64
import contextlib
import json
import random
import ssl
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote, urlsplit, urlunsplit

import httpx2

from penstock.config.wire import RegistryDialect
from penstock.core.errors import ConfigError, PenstockError
from penstock.core.net.guard import UNGUARDED, AddressGuard, AddressRefused
from penstock.core.net.http import guarded_client
from penstock.kafka.registry.call_times import note_call
from penstock.kafka.registry.client import (
    RegistrySchema,
    RegistryUnavailable,
    UnknownSchema,
    client_settings,
    without_user,
)

_PATHS: dict[RegistryDialect, str] = {
    "linkedin": "/schemas/id={}",
    "gobblin": "/id={}",
    "confluent": "/schemas/ids/{}",
}
_HEADERS = {
    "Accept-Encoding": "identity",  # L7: a small answer could unpack to a huge one
    "Content-Type": "application/vnd.schemaregistry.v1+json",
    "Response-Type": "PLAIN_STRING",
}
_UNPARSABLE = 50005
"""The code that the original gives to an error without a readable body."""
_LARGEST = 10_000_000
"""L7: bytes of an answer that are read."""
_SAYS_NO = (400, 404, 422)
"""HTTP status codes that mean `no such schema` where the body is an error of a registry."""


class DialectRegistry:
    """Schemas by id. Begins with a random address and goes to the next where one does not answer. Redirects are not
    followed, and a `guard` decides which addresses are contacted."""

    def __init__(
        self,
        urls: str,
        dialect: RegistryDialect,
        config: Mapping[str, Any] | None = None,
        timeout: float = 5.0,
        guard: AddressGuard = UNGUARDED,
    ) -> None:
        settings = client_settings(config or {})
        self._bases = [url.strip().rstrip("/") for url in urls.split(",") if url.strip()]
        self._at = random.randrange(len(self._bases))
        self._dialect = dialect
        self._timeout = float(settings.get("timeout", timeout))
        self._token = settings.get("bearer.auth.token")
        self._login = settings.get("basic.auth.user.info")
        secure = any(base.lower().startswith("https:") for base in self._bases)
        # Only for https: making a TLS context takes a tenth of a second.
        tls = _tls(settings) if secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._client = guarded_client(guard, verify=tls, timeout=self._timeout)

    def schema(self, schema_id: Any) -> RegistrySchema:
        """The schema of an id; raises `UnknownSchema` or `RegistryUnavailable`."""
        answer, where = self._get(_PATHS[self._dialect].format(schema_id))
        if self._dialect != "confluent":
            # A schema is a name, a union or a map with a type; a map without one is not a schema.
            if not isinstance(answer, (str, list)) and not (isinstance(answer, dict) and "type" in answer):
                raise _no_schema(where)
            return RegistrySchema(schema_id, "AVRO", json.dumps(answer), ())
        references: dict[str, str] = {}
        text, kind = self._resolve(answer, where, references)
        return RegistrySchema(schema_id, kind, text, tuple(references.items()))

    def check(self) -> str:
        """Request an id that does not exist, to check address and log-in; returns a text about the result."""
        with contextlib.suppress(UnknownSchema):
            self.schema("0")
        return f"answers in {self._dialect}'s dialect"

    def close(self) -> None:
        self._client.close()

    def _resolve(self, answer: Any, where: str, found: dict[str, str]) -> tuple[str, str]:
        if not isinstance(answer, dict) or not isinstance(answer.get("schema"), str):
            raise _no_schema(where)
        for reference in answer.get("references") or ():
            name, subject = str(reference["name"]), quote(str(reference["subject"]), safe="")
            if name not in found:
                inner, there = self._get(f"/subjects/{subject}/versions/{reference['version']}")
                text, _ = self._resolve(inner, there, found)
                found[name] = text
        return answer["schema"], str(answer.get("schemaType") or "AVRO")

    def _get(self, path: str) -> tuple[Any, str]:
        """The JSON answer to a path, and a text that names registry and path."""
        trouble: PenstockError | None = None
        for step in range(len(self._bases)):
            at = (self._at + step) % len(self._bases)
            where = f"schema registry {without_user(self._bases[at])}: asking for {path}"
            began = time.perf_counter()
            try:
                answer = self._ask(self._bases[at] + path, where)
            except UnknownSchema:
                note_call("unknown", began)
                raise
            except RegistryUnavailable as error:
                note_call("error", began)
                trouble = error
                continue
            note_call("ok", began)
            self._at = at
            return answer, where
        raise trouble or RegistryUnavailable("no schema registry is named")

    def _ask(self, url: str, where: str) -> Any:
        bare, headers = self._request(url)
        try:
            with self._client.stream("GET", bare, headers=headers) as answer:
                body = _read(answer)
        except AddressRefused as error:
            raise RegistryUnavailable(f"{where}: {error.message}", hint=error.hint) from None
        except (OSError, httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
            reason = str(error) or type(error).__name__
            raise RegistryUnavailable(f"{where}: {reason}", hint="is the registry up and its URL right?") from None
        if not answer.is_success:
            raise _translated(answer, body, where)
        if answer.status_code == 204:
            raise UnknownSchema(f"{where}: HTTP 204, no schema")
        try:
            return json.loads(body)
        except ValueError:
            raise _no_schema(where) from None

    def _request(self, url: str) -> tuple[str, dict[str, str]]:
        parts, headers = urlsplit(url), dict(_HEADERS)
        bare = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
        login = self._login
        if login is None and parts.username is not None:
            login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        elif login is not None:
            headers["Authorization"] = f"Basic {base64.b64encode(str(login).encode()).decode()}"
        return bare, headers


def _read(answer: httpx2.Response) -> bytes:
    """The answer's body, up to the limit."""
    body = b""
    for chunk in answer.iter_raw():
        body += chunk
        if len(body) > _LARGEST:
            break
    return body[:_LARGEST]


def _translated(answer: httpx2.Response, body: bytes, where: str) -> PenstockError:
    status = answer.status_code
    if answer.is_redirect:
        return RegistryUnavailable(
            f"{where}: HTTP {status}, a redirect, which is not followed", hint="name the address that it leads to"
        )
    try:
        said: Any = json.loads(body) if body else {"error_code": status, "message": answer.reason_phrase}
        code, message = int(said["error_code"]), str(said.get("message"))
    except (ValueError, KeyError, TypeError, AttributeError):
        code, message = _UNPARSABLE, "an answer that is no registry's"
    text = f"{where}: HTTP {status}, {message} (error {code})"[:500]
    if status in _SAYS_NO and code != _UNPARSABLE:
        return UnknownSchema(text)
    if status in (401, 403):
        hint = "check schema.registry.basic.auth.user.info, schema.registry.bearer.auth.token, certificates"
        return RegistryUnavailable(text, hint=hint)
    return RegistryUnavailable(text, hint="is the registry up and its URL right?")


def _no_schema(where: str) -> RegistryUnavailable:
    return RegistryUnavailable(f"{where}: the answer holds no schema", hint="are its URL and its dialect right?")


def _tls(settings: Mapping[str, Any]) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=settings.get("ssl.ca.location"))
        certificate = settings.get("ssl.certificate.location")
        if certificate is not None:
            key, password = settings.get("ssl.key.location"), settings.get("ssl.key.password")
            context.load_cert_chain(certificate, key, password)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise ConfigError(
            f"the schema registry's certificates cannot be used: {reason}",
            received=sorted(key for key in settings if key.startswith("ssl.")),
            hint="ssl.ca.location, ssl.certificate.location and ssl.key.location name PEM files",
        ) from None
    return context
