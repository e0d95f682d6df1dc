"""Client of a Confluent schema registry: schemas by id, cached without expiry because an id is never reused."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

from penstock.core.errors import ConfigError, PenstockError, Unavailable
from penstock.core.net.guard import UNGUARDED, AddressGuard
from penstock.core.net.http import guarded_client
from penstock.kafka.registry.call_times import note_call


class RegistryUnavailable(Unavailable):
    """The registry cannot be reached, or its answer cannot be understood."""

    code = "registry_unavailable"


class UnknownSchema(PenstockError):
    """The registry has no schema of this id. It may have one later; whether to ask again is up to the caller."""

    code = "unknown_schema"


@dataclass(frozen=True, slots=True)
class RegistrySchema:
    """A schema as registered, with the schemas it refers to."""

    id: int | str
    """A number, or the text of an id that is not a number."""
    type: str
    """`AVRO`, `JSON` or `PROTOBUF`."""
    text: str
    references: tuple[tuple[str, str], ...]
    """(name, text) of every schema that it refers to, in order of dependence."""


_NUMBERS = {
    "timeout",
    "max.retries",
    "retries.wait.ms",
    "retries.max.wait.ms",
    "cache.capacity",
    "cache.latest.ttl.sec",
}
_JAVA_SOURCES = {"basic.auth.credentials.source"}


class Registry:
    """Client of one registry (one or more URLs, tried in turn); safe to share between threads. Redirects are not
    followed, and a `guard` decides which addresses are contacted."""

    def __init__(
        self,
        url: str,
        config: Mapping[str, Any] | None = None,
        timeout: float = 5.0,
        guard: AddressGuard = UNGUARDED,
    ) -> None:
        self.url = url
        settings = {
            "timeout": timeout,
            "max.retries": 1,
            "retries.wait.ms": 50,
            "retries.max.wait.ms": 200,
        } | client_settings(config or {})
        try:
            self._client: Any = SchemaRegistryClient.new_client(settings | {"url": url})
            if not guard.allow_private:
                _keep_to(guard, self._client)
        except (ValueError, TypeError, OSError) as error:
            raise ConfigError(
                f"the schema registry client refuses its configuration: {error}", received=sorted(settings)
            ) from error
        self._schemas: dict[int, RegistrySchema] = {}
        self._lock = threading.Lock()

    def schema(self, schema_id: int) -> RegistrySchema:
        """The schema of an id with its references; raises `UnknownSchema` or `RegistryUnavailable`."""
        found = self._schemas.get(schema_id)
        if found is None:
            with self._lock:
                found = self._schemas.get(schema_id) or self._fetch(schema_id)
                self._schemas[schema_id] = found
        return found

    def check(self) -> int:
        """Request the subjects, to check address and log-in; returns their number."""
        subjects = self._call(self._client.get_subjects, doing="listing subjects")
        return len(subjects)

    def close(self) -> None:
        with contextlib.suppress(AttributeError):  # the client of mock:// has no connection to close
            self._client.close()

    def _fetch(self, schema_id: int) -> RegistrySchema:
        schema: Schema = self._call(self._client.get_schema, schema_id, doing=f"asking for schema {schema_id}")
        if not isinstance(schema.schema_str, str):
            raise RegistryUnavailable(
                f"schema registry {self.shown}: the answer for schema {schema_id} holds no schema",
                hint="is the URL right?",
            )
        references: dict[str, str] = {}
        self._resolve(schema, references)
        return RegistrySchema(schema_id, schema.schema_type or "AVRO", schema.schema_str, tuple(references.items()))

    def _resolve(self, schema: Schema, found: dict[str, str]) -> None:
        for reference in schema.references or []:
            if reference.name is None or reference.name in found:
                continue
            doing = f"asking for {reference.subject} version {reference.version}"
            registered = self._call(self._client.get_version, reference.subject, reference.version, doing=doing)
            self._resolve(registered.schema, found)
            found[reference.name] = registered.schema.schema_str

    def _call(self, method: Any, *args: Any, doing: str) -> Any:
        began = time.perf_counter()
        try:
            answer = self._answer(method, args, f"schema registry {self.shown}: {doing}")
        except PenstockError as error:
            note_call("unknown" if isinstance(error, UnknownSchema) else "error", began)
            raise
        note_call("ok", began)
        return answer

    def _answer(self, method: Any, args: tuple[Any, ...], where: str) -> Any:
        try:
            return method(*args)
        except SchemaRegistryError as error:
            raise self._translated(error, where) from error
        except Exception as error:  # any error of the HTTP stack is an outage of the registry
            raise RegistryUnavailable(
                f"{where}: {type(error).__name__}: {error}", hint="is the registry up and its URL right?"
            ) from error

    def _translated(self, error: SchemaRegistryError, where: str) -> PenstockError:
        text = f"{where}: HTTP {error.http_status_code}, {error.error_message}"[:500]
        # A 404 page of some other server is a wrong address, not a missing schema: nothing may be dead-lettered for it.
        page = error.error_code == -1 and not str(error.error_message).endswith(("b''", 'b""'))
        if error.http_status_code == 404 and not page:
            return UnknownSchema(text)
        if error.http_status_code in (401, 403):
            return RegistryUnavailable(text, hint="check schema_registry_config: basic.auth.user.info, certificates")
        return RegistryUnavailable(text, hint="is the registry up and its URL right?")

    @property
    def shown(self) -> str:
        """The URL without user and password."""
        return ",".join(without_user(part.strip()) for part in self.url.split(","))


def _keep_to(guard: AddressGuard, client: Any) -> None:
    """Replace the HTTP session of Confluent's client, which has no setting for it. `mock://` has none."""
    rest = getattr(client, "_rest_client", None)
    if rest is not None:
        rest.session.close()
        rest.session = guarded_client(guard, verify=rest.verify, timeout=rest.timeout, auth=rest.auth)


def without_user(url: str) -> str:
    """The URL without user and password."""
    scheme, mark, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{mark}{host.rpartition('@')[2]}{slash}{path}"


def client_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by the client's names, with numbers converted; settings that only Java clients know are left out."""
    out: dict[str, Any] = {}
    for name, value in config.items():
        key = name.removeprefix("schema.registry.")
        if value is None or key in _JAVA_SOURCES or key == "url":
            continue
        out[key] = float(value) if key in _NUMBERS else (value if isinstance(value, bool) else str(value))
    return out
