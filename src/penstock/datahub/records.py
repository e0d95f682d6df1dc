"""DataHub's records as light objects: the attributes, `get` and `to_obj` of its generated classes, without their cost.

A record is made by position, in the order of the generated class's constructor; `FIELDS` has the schema's order, which
is that of `to_obj`.
"""

from __future__ import annotations

import base64
from collections.abc import ItemsView, KeysView, Mapping
from typing import Any, ClassVar, Literal, NamedTuple, Self

import msgspec

Kind = Literal["text", "integer", "bytes", "fixed", "map"] | type["DictWrapper"]


class Field(NamedTuple):
    """One field of a record."""

    name: str
    kind: Kind
    required: bool = False
    default: Any = None
    """What a null or missing value reads as; of a required field, a null only."""

    @property
    def is_left_out(self) -> bool:
        """Whether JSON says null by leaving the field out."""
        return not self.required and self.default is None


_EMPTY: dict[str, Any] = {"text": "", "integer": 0, "bytes": b"", "fixed": b"", "map": {}}


def required(name: str, kind: Kind) -> Field:
    return Field(name, kind, required=True, default=_EMPTY[kind] if isinstance(kind, str) else None)


class DictWrapper(msgspec.Struct, eq=False, gc=False):
    """What all records share; named as the base of the generated classes is."""

    FIELDS: ClassVar[tuple[Field, ...]] = ()
    FULL_NAME: ClassVar[str] = ""

    def get(self, item: str, default: Any = None) -> Any:
        return getattr(self, item) if item in self._names() else default

    @classmethod
    def _names(cls) -> frozenset[str]:
        found = _NAMES.get(cls)
        if found is None:
            found = _NAMES[cls] = frozenset(field.name for field in cls.FIELDS)
        return found

    @property
    def _inner_dict(self) -> dict[str, Any]:
        """All fields by name; a copy."""
        return {field.name: getattr(self, field.name) for field in self.FIELDS}

    def keys(self) -> KeysView[str]:
        return self._inner_dict.keys()

    def items(self) -> ItemsView[str, Any]:
        return self._inner_dict.items()

    def as_map(self) -> Any:
        """What predicates look into: something whose `get` gives the fields as JSON has them, or what stands for it."""
        return self

    @classmethod
    def from_obj(cls, obj: Mapping[str, Any], tuples: bool = False) -> Self:  # noqa: FBT001 - DataHub's signature
        """Read plain data; `ValueError` names the field that is missing or of another kind."""
        if not isinstance(obj, Mapping):
            raise ValueError(f"{cls.FULL_NAME} is a {type(obj).__name__}, not a map")
        return cls(**{field.name: _read(cls, field, obj, tuples=tuples) for field in cls.FIELDS})

    def to_obj(self, tuples: bool = False) -> dict[str, Any]:  # noqa: FBT001 - DataHub's signature
        """Plain data: bytes as text, nulls left out where null is the default; with `tuples`, as Avro wants it."""
        made: dict[str, Any] = {}
        for field in self.FIELDS:
            value = getattr(self, field.name)
            if value is None and field.is_left_out:
                continue
            made[field.name] = value if type(value) in _PLAIN else _form(field, value, tuples=tuples)
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DictWrapper) and self._inner_dict == other._inner_dict

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inner_dict!r})"

    __hash__ = None  # type: ignore[assignment]  # it can be changed, as the generated classes can


_NAMES: dict[type[DictWrapper], frozenset[str]] = {}
_PLAIN = frozenset({str, int, type(None)})


def _form(field: Field, value: Any, *, tuples: bool) -> Any:
    if isinstance(value, DictWrapper):
        made = value.to_obj(tuples)
        return (value.FULL_NAME, made) if tuples and not field.required else made
    if isinstance(value, bytes) and not tuples:
        return fixed_as_text(value) if field.kind == "fixed" else bytes_as_text(value)
    return value


def bytes_as_text(value: bytes) -> str:
    """Bytes in JSON: text where they are UTF-8, else base64."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return base64.b64encode(value).decode()


def fixed_as_text(value: bytes) -> str:
    """Bytes of a fixed length in JSON, as Avro has them: a character for each."""
    return value.decode("latin-1")


_EXPECTED: dict[Any, tuple[type, ...]] = {
    "text": (str,),
    "integer": (int,),
    "bytes": (bytes, str),
    "fixed": (bytes, str),
    "map": (dict,),
}
_UNION_NAMES = {"text": ("string",), "integer": ("long", "int"), "bytes": ("bytes",), "map": ("map",)}


def _read(cls: type[DictWrapper], field: Field, obj: Mapping[str, Any], *, tuples: bool) -> Any:
    if field.name not in obj:
        if field.required:
            raise ValueError(f"{cls.FULL_NAME} is missing required field: {field.name}")
        return field.default
    value: Any = _unwrapped(field, obj[field.name], tuples=tuples)
    kind = field.kind
    if value is None and not (field.required and not isinstance(kind, str)):
        return field.default
    if not isinstance(kind, str):
        return value if isinstance(value, kind) else kind.from_obj(value, tuples)
    if not isinstance(value, _EXPECTED[kind]) or isinstance(value, bool):
        raise ValueError(f"{cls.FULL_NAME}: the field {field.name} is a {type(value).__name__}, not {kind}")
    if isinstance(value, dict) and not all(isinstance(each, str) for pair in value.items() for each in pair):
        raise ValueError(f"{cls.FULL_NAME}: the field {field.name} is not a map of texts")
    if isinstance(value, str) and kind in ("bytes", "fixed"):
        return value.encode() if kind == "bytes" else value.encode("latin-1", "replace")
    return value


def _unwrapped(field: Field, value: Any, *, tuples: bool) -> Any:
    """A value of a union may be wrapped into the name of its type: as a pair, or as a map of one."""
    if field.required:
        return value
    pair: Any = None
    if tuples and isinstance(value, (tuple, list)) and len(value) == 2:
        pair = value
    elif not tuples and isinstance(value, dict) and len(value) == 1:
        pair = next(iter(value.items()))
    if pair is None:
        return value
    kind = field.kind
    names = _UNION_NAMES.get(kind, ()) if isinstance(kind, str) else (kind.FULL_NAME,)
    return pair[1] if pair[0] in names else value


class AuditStampClass(DictWrapper, eq=False, gc=False):
    time: int
    actor: str
    impersonator: str | None = None
    message: str | None = None

    FULL_NAME: ClassVar[str] = "com.linkedin.pegasus2avro.common.AuditStamp"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        required("time", "integer"),
        required("actor", "text"),
        Field("impersonator", "text"),
        Field("message", "text"),
    )


class GenericAspectClass(DictWrapper, eq=False, gc=False):
    value: bytes
    contentType: str  # noqa: N815 - the schema's name

    FULL_NAME: ClassVar[str] = "com.linkedin.pegasus2avro.mxe.GenericAspect"
    FIELDS: ClassVar[tuple[Field, ...]] = (required("value", "bytes"), required("contentType", "text"))


class GenericPayloadClass(DictWrapper, eq=False, gc=False):
    value: bytes
    contentType: str  # noqa: N815 - the schema's name

    FULL_NAME: ClassVar[str] = "com.linkedin.pegasus2avro.mxe.GenericPayload"
    FIELDS: ClassVar[tuple[Field, ...]] = (required("value", "bytes"), required("contentType", "text"))


class KafkaAuditHeaderClass(DictWrapper, eq=False, gc=False):
    time: int
    server: str
    appName: str  # noqa: N815 - the schema's name
    messageId: bytes  # noqa: N815 - the schema's name
    instance: str | None = None
    auditVersion: int | None = None  # noqa: N815 - the schema's name
    fabricUrn: str | None = None  # noqa: N815 - the schema's name
    clusterConnectionString: str | None = None  # noqa: N815 - the schema's name

    FULL_NAME: ClassVar[str] = "com.linkedin.events.KafkaAuditHeader"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        required("time", "integer"),
        required("server", "text"),
        Field("instance", "text"),
        required("appName", "text"),
        required("messageId", "fixed"),
        Field("auditVersion", "integer"),
        Field("fabricUrn", "text"),
        Field("clusterConnectionString", "text"),
    )

    def as_map(self) -> Any:
        return self.to_obj()  # the id's form is not that of other bytes


class ParametersClass(DictWrapper, eq=False, gc=False):
    FULL_NAME: ClassVar[str] = "com.linkedin.pegasus2avro.platform.event.v1.Parameters"


_NO_RUN = "no-run-id-provided"


class SystemMetadataClass(DictWrapper, eq=False, gc=False):
    lastObserved: int | None = 0  # noqa: N815 - the schema's name
    runId: str | None = _NO_RUN  # noqa: N815 - the schema's name
    lastRunId: str | None = _NO_RUN  # noqa: N815 - the schema's name
    pipelineName: str | None = None  # noqa: N815 - the schema's name
    registryName: str | None = None  # noqa: N815 - the schema's name
    registryVersion: str | None = None  # noqa: N815 - the schema's name
    properties: dict[str, str] | None = None
    version: str | None = None
    schemaVersion: int | None = None  # noqa: N815 - the schema's name
    aspectCreated: AuditStampClass | None = None  # noqa: N815 - the schema's name
    aspectModified: AuditStampClass | None = None  # noqa: N815 - the schema's name

    FULL_NAME: ClassVar[str] = "com.linkedin.pegasus2avro.mxe.SystemMetadata"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("lastObserved", "integer", default=0),
        Field("runId", "text", default=_NO_RUN),
        Field("lastRunId", "text", default=_NO_RUN),
        Field("pipelineName", "text"),
        Field("registryName", "text"),
        Field("registryVersion", "text"),
        Field("properties", "map"),
        Field("version", "text"),
        Field("schemaVersion", "integer"),
        Field("aspectCreated", AuditStampClass),
        Field("aspectModified", AuditStampClass),
    )
