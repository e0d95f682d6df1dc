"""Penstock's own database: dead letters, states and history of pipelines, mirrored offsets, instances, and the work
that triggers bring: projects, workflows, work orders; and who may see and change it."""

from penstock.store.audit import AuditFilter, AuditRow
from penstock.store.dead_letters import DeadLetters
from penstock.store.desired import Desired, DesiredRow, DesiredStates
from penstock.store.errors import (
    StoreAddressError,
    StoreError,
    StoreMissing,
    StoreRowUnreadable,
    StoreTooNew,
    StoreUnavailable,
)
from penstock.store.instances import InstanceRow, Instances
from penstock.store.letters.facets import ErrorGroup, Facets
from penstock.store.letters.jobs import LetterJobKind, LetterJobReport, LetterJobRow, LetterJobState
from penstock.store.letters.model import (
    ClaimedLetter,
    DeadLetterCursor,
    DeadLetterFilter,
    DeadLetterRow,
    DeadLetterStatus,
    DeadLetterStep,
    LetterCount,
    LetterPlace,
    LetterRefused,
    StoredDeadLetter,
    Which,
)
from penstock.store.logins import SessionRow, TokenRow
from penstock.store.managed import ManagedRow, ManagedVersion
from penstock.store.offsets import FirstStart, MirrorRow, Offsets
from penstock.store.partitions import OwnedPartition, PartitionRow, Partitions
from penstock.store.people import Changed, PersonRow, Taken
from penstock.store.pipelines import HistoryRow, Pipelines, SpecRow, StateRow
from penstock.store.store import Store

__all__ = [
    "AuditFilter",
    "AuditRow",
    "Changed",
    "ClaimedLetter",
    "DeadLetterCursor",
    "DeadLetterFilter",
    "DeadLetterRow",
    "DeadLetterStatus",
    "DeadLetterStep",
    "DeadLetters",
    "Desired",
    "DesiredRow",
    "DesiredStates",
    "ErrorGroup",
    "Facets",
    "FirstStart",
    "HistoryRow",
    "InstanceRow",
    "Instances",
    "LetterCount",
    "LetterJobKind",
    "LetterJobReport",
    "LetterJobRow",
    "LetterJobState",
    "LetterPlace",
    "LetterRefused",
    "ManagedRow",
    "ManagedVersion",
    "MirrorRow",
    "Offsets",
    "OwnedPartition",
    "PartitionRow",
    "Partitions",
    "PersonRow",
    "Pipelines",
    "SessionRow",
    "SpecRow",
    "StateRow",
    "Store",
    "StoreAddressError",
    "StoreError",
    "StoreMissing",
    "StoreRowUnreadable",
    "StoreTooNew",
    "StoreUnavailable",
    "StoredDeadLetter",
    "Taken",
    "TokenRow",
    "Which",
]
