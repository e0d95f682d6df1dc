"""The light stand-in of `datahub.metadata.schema_classes`: the records that events are made of."""

from __future__ import annotations

from typing import NoReturn

from penstock.datahub.events import EntityChangeEventClass, MetadataChangeLogClass, RelationshipChangeEventClass
from penstock.datahub.imports import MissingHere
from penstock.datahub.records import (
    AuditStampClass,
    DictWrapper,
    GenericAspectClass,
    GenericPayloadClass,
    KafkaAuditHeaderClass,
    ParametersClass,
    SystemMetadataClass,
)

__all__ = [
    "AuditStampClass",
    "ChangeTypeClass",
    "DictWrapper",
    "EntityChangeEventClass",
    "GenericAspectClass",
    "GenericPayloadClass",
    "KafkaAuditHeaderClass",
    "MetadataChangeLogClass",
    "ParametersClass",
    "RelationshipChangeEventClass",
    "SystemMetadataClass",
]


class ChangeTypeClass:
    """Kinds of changes, as texts."""

    UPSERT = "UPSERT"
    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    PATCH = "PATCH"
    RESTATE = "RESTATE"
    CREATE_ENTITY = "CREATE_ENTITY"


def __getattr__(name: str) -> NoReturn:
    """Say where the hundreds of other classes come from; whatever else is asked for is just not there."""
    if name.endswith("Class"):
        raise MissingHere(f"`{name}` is part of DataHub's own package", name="datahub.metadata.schema_classes")
    raise AttributeError(f"module 'datahub.metadata.schema_classes' has no attribute {name!r}")
