"""The small classes that plug-ins extend: a decoder, filter, transform or action has three methods at most."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, Self

from penstock.core.event import Event, RecordLike


class EventSource(Protocol):
    """What an action may ask of its source: acknowledge an event it deferred by returning False from `act`."""

    def ack(self, event: Any, processed: bool = True) -> None: ...  # noqa: FBT001 - DataHub's signature


class PipelineContext:
    """Given to every plug-in's `create`: the pipeline's name, catalogue client, source, and where its file is."""

    def __init__(
        self,
        pipeline_name: str,
        graph: Any = None,
        event_source: EventSource | None = None,
        *,
        folder: str | None = None,
        source: Any = None,
    ) -> None:
        self.pipeline_name = pipeline_name
        self._graph = graph
        self.open_graph: Callable[[], Any] | None = None
        """Makes the catalogue's client for the first who asks for it: it is slow to load."""
        self.event_source = event_source
        self.folder = folder
        """Folder of the pipeline's file; relative paths and modules are looked up there first."""
        self.source = source
        """The pipeline's `KafkaSourceConfig`: actions that reuse its connection read it here."""

    @property
    def graph(self) -> Any:
        """The catalogue's client; None where the pipeline's file has no `datahub` block."""
        if self._graph is None and self.open_graph is not None:
            self._graph = self.open_graph()
        return self._graph

    @graph.setter
    def graph(self, graph: Any) -> None:
        self._graph = graph


Wanted = Callable[[str], Sequence[Mapping[str, Any]] | None]
"""What a filter wants of events of a type: any of these predicates must match; None: all pass."""


@dataclass(slots=True)
class Dropped:
    """What a decoder dropped, and why."""

    unrouted: int = 0
    """Records that there is no event for."""
    early: dict[str, int] = field(default_factory=dict)
    """Change logs by the answer found before their full decode: `passed`, `rejected`, `entirely_rejected`."""
    by_step: dict[int, int] = field(default_factory=dict)
    """Other events, by the step that would have dropped them."""

    def take(self) -> Dropped:
        """What was counted since this was asked last."""
        taken = Dropped(self.unrouted, dict(self.early), dict(self.by_step))
        self.unrouted = 0
        self.early.clear()
        self.by_step.clear()
        return taken


class Decoder(ABC):
    """Turns raw bytes into values, a batch per call."""

    dropped: Dropped | None = None
    """Counts since they were last taken; None: it drops nothing."""

    @classmethod
    @abstractmethod
    def create(cls, source: Any, ctx: PipelineContext) -> Self:
        """`source` is the pipeline's `KafkaSourceConfig`."""

    @abstractmethod
    def decode(self, records: Sequence[RecordLike]) -> Sequence[Event | Exception | None]:
        """One result per record, in order: an event, the error that this record alone ends with, or None for one that
        is dropped. `Unavailable` as a result: an outage concerns this record, which is read again later.

        A decoder that raises is called again with one record at a time.
        """

    def push_down(self, steps: Sequence[Wanted]) -> None:  # noqa: B027 - most can answer no filter
        """What the first steps behind the decoder want. They run all the same: the decoder may drop what they would."""

    def close(self) -> None:  # noqa: B027 - most have nothing to close
        """Let go of connections."""


class Filter(ABC):
    """Lets events pass or drops them."""

    @classmethod
    @abstractmethod
    def create(cls, config: dict[str, Any], ctx: PipelineContext) -> Self: ...

    @abstractmethod
    def matches(self, event: Event) -> bool: ...


class Transform(ABC):
    """Changes events on their way."""

    @classmethod
    @abstractmethod
    def create(cls, config: dict[str, Any], ctx: PipelineContext) -> Self: ...

    @abstractmethod
    def transform(self, event: Event) -> Event | None:
        """The next event, or None to drop it."""


class Action(ABC):
    """Acts on events; DataHub's contract.

    `act` may be `async def`. An action that works on many events at once defines `act_batch`; Penstock then calls that
    instead of `act`.
    """

    parallel_safe: ClassVar[bool] = False
    """True: several objects of this action may work side by side, each on partitions of its own, and may come and go
    with the load."""

    @classmethod
    @abstractmethod
    def create(cls, config: dict[str, Any], ctx: PipelineContext) -> Self: ...

    def act(self, event: Any) -> Any:  # noqa: B027 - DataHub accepts an action without it: it does nothing
        """Work on one event: None or True is done, False defers the acknowledgement, an exception is a failure."""

    @abstractmethod
    def close(self) -> None: ...


class BatchAction(Action):
    """An action that takes a batch and says for each event how it went."""

    @abstractmethod
    def act_batch(self, events: Sequence[Event]) -> Sequence[Exception | bool | None]:
        """One result per event, in order: None or True for done, an exception for a failure.

        Raise (`Transient`) when the target is away: nothing of the batch counts as done.
        """
