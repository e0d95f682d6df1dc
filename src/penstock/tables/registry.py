"""Processors by name: the eight of WhereHows, entry points, and classes of the user's own."""

from __future__ import annotations

import re
from typing import Final

from penstock.core.errors import PluginError
from penstock.core.loading import did_you_mean
from penstock.core.registry import Registry
from penstock.tables.processor import Processor

_HOME: Final = "penstock.tables.processors"

processors: Final[Registry[Processor]] = Registry(
    kind="processor",
    base=Processor,  # type: ignore[type-abstract]  # classes are resolved here, not made
    builtin={
        "gobblin-compaction": f"{_HOME}.compaction:CompactionProcessor",
        "gobblin-distcp": f"{_HOME}.distcp:DistcpProcessor",
        "gobblin-lumos": f"{_HOME}.lumos:LumosProcessor",
        "gobblin-audit": f"{_HOME}.audit:AuditProcessor",
        "metastore-audit": f"{_HOME}.metastore:MetastoreProcessor",
        "job-execution-lineage": f"{_HOME}.lineage:LineageProcessor",
        "metadata-change": f"{_HOME}.metadata_change:MetadataChangeProcessor",
        "metadata-inventory": f"{_HOME}.inventory:InventoryProcessor",
    },
    groups=("penstock.processors",),
)

JAVA_NAMES: Final = {
    "GobblinTrackingCompactionProcessor": "gobblin-compaction",
    "GobblinTrackingDistcpNgProcessor": "gobblin-distcp",
    "GobblinTrackingLumosProcessor": "gobblin-lumos",
    "GobblinTrackingAuditProcessor": "gobblin-audit",
    "MetastoreAuditProcessor": "metastore-audit",
    "JobExecutionLineageProcessor": "job-execution-lineage",
    "MetadataChangeProcessor": "metadata-change",
    "MetadataInventoryProcessor": "metadata-inventory",
}
"""WhereHows' classes, in either of the two packages they lived in."""
_PACKAGES: Final = ("models.kafka", "metadata.etl.kafka")
_JAVA_CLASS: Final = re.compile(r"[A-Za-z_$][\w$]*(\.[A-Za-z_$][\w$]*)+")


def resolve_processor(name: str, folder: str | None = None) -> type[Processor]:
    """The class behind a short name, a class name of WhereHows, `pkg.mod:Class` or `./file.py:Class`."""
    package, _, last = name.rpartition(".")
    if package in _PACKAGES and last in JAVA_NAMES:
        return processors.resolve(JAVA_NAMES[last])
    if _JAVA_CLASS.fullmatch(name):
        raise _java(name, last)
    return processors.resolve(name, folder)


def is_built_in(name: object) -> bool:
    """Whether a processor's name is one of Penstock's own, or of WhereHows'."""
    package, _, last = str(name).rpartition(".")
    return name in processors.builtin or (package in _PACKAGES and last in JAVA_NAMES)


def _java(name: str, last: str) -> PluginError:
    return PluginError(
        f"`{name}` is a Java class, and no processor of WhereHows; Java classes cannot be run",
        received=name,
        allowed=sorted([*processors.builtin, "pkg.mod:Class", "./file.py:Class"]),
        hint=did_you_mean(last, sorted(JAVA_NAMES))
        or "write it as a Python class that extends penstock.Processor, and name it as pkg.mod:Class",
    )
