"""DataHub's events as light objects, as like to the generated classes as user code can tell: attributes, `get`,
`to_obj`, and the same JSON text, byte for byte."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any, ClassVar, Final, Self

import msgspec

from penstock.datahub.bases import Event
from penstock.datahub.records import (
    AuditStampClass,
    DictWrapper,
    Field,
    GenericAspectClass,
    KafkaAuditHeaderClass,
    ParametersClass,
    SystemMetadataClass,
    required,
)

# Interned: much code in use compares event types by identity.
METADATA_CHANGE_LOG_EVENT_V1_TYPE: Final = sys.intern("MetadataChangeLogEvent_v1")
ENTITY_CHANGE_EVENT_V1_TYPE: Final = sys.intern("EntityChangeEvent_v1")
RELATIONSHIP_CHANGE_EVENT_V1_TYPE: Final = sys.intern("RelationshipChangeEvent_v1")


class _Event(DictWrapper, eq=False, gc=False):
    """An event's own part: its JSON text."""

    @classmethod
    def from_class(cls, clazz: Any) -> Self:
        """The event with the fields of a record of its kind."""
        return cls(**{name: getattr(clazz, name) for name in cls.__struct_fields__})

    @classmethod
    def from_json(cls, json_str: str | bytes) -> Self:
        return cls.from_obj(json.loads(json_str))

    def plain(self) -> dict[str, Any]:
        """What `as_json` writes."""
        return self.to_obj()

    def as_json(self) -> str:
        return json.dumps(self.plain())


class MetadataChangeLogClass(_Event, eq=False, gc=False):
    entityType: str  # noqa: N815 - the schema's name
    changeType: str  # noqa: N815 - the schema's name
    auditHeader: KafkaAuditHeaderClass | None = None  # noqa: N815 - the schema's name
    entityUrn: str | None = None  # noqa: N815 - the schema's name
    entityKeyAspect: GenericAspectClass | None = None  # noqa: N815 - the schema's name
    aspectName: str | None = None  # noqa: N815 - the schema's name
    aspect: GenericAspectClass | None = None
    systemMetadata: SystemMetadataClass | None = None  # noqa: N815 - the schema's name
    headers: dict[str, str] | None = None
    previousAspectValue: GenericAspectClass | None = None  # noqa: N815 - the schema's name
    previousSystemMetadata: SystemMetadataClass | None = None  # noqa: N815 - the schema's name
    created: AuditStampClass | None = None

    FULL_NAME: ClassVar[str] = "com.linkedin.pegasus2avro.mxe.MetadataChangeLog"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("auditHeader", KafkaAuditHeaderClass),
        required("entityType", "text"),
        Field("entityUrn", "text"),
        Field("entityKeyAspect", GenericAspectClass),
        required("changeType", "text"),
        Field("aspectName", "text"),
        Field("aspect", GenericAspectClass),
        Field("systemMetadata", SystemMetadataClass),
        Field("headers", "map"),
        Field("previousAspectValue", GenericAspectClass),
        Field("previousSystemMetadata", SystemMetadataClass),
        Field("created", AuditStampClass),
    )


class MetadataChangeLogEvent(MetadataChangeLogClass, eq=False, gc=False):
    """An aspect of an entity has changed."""


class EntityChangeEventClass(
    _Event,
    eq=False,
    gc=False,
    # JSON's `parameters` are not the typed field, as in DataHub, whose schema has no type for them.
    rename={"parameters": " typed parameters", "given_parameters": "parameters"},
):
    entityType: str  # noqa: N815 - the schema's name
    entityUrn: str  # noqa: N815 - the schema's name
    category: str
    operation: str
    auditStamp: AuditStampClass  # noqa: N815 - the schema's name
    version: int
    modifier: str | None = None
    parameters: ParametersClass | None = None
    given_parameters: Any = None
    """What DataHub keeps as `_inner_dict["__parameters_json"]`."""

    FULL_NAME: ClassVar[str] = "com.linkedin.pegasus2avro.platform.event.v1.EntityChangeEvent"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        required("entityType", "text"),
        required("entityUrn", "text"),
        required("category", "text"),
        required("operation", "text"),
        Field("modifier", "text"),
        Field("parameters", ParametersClass),
        required("auditStamp", AuditStampClass),
        required("version", "integer"),
    )


class EntityChangeEvent(EntityChangeEventClass, eq=False, gc=False):
    """Something has happened to an entity: a tag was added, its schema has changed."""

    @classmethod
    def from_json(cls, json_str: str | bytes) -> Self:
        try:
            return _decode_entity_change(json_str)  # type: ignore[return-value]  # no subclass has a decoder of its own
        except (msgspec.DecodeError, UnicodeDecodeError):
            obj = json.loads(json_str)
            if not isinstance(obj, dict):
                raise ValueError(f"{cls.FULL_NAME} is a {type(obj).__name__}, not a map") from None
            given = obj.pop("parameters", None)
            event = cls.from_obj(obj)
            event.given_parameters = given
            return event

    def get(self, item: str, default: Any = None) -> Any:
        if item == "__parameters_json":
            return self.given_parameters or default
        return super().get(item, default)

    @property
    def _inner_dict(self) -> dict[str, Any]:
        fields = super()._inner_dict
        return fields | {"__parameters_json": self.given_parameters} if self.given_parameters else fields

    @property
    def safe_parameters(self) -> Any:
        return self.parameters or self.given_parameters or {}

    def plain(self) -> dict[str, Any]:
        made = self.to_obj()
        if self.given_parameters:
            made["parameters"] = self.given_parameters
        return made

    def as_map(self) -> Mapping[str, Any]:
        return self._inner_dict | {"parameters": self.given_parameters or self.parameters}


class RelationshipChangeEventClass(_Event, eq=False, gc=False):
    sourceUrn: str  # noqa: N815 - the schema's name
    destinationUrn: str  # noqa: N815 - the schema's name
    operation: str
    relationshipType: str  # noqa: N815 - the schema's name
    auditStamp: AuditStampClass  # noqa: N815 - the schema's name
    auditHeader: KafkaAuditHeaderClass | None = None  # noqa: N815 - the schema's name
    lifecycleOwner: str | None = None  # noqa: N815 - the schema's name
    via: str | None = None
    properties: dict[str, str] | None = None

    FULL_NAME: ClassVar[str] = "com.linkedin.pegasus2avro.platform.event.v1.RelationshipChangeEvent"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("auditHeader", KafkaAuditHeaderClass),
        required("sourceUrn", "text"),
        required("destinationUrn", "text"),
        required("operation", "text"),
        required("relationshipType", "text"),
        Field("lifecycleOwner", "text"),
        Field("via", "text"),
        Field("properties", "map"),
        required("auditStamp", AuditStampClass),
    )


class RelationshipChangeEvent(RelationshipChangeEventClass, eq=False, gc=False):
    """A relationship between two entities came or went."""


_decode_entity_change = msgspec.json.Decoder(EntityChangeEvent).decode

EVENTS: Final[Mapping[str, type[_Event]]] = {
    METADATA_CHANGE_LOG_EVENT_V1_TYPE: MetadataChangeLogEvent,
    ENTITY_CHANGE_EVENT_V1_TYPE: EntityChangeEvent,
    RELATIONSHIP_CHANGE_EVENT_V1_TYPE: RelationshipChangeEvent,
}
"""Event type to class."""

for _class in EVENTS.values():
    Event.register(_class)
