"""Penstock's own database: dead letters, states and history of pipelines, mirrored offsets, instances, and the work
that triggers bring: projects, workflows, work orders."""

from penstock.store.dead_letters import DeadLetters
from penstock.store.desired import Desired, DesiredRow, DesiredStates
from penstock.store.errors import StoreAddressError, StoreError, StoreMissing, StoreTooNew, StoreUnavailable
from penstock.store.instances import InstanceRow, Instances
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
from penstock.store.offsets import MirrorRow, Offsets
from penstock.store.partitions import OwnedPartition, PartitionRow, Partitions
from penstock.store.pipelines import HistoryRow, Pipelines, SpecRow, StateRow
from penstock.store.store import Store

__all__ = [
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
    "HistoryRow",
    "InstanceRow",
    "Instances",
    "LetterCount",
    "LetterPlace",
    "LetterRefused",
    "MirrorRow",
    "Offsets",
    "OwnedPartition",
    "PartitionRow",
    "Partitions",
    "Pipelines",
    "SpecRow",
    "StateRow",
    "Store",
    "StoreAddressError",
    "StoreError",
    "StoreMissing",
    "StoreTooNew",
    "StoreUnavailable",
    "StoredDeadLetter",
    "Which",
]
