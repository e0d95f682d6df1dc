"""Plug-ins written for DataHub as steps of a Penstock pipeline: they get an envelope, and what they return is taken
back into the event."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, ClassVar, Self, cast
from weakref import WeakKeyDictionary

from penstock.core.errors import PluginError
from penstock.core.event import Body, Event
from penstock.core.plugin import Action, BatchAction, Filter, PipelineContext, Transform
from penstock.datahub.classes import context_class, enveloped

_contexts: WeakKeyDictionary[PipelineContext, Any] = WeakKeyDictionary()


def context_for(ctx: PipelineContext) -> Any:
    """DataHub's context of this pipeline: one object for all its plug-ins."""
    made = _contexts.get(ctx)
    if made is None:
        made = _contexts[ctx] = context_class()(ctx.pipeline_name, ctx.graph)
    made.event_source = ctx.event_source
    return made


class _Adapted:
    """What adapters share: the plug-in, made as DataHub makes it."""

    plugin_class: ClassVar[Any]

    def __init__(self, plugin: Any) -> None:
        self.plugin = plugin
        """The user's own object."""

    @classmethod
    def create(cls, config: dict[str, Any], ctx: PipelineContext) -> Self:
        plugin = cls.plugin_class.create(config, context_for(ctx))
        # What is made of nothing is nothing: the registry has the message for it.
        return cast("Self", None if plugin is None else cls(plugin))


class AdaptedFilter(_Adapted, Filter):
    """A filter of DataHub's kind."""

    def matches(self, event: Event) -> bool:
        return bool(self.plugin.matches(envelope_of(event)))


class AdaptedTransform(_Adapted, Transform):
    """A transformer of DataHub's kind."""

    def transform(self, event: Event) -> Event | None:
        result = self.plugin.transform(envelope_of(event))
        return None if result is None else _taken_back(event, result)


class AdaptedAction(_Adapted, Action):
    """An action of DataHub's kind."""

    def act(self, event: Event) -> bool | None:
        # DataHub takes any other answer for done.
        return self.plugin.act(envelope_of(event)) is not False

    def close(self) -> None:
        self.plugin.close()


class AdaptedAsyncAction(AdaptedAction):
    """An action of DataHub's kind whose `act` is a coroutine, which only Penstock runs."""

    async def act(self, event: Event) -> bool | None:  # type: ignore[override]  # `act` may be `async def`
        return await self.plugin.act(envelope_of(event)) is not False


class AdaptedBatchAction(AdaptedAction, BatchAction):
    """An action of DataHub's kind that takes batches, which only Penstock gives."""

    def act_batch(self, events: Sequence[Event]) -> Sequence[Exception | bool | None]:
        return self.plugin.act_batch([envelope_of(event) for event in events])  # type: ignore[no-any-return]  # checked by its caller


def filter_of(cls: type) -> type[Filter]:
    """The filter that runs this class."""
    return cast("type[Filter]", _named(AdaptedFilter, cls))


def transform_of(cls: type) -> type[Transform]:
    """The transform that runs this class."""
    return cast("type[Transform]", _named(AdaptedTransform, cls))


def action_of(cls: Any) -> type[Action]:
    """The action that runs this class."""
    if callable(getattr(cls, "act_batch", None)):
        adapter: type = AdaptedBatchAction
    else:
        adapter = AdaptedAsyncAction if inspect.iscoroutinefunction(cls.act) else AdaptedAction
    return cast("type[Action]", _named(adapter, cls))


def _named(adapter: type, cls: Any) -> type:
    """Named as the user's class, which is what statistics and messages shall say."""
    return type(
        cls.__name__,
        (adapter,),
        {"plugin_class": cls, "parallel_safe": getattr(cls, "parallel_safe", False), "__module__": cls.__module__},
    )


def envelope_of(event: Event) -> Any:
    """The event's envelope: made once, then the same object for every plug-in."""
    if event.envelope is None:
        event.envelope = enveloped(event)
    return event.envelope


def _taken_back(event: Event, envelope: Any) -> Event:
    """The event as a transformer left it, in its envelope or in another one."""
    try:
        body, event_type, meta = envelope.event, envelope.event_type, envelope.meta
    except AttributeError:
        raise PluginError(
            f"transform returned {type(envelope).__name__}",
            received=type(envelope).__name__,
            allowed="an EventEnvelope, or None to drop it",
        ) from None
    if not (isinstance(body, Body) and body.value is event.value):
        event.event = body
    event.event_type, event.meta = event_type, meta
    event.envelope = envelope
    return event
