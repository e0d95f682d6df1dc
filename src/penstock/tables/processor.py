"""The class that users' processors extend, and what a processor is told about its job."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from penstock.core.clock import SYSTEM, Clock
from penstock.core.errors import PenstockError, Terminal
from penstock.tables.expressions import Expressions

if TYPE_CHECKING:  # a user's processor needs no database to be imported
    import sqlalchemy as sa

Row = dict[str, Any]
"""Column names and values."""
Values = Literal["fixed", "v0.2.1"]


class BadEvent(PenstockError, Terminal):
    """An event that a processor can make no row of; it becomes a dead letter."""

    code = "bad-event"


class ClusterCodes(Protocol):
    """Knows the code of the cluster that a name belongs to."""

    def code_of(self, name: str | None) -> str | None: ...


class NoClusters:
    """Where there is no `cfg_cluster`, every name stays as it is."""

    def code_of(self, name: str | None) -> str | None:
        return name


@dataclass(frozen=True, kw_only=True)
class ProcessorSettings:
    """What a job says to its processors."""

    clusters: ClusterCodes = field(default_factory=NoClusters)
    """Look-up of cluster codes."""
    expressions: Expressions = field(default_factory=Expressions)
    """Regular expressions over paths and names."""
    values: Values = "fixed"
    """`v0.2.1`: the values that WhereHows computed, its mistakes included."""
    zone: str = "UTC"
    """Time zone of dates made from times."""
    owners: bool = True
    """False: audit events leave owners alone."""
    surroundings: Clock = SYSTEM
    """The clock."""

    @property
    def as_original(self) -> bool:
        return self.values == "v0.2.1"

    def now(self) -> int:
        """Epoch seconds, the unit of WhereHows' own times."""
        return int(self.surroundings.time())


class Processor(ABC):
    """Turns an event into rows of one table.

    It is made without arguments, once per topic and lane. What it raises makes the event a dead letter.
    """

    columns: ClassVar[Mapping[str, str] | Sequence[str]] = ()
    """Columns of its rows, optionally with their types; checked against the table at the start, and the table can be
    made from it (`penstock wherehows ddl`)."""
    keys: ClassVar[Sequence[str]] = ()
    """Columns that tell one row from another: a second row of the same keys replaces the first."""

    @abstractmethod
    def process(self, record: dict[str, Any] | None, topic: str) -> Row | list[Row] | None:
        """The rows of an event, by column name; None: nothing to store. `record` is None for a tombstone."""

    def configure(self, settings: ProcessorSettings) -> None:  # noqa: B027 - most have nothing to be told
        """Called once, before the first event."""


class Writer(Processor):
    """Writes to several tables itself, within the transaction that also moves the cursor."""

    tables: ClassVar[Sequence[str]] = ()
    """Every table that it writes to."""

    def __init__(self) -> None:
        self.settings = ProcessorSettings()

    def configure(self, settings: ProcessorSettings) -> None:
        self.settings = settings

    def process(self, record: dict[str, Any] | None, topic: str) -> None:  # noqa: ARG002 - it writes instead
        """Nothing is left to be stored."""
        return

    @abstractmethod
    def write(self, connection: sa.Connection, record: dict[str, Any] | None, topic: str) -> None:
        """Store all of an event; what it raises undoes what it has written of it."""
