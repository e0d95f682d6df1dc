"""Where DataHub's own package is installed, plug-ins get its classes: the envelope, the context and the events."""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from operator import attrgetter
from typing import Any

from penstock.core.event import Body, Event
from penstock.datahub import context, envelope, imports
from penstock.datahub.events import EVENTS
from penstock.datahub.records import DictWrapper

Maker = Callable[[Any], Any]


@functools.cache
def has_original() -> bool:
    """Whether DataHub's own package for actions is installed here."""
    spec = find_spec("datahub_actions")
    return spec is not None and spec.origin is not None and not isinstance(spec.loader, imports.ModuleLoader)


@functools.cache
def envelope_class() -> Any:
    """The class of envelopes that plug-ins get."""
    if has_original():
        return import_module("datahub_actions.event.event_envelope").EventEnvelope
    return envelope.EventEnvelope


@functools.cache
def context_class() -> Any:
    """The class of contexts that plug-ins get."""
    if has_original():
        return import_module("datahub_actions.pipeline.pipeline_context").PipelineContext
    return context.PipelineContext


@functools.cache
def event_makers() -> dict[type, Maker]:
    """Light event class to what makes the original's event of it; empty where the original is not installed."""
    if not has_original():
        return {}
    registry = import_module("datahub_actions.event.event_registry")
    known = [(light, getattr(registry, light.__name__, None)) for light in EVENTS.values()]
    return {light: _maker(light, original) for light, original in known if original is not None}


def preload() -> None:
    """Load the original's classes now, where it is installed: it takes seconds, and every worker would do it anew."""
    if has_original():
        event_makers()
        envelope_class()
        context_class()


def enveloped(event: Event) -> Any:
    """An event as plug-ins written for DataHub see it."""
    body = event.event
    if isinstance(body, Body):
        # A body of its own: an event that held something which points back at it would never be freed.
        body = Body(Event(event.record, event.value, event.event_type))
    elif make := event_makers().get(type(body)):
        body = event.event = make(body)
    return envelope_class()(event.event_type, body, event.meta)


def _maker(light: type[DictWrapper], original: Any) -> Maker:
    """Makes an original of a light record: the same object that its `from_obj` makes, without the generic way there.

    A light record holds each field in the schema's form with defaults in place, so all that is left to do is to fill
    the dict that the original wraps.
    """
    defaults: dict[str, Any] = dict(original._construct({})._inner_dict)  # noqa: SLF001 - the one way past its checks
    names = [field.name for field in light.FIELDS if field.name in defaults]
    inner = _inner_makers(light, names)
    values = attrgetter(*names)  # a record has two fields at least, so this gives a tuple
    unknown = {name: default for name, default in defaults.items() if name not in names}
    new = original.__new__
    given = "given_parameters" in light.__struct_fields__

    def make(record: Any) -> Any:
        fields = dict(zip(names, values(record), strict=True))
        for name, make_inner in inner:
            value = fields[name]
            if value is not None:
                fields[name] = make_inner(value)
        if unknown:
            fields |= unknown
        if given and record.given_parameters:
            fields["__parameters_json"] = record.given_parameters
        made = new(original)
        made._inner_dict = fields  # noqa: SLF001 - as above
        return made

    return make


def _inner_makers(light: type[DictWrapper], names: list[str]) -> list[tuple[str, Maker]]:
    schema_classes = import_module("datahub.metadata.schema_classes")
    kinds = [(field.name, field.kind) for field in light.FIELDS if field.name in names]
    return [
        (name, _maker(kind, getattr(schema_classes, kind.__name__)))
        for name, kind in kinds
        if isinstance(kind, type) and kind.FIELDS
    ]
