"""How values of WhereHows topics are framed, and how their registry is asked."""

from __future__ import annotations

from typing import Literal, get_args

from pydantic import Field

from penstock.config.model import Model

IdType = Literal["INT", "LONG", "UUID", "SHA1"]
RegistryDialect = Literal["linkedin", "gobblin", "confluent"]

ID_TYPES: tuple[str, ...] = get_args(IdType)
REGISTRY_DIALECTS: tuple[str, ...] = get_args(RegistryDialect)


class TopicWireSpec(Model):
    """What is different for one topic."""

    id_type: IdType | None = None
    """Kind of schema id: 4 bytes, 8 bytes, 16 bytes or 20 bytes."""
    dialect: RegistryDialect | None = None
    """How the registry is asked for a schema."""


class WireSpec(Model):
    """How schema ids are written into values, and how the registry is asked for them."""

    id_type: IdType = "UUID"
    """Kind of schema id: `INT` (4 bytes, as Confluent's), `LONG` (8), `UUID` (any 16 bytes), `SHA1` (20)."""
    dialect: RegistryDialect = "linkedin"
    """`linkedin`: `/schemas/id=ID`; `gobblin`: `/id=ID`; `confluent`: `/schemas/ids/ID`."""
    by_topic: dict[str, TopicWireSpec] = Field(default_factory=dict)
    """By topic, where one is different."""
    max_schemas: int = Field(default=1000, ge=1)
    """How many schemas are kept; the oldest goes when another comes."""

    def of(self, topic: str) -> tuple[IdType, RegistryDialect]:
        """Id type and dialect of a topic."""
        own = self.by_topic.get(topic)
        return (own and own.id_type) or self.id_type, (own and own.dialect) or self.dialect
