"""Avro schemas by the id in a value's frame: asked for once, kept, waited for within `schema_grace`."""

from __future__ import annotations

import time
from io import BytesIO
from typing import Any, Protocol, Self, TypeVar

import fastavro
import orjson

from penstock.config.spec import KafkaSourceConfig
from penstock.core.errors import ConfigError, DecodeError, Unavailable
from penstock.core.net.guard import guard_of
from penstock.core.plugin import PipelineContext
from penstock.decode.framing import HEADER, first_bytes
from penstock.kafka.registry.client import Registry, RegistrySchema, UnknownSchema


class SchemaPending(Unavailable):
    """The registry does not know a schema id yet; it is asked again until `schema_grace` is over."""

    code = "schema_pending"
    remaining: float = 0.0
    """Seconds until the grace is over."""


SchemaId = int | str

Unusable = dict[Any, Exception]
"""Ids that a batch has found to be of no use, so that none is asked for twice in one."""

_Kept = TypeVar("_Kept")
_MOST = 100_000
"""Ids that are remembered; bad bytes can look like any number of them."""
_SLOW = 1.0
"""Seconds of a failing call after which a batch asks for no other id: each may take its whole time-out,"""
_SLOW_AGAIN = 3.0
"""and the id is not asked for again for so long, so that it is other ids' turn."""
_AWAY = object()


class SchemaSource(Protocol):
    """Where schemas come from."""

    def schema(self, schema_id: Any) -> RegistrySchema:
        """The schema of an id; `UnknownSchema` or an outage."""

    def close(self) -> None: ...


class Schemas:
    """Keeps parsed schemas, the newest where there are too many; an id that cannot be used is an error of its records
    alone, and for `negative` seconds is not asked for again."""

    def __init__(self, registry: SchemaSource, grace: float, *, most: int = _MOST, negative: float = 0.0) -> None:
        self._registry = registry
        self._grace = grace
        self._most = most
        self._negative = negative
        self._parsed: dict[SchemaId, Any] = {}
        self._missing_since: dict[SchemaId, float] = {}
        self._refused: dict[SchemaId, tuple[float, Exception]] = {}

    @classmethod
    def of(cls, source: KafkaSourceConfig, ctx: PipelineContext) -> Self:
        connection = source.connection
        guard = guard_of(connection.allow_private)
        registry = Registry(registry_url(source, ctx), connection.schema_registry_config, guard=guard)
        return cls(registry, source.schema_grace)

    def find(self, schema_id: SchemaId, unusable: Unusable) -> Any:  # noqa: PLR0911 - one answer after the other
        """The parsed schema, or an error: `Unavailable` while its records have to wait for it, else the one that they
        end with."""
        found = self._parsed.get(schema_id)
        if found is not None:
            return found
        if schema_id in unusable or _AWAY in unusable:
            return unusable.get(schema_id) or unusable[_AWAY]
        until, refused = self._refused.get(schema_id, (0.0, None))
        if refused is not None and time.monotonic() < until:
            return refused
        began = time.monotonic()
        try:
            schema = parse(self._registry.schema(schema_id))
        except UnknownSchema as error:
            found = self._after_grace(schema_id, error)
            if isinstance(found, SchemaPending):
                unusable[schema_id] = found
                return found
            return self._refuse(schema_id, found, unusable)
        except Unavailable as error:
            # I6: an outage concerns the records of this id; those of others, as long as they can be asked for, go on.
            unusable[schema_id] = error
            if time.monotonic() - began > _SLOW:
                unusable[_AWAY] = error
                self._keep(self._refused, schema_id, (time.monotonic() + _SLOW_AGAIN, error))
            return error
        except DecodeError as error:
            return self._refuse(schema_id, error, unusable)
        self._keep(self._parsed, schema_id, schema)
        self._missing_since.pop(schema_id, None)
        return schema

    def _refuse(self, schema_id: SchemaId, error: DecodeError, unusable: Unusable) -> DecodeError:
        unusable[schema_id] = error
        if self._negative:
            self._keep(self._refused, schema_id, (time.monotonic() + self._negative, error))
        return error

    def _keep(self, known: dict[SchemaId, _Kept], schema_id: SchemaId, value: _Kept) -> _Kept:
        known.pop(schema_id, None)
        known[schema_id] = value
        if len(known) > self._most:
            del known[next(iter(known))]
        return value

    def _after_grace(self, schema_id: SchemaId, error: UnknownSchema) -> DecodeError | SchemaPending:
        # Not slept: the engine waits between attempts, and a stop or a revoke need not wait for us.
        since = self._missing_since.get(schema_id)
        if since is None:
            since = self._keep(self._missing_since, schema_id, time.monotonic())
        remaining = since + self._grace - time.monotonic()
        if remaining > 0:
            pending = SchemaPending(f"{error.message}; asked again for {self._grace:g} s in all", received=schema_id)
            pending.remaining = remaining
            return pending
        return DecodeError(
            f"schema id {schema_id} is unknown to the registry after {self._grace:g} s",
            received=schema_id,
            hint=error.message,
        )

    def close(self) -> None:
        self._registry.close()


def registry_url(source: KafkaSourceConfig, ctx: PipelineContext) -> str:
    """The registry's address, without which the format makes no sense."""
    url = source.connection.schema_registry_url
    if not url:
        raise ConfigError(
            f"pipeline {ctx.pipeline_name}: format {source.format} needs a schema registry",
            hint="set source.config.connection.schema_registry_url",
        )
    return url


def read_value(raw: bytes, schema: Any, schema_id: SchemaId, start: int = HEADER) -> Any:
    """The value behind its frame, read with its schema, or a `DecodeError` that says where its bytes end to make
    sense."""
    body = BytesIO(raw)
    body.seek(start)
    try:
        return fastavro.schemaless_reader(body, schema, None)
    except Exception as error:  # noqa: BLE001 - bad bytes make the reader raise nearly anything (EOF, index, unicode, overflow)
        why = str(error) or type(error).__name__
        return DecodeError(
            f"not Avro of schema id {schema_id}: {why[:200]} at byte {body.tell()}; value begins {first_bytes(raw)}"
        )


def parse(schema: RegistrySchema) -> Any:
    """The schema ready for fastavro, the schemas it refers to included."""
    if schema.type != "AVRO":
        hint = "format: json reads JSON-Schema frames" if schema.type == "JSON" else None
        raise DecodeError(f"schema id {schema.id} is of type {schema.type}, not AVRO", received=schema.id, hint=hint)
    named: dict[str, Any] = {}
    try:
        for _, text in schema.references:
            fastavro.parse_schema(orjson.loads(text), named_schemas=named)
        parsed = _parse_top(orjson.loads(schema.text), named)
        _refuse_endless(parsed, named)
        return parsed
    except Exception as error:  # whatever is wrong with a schema's text is the trouble of its records
        raise DecodeError(
            f"schema id {schema.id} is not a usable Avro schema: {error}"[:500], received=schema.id
        ) from error


def _parse_top(schema: Any, named: dict[str, Any]) -> Any:
    # Only a record carries a table of the names it uses: in a union, array or map at the top they are written out.
    if isinstance(schema, list):
        return [_parse_top(branch, named) for branch in schema]
    if isinstance(schema, dict) and schema.get("type") in ("array", "map"):
        inner = "items" if schema["type"] == "array" else "values"
        schema = schema | {inner: _parse_top(schema[inner], named)}
    if isinstance(schema, str) and schema in named:
        schema = named[schema]
    return fastavro.parse_schema(schema, named_schemas=dict(named))


def _refuse_endless(schema: Any, named: dict[str, Any]) -> None:
    """An array of items that take no bytes can claim to have any number of them: a few bad bytes would keep a reader
    busy for ever."""
    if isinstance(schema, list):
        for branch in schema:
            _refuse_endless(branch, named)
    elif isinstance(schema, dict):
        named = named | schema.get("__named_schemas", {})
        if schema["type"] == "array" and _is_empty(schema["items"], named, set()):
            raise ValueError("it has an array of items that take no bytes")
        for inner in (schema.get("items"), schema.get("values"), *(f["type"] for f in schema.get("fields", ()))):
            _refuse_endless(inner, named)


def _is_empty(schema: Any, named: dict[str, Any], within: set[str]) -> bool:
    if isinstance(schema, str):
        schema = named.get(schema, {"type": schema})
    if isinstance(schema, list) or schema.get("name") in within:
        return False
    if schema["type"] == "record":
        inner = within | {schema["name"]}
        return all(_is_empty(field["type"], named, inner) for field in schema["fields"])
    return bool(schema["type"] == "null" or schema.get("size") == 0)
