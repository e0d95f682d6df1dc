"""The regular expressions of the built-in processors: one company's paths by default, each replaceable per job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from penstock.core.errors import ConfigError
from penstock.core.loading import did_you_mean
from penstock.tables.java_regex import JavaPattern, java_pattern

Patterns = tuple[JavaPattern, ...]


def _several(*sources: str) -> Patterns:
    return tuple(map(java_pattern, sources))


class Expressions(NamedTuple):
    """With Java's meaning; groups are counted from 1."""

    compaction_path: JavaPattern = java_pattern(r"^(\/\w+\/\w+\/[\w-]+)\/([\w-]+)\/(\d+.*)$")
    """Found in `DatasetOutputPath`: dataset, partition type and partition name."""
    lumos_partition: JavaPattern = java_pattern(r"^.*\/(\d+-\w+-\d+)\/.*$")
    """Found in `TargetDirectory`: the snapshot a delta belongs to."""
    lumos_epoch: JavaPattern = java_pattern(r"(\d+)-\w+-\d+")
    """Found in a partition or directory: the time of its data."""
    lumos_regular: JavaPattern = java_pattern(r"(?<!\d)1\d{9,12}-\w+-\d+")
    """Found in a partition that is named after a time, and not after a key."""
    lumos_source: JavaPattern = java_pattern(r"(\w+)-(\w+)")
    """Found in `DatasourceColo`: deployment environment and data center."""
    audit_skip: Patterns = _several(
        r"(\b|_)temporary(\b|_)",
        r"(\b|_)temp(\b|_)",
        r"(\b|_)tmp(\b|_)",
        r"(\b|_)staging(\b|_)",
        r"(\b|_)stg(\b|_)",
        r"_distcp_",
        r"/output/",
    )
    """A dataset in which one of these is found is left out."""
    audit_name: JavaPattern = java_pattern(r"(/[^/]+/[^/]+)$")
    """Found in a dataset's path: its name."""
    audit_location_prefix: JavaPattern = java_pattern(r"/[^/]+(/[^/]+)?")
    """At the start of a dataset's path: its location prefix."""
    audit_parent: Patterns = _several(
        r"/data/external/gobblin/(.+)",
        r"/data/(databases|dbchange|external)/.+",
        r"/([^/]*data)/tracking/.+",
        r"/([^/]*data)/derived/.+",
        r"/(data)/service/.+",
        r"/([^/]+)/.+",
    )
    """The first that a dataset's path matches in full gives the name of its parent."""

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Expressions:
        """The defaults with some replaced: a text, or a list of texts for those that are several."""
        made: dict[str, Any] = {}
        for name, value in given.items():
            if name not in _GROUPS:
                hint = did_you_mean(name, list(_GROUPS)) or None
                raise ConfigError(
                    f"`{name}` is no expression of a processor", received=name, allowed=list(_GROUPS), hint=hint
                )
            several = name in _SEVERAL
            sources = value if several and isinstance(value, (list, tuple)) else [value]
            patterns = tuple(_pattern(name, source) for source in sources)
            made[name] = patterns if several else patterns[0]
        return cls(**made)


_GROUPS: Final = dict.fromkeys(Expressions._fields, 0) | {
    "compaction_path": 3,
    "lumos_partition": 1,
    "lumos_epoch": 1,
    "lumos_source": 2,
    "audit_name": 1,
    "audit_parent": 1,
}
"""How many groups each must have."""
_SEVERAL: Final = {"audit_skip", "audit_parent"}


def _pattern(name: str, source: object) -> JavaPattern:
    if not isinstance(source, str):
        raise ConfigError(f"`{name}`: a regular expression is wanted", received=source)
    try:
        pattern = java_pattern(source)
    except ConfigError as error:
        raise ConfigError(f"`{name}`: {error.message}", received=source) from error
    if pattern.groups < _GROUPS[name]:
        wanted = f"{_GROUPS[name]} group{'s' if _GROUPS[name] > 1 else ''}"
        raise ConfigError(f"`{name}`: {wanted} are wanted, the expression has {pattern.groups}", received=source)
    return pattern
