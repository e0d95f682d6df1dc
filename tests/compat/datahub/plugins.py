"""Plug-ins as their users write them for DataHub Actions: nothing in here knows of Penstock."""

from __future__ import annotations

import dataclasses
import json
import logging
from pathlib import Path

from datahub.metadata.schema_classes import EntityChangeEventClass, MetadataChangeLogClass
from datahub_actions.action.action import Action
from datahub_actions.event.event_envelope import EventEnvelope
from datahub_actions.event.event_registry import (
    ENTITY_CHANGE_EVENT_V1_TYPE,
    METADATA_CHANGE_LOG_EVENT_V1_TYPE,
    EntityChangeEvent,
    MetadataChangeLogEvent,
)
from datahub_actions.filter.filter import Filter
from datahub_actions.pipeline.pipeline_context import PipelineContext
from datahub_actions.transform.transformer import Transformer
from pydantic import BaseModel

logger = logging.getLogger(__name__)


class CustomActionConfig(BaseModel):
    out: str
    upper: bool = False


class CustomAction(Action):
    """Writes what it was given, and whether it was what a plug-in may rely on."""

    @classmethod
    def create(cls, config_dict: dict, ctx: PipelineContext) -> Action:
        logger.info("created with %s", config_dict)
        return cls(CustomActionConfig.model_validate(config_dict or {}), ctx)

    def __init__(self, config: CustomActionConfig, ctx: PipelineContext) -> None:
        self.config = config
        self.ctx = ctx

    def act(self, event: EventEnvelope) -> None:
        seen = {"pipeline": self.ctx.pipeline_name, "type": event.event_type, "meta": event.meta, "facts": facts(event)}
        seen["envelope"] = json.loads(event.as_json())
        self.write(json.dumps(seen))

    def write(self, line: str) -> None:
        with Path(self.config.out).open("a") as out:
            out.write((line.upper() if self.config.upper else line) + "\n")

    def close(self) -> None:
        self.write('"closed"')


def facts(event: EventEnvelope) -> list[str]:
    """What existing plug-ins check of an event, as far as it holds."""
    found = []
    if isinstance(event, EventEnvelope) and dataclasses.replace(event) == event:
        found.append("dataclass")
    if event.event_type is METADATA_CHANGE_LOG_EVENT_V1_TYPE:
        change = event.event
        assert isinstance(change, MetadataChangeLogEvent)
        assert isinstance(change, MetadataChangeLogClass)
        assert isinstance(change.aspect.value, bytes)
        assert change.get("entityUrn") == change.entityUrn
        found += ["change log", change.entityType, change.aspectName, *change.to_obj()]
    if event.event_type is ENTITY_CHANGE_EVENT_V1_TYPE:
        change = event.event
        assert isinstance(change, EntityChangeEvent)
        assert isinstance(change, EntityChangeEventClass)
        assert change.parameters is None
        found += ["entity change", change.category, change.auditStamp.actor, *change.safe_parameters]
    return found


class CustomTransformer(Transformer):
    """Notes that it was there; drops what is about nothing."""

    def __init__(self, config: dict) -> None:
        self.config = config

    @classmethod
    def create(cls, config: dict, ctx: PipelineContext) -> Transformer:
        return cls(config)

    def transform(self, event: EventEnvelope) -> EventEnvelope | None:
        if self.config.get("drop") and self.config["drop"] in event.event.as_json():
            return None
        if self.config.get("new"):
            return dataclasses.replace(event, meta={**event.meta, "by": self.config["new"]})
        event.meta["touched"] = event.meta.get("touched", 0) + 1
        return event


class OnlyEven(Filter):
    """A filter of the user's own."""

    @classmethod
    def create(cls, config_dict: dict, ctx: PipelineContext) -> Filter:
        return cls()

    def matches(self, event: EventEnvelope) -> bool:
        return event.meta["kafka"]["offset"] % 2 == 0


class Batcher(Action):
    """Keeps events until there are enough, then acknowledges them; the rest when it is closed."""

    @classmethod
    def create(cls, config_dict: dict, ctx: PipelineContext) -> Action:
        return cls(config_dict["out"], int(config_dict["size"]), ctx)

    def __init__(self, out: str, size: int, ctx: PipelineContext) -> None:
        self.out, self.size, self.ctx = Path(out), size, ctx
        self.batch: list[EventEnvelope] = []

    def act(self, event: EventEnvelope) -> bool:
        self.batch.append(event)
        self.ctx.event_source.ack(event, processed=False)
        if len(self.batch) >= self.size:
            self.flush()
        return False

    def flush(self) -> None:
        with self.out.open("a") as out:
            out.write(json.dumps([event.meta["kafka"]["offset"] for event in self.batch]) + "\n")
        for event in self.batch:
            self.ctx.event_source.ack(event, processed=True)
        self.batch = []

    def close(self) -> None:
        if self.batch:
            self.flush()


class FailsFirst(CustomAction):
    """Changes what it was given, then fails; the second attempt shall see nothing of it."""

    def __init__(self, config: CustomActionConfig, ctx: PipelineContext) -> None:
        super().__init__(config, ctx)
        self.failed: set[int] = set()

    def act(self, event: EventEnvelope) -> None:
        offset = event.meta["kafka"]["offset"]
        if offset not in self.failed:
            self.failed.add(offset)
            event.meta["spoiled"] = True
            event.event.entityUrn = "spoiled"
            raise RuntimeError("not yet")
        super().act(event)


class Outer:
    class Inner(CustomAction):
        """Named by its place in another class."""


class NoClose(Action):
    @classmethod
    def create(cls, config_dict: dict, ctx: PipelineContext) -> Action:
        return cls()


class NoAct(Action):
    @classmethod
    def create(cls, config_dict: dict, ctx: PipelineContext) -> Action:
        return cls()

    def close(self) -> None: ...


class MakesNothing(NoAct):
    @classmethod
    def create(cls, config_dict: dict, ctx: PipelineContext) -> Action:
        return None  # type: ignore[return-value]


class Refuses(NoAct):
    @classmethod
    def create(cls, config_dict: dict, ctx: PipelineContext) -> Action:
        raise ValueError("no such channel")


class Duck:
    @classmethod
    def create(cls, config_dict: dict, ctx: PipelineContext) -> Duck:
        return cls()

    def act(self, event: EventEnvelope) -> None: ...

    def close(self) -> None: ...
