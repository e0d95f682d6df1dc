"""The classes that plug-ins written for DataHub Actions extend, for use where its own package is not installed."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Iterable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from penstock.datahub.context import PipelineContext
    from penstock.datahub.envelope import EventEnvelope


class Closeable(AbstractContextManager["Closeable"]):
    """Something to be closed; leaving its `with` block closes it."""

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Event(metaclass=ABCMeta):
    """What an envelope carries: anything that can be written as JSON and read back."""

    @classmethod
    @abstractmethod
    def from_json(cls, json_str: str) -> Event: ...

    @abstractmethod
    def as_json(self) -> str: ...


class PlaceholderEvent(Event):
    """Fills an envelope that has no event."""

    @classmethod
    def from_json(cls, json_str: str) -> PlaceholderEvent:
        raise NotImplementedError("a placeholder cannot be read from JSON")

    def as_json(self) -> str:
        raise NotImplementedError("a placeholder has no JSON form")


class Action(Closeable, metaclass=ABCMeta):
    """Acts on events; without an `act` of its own it does nothing."""

    @classmethod
    @abstractmethod
    def create(cls, config_dict: dict[str, Any], ctx: PipelineContext) -> Action: ...

    def act(self, event: EventEnvelope) -> bool | None:
        """None or True: done; False: acknowledged later, through `ctx.event_source`; an exception is a failure."""


class Transformer(metaclass=ABCMeta):
    """Changes events on their way."""

    @classmethod
    @abstractmethod
    def create(cls, config: dict[str, Any], ctx: PipelineContext) -> Transformer: ...

    @abstractmethod
    def transform(self, event: EventEnvelope) -> EventEnvelope | None:
        """The next event, or None to drop it."""


class Filter(metaclass=ABCMeta):
    """Lets events pass or drops them."""

    @classmethod
    @abstractmethod
    def create(cls, config: dict[str, Any], ctx: PipelineContext) -> Filter: ...

    @abstractmethod
    def matches(self, event: EventEnvelope) -> bool: ...


class EventSource(Closeable, metaclass=ABCMeta):
    """Where a pipeline's events come from."""

    @classmethod
    @abstractmethod
    def create(cls, config_dict: dict[str, Any], ctx: PipelineContext) -> EventSource: ...

    @abstractmethod
    def events(self) -> Iterable[EventEnvelope]: ...

    @abstractmethod
    def ack(self, event: EventEnvelope, processed: bool = True) -> None:  # noqa: FBT001 - DataHub's signature
        """The event is finished; with `processed=False` it is not yet."""

    def set_filters(self, filters: list[Filter]) -> None:
        """The pipeline's filters, for sources that can drop events early."""

    def request_stop(self) -> None:
        """Ask `events` to come to its end; what it uses stays open until `close`."""
        self._stop_requested = True
        if hasattr(self, "running"):
            self.running = False

    def stop_requested(self) -> bool:
        return getattr(self, "_stop_requested", False)
