"""Finding the dataset that an event is about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from penstock.tables.java_regex import java_pattern
from penstock.tables.metadata_tables import dict_dataset
from penstock.tables.processors.reading import record_of, whole
from penstock.tables.rows import Rows

_URN: Final = java_pattern(r"urn:li:dataset:\(urn:li:dataPlatform:([\w-]+),\s?(.*),\s?\w+\)")
_PLATFORM: Final = java_pattern(r"urn:li:dataPlatform:([\w-]+)")


class Dataset(NamedTuple):
    id: int
    urn: str


def uri_of(urn: str) -> str:
    """`<platform>:///<path>` from a dataset's URN; anything else stays as it is."""
    found = _URN.full(urn)
    return _uri(found[1], found[2]) if found else urn


def _uri(platform: str, name: str) -> str:
    path = name.replace(".", "/")
    return f"{platform}://{'' if path.startswith('/') else '/'}{path}"


def candidates(record: Mapping[str, Any]) -> list[str]:
    """The names by which an event gives its dataset, the surest first, each as `dict_dataset` would hold it."""
    properties = record_of(record, "datasetProperties") or {}
    identifier = record_of(record, "datasetIdentifier") or {}
    found = [uri_of(str(name)) for name in (properties.get("uri"), record.get("urn")) if name]
    platform = _PLATFORM.full(identifier.get("dataPlatformUrn"))
    if platform and identifier.get("nativeName"):
        found.append(_uri(platform[1], identifier["nativeName"]))
    return list(dict.fromkeys(found))


def find(rows: Rows, record: Mapping[str, Any]) -> Dataset | None:
    """The dataset of an event: by its id, or by the first of its names that is known."""
    given = whole(record, "datasetId")
    if given is not None:
        for row in rows.select(dict_dataset, ["id", "urn"], {"id": given}):
            return Dataset(row["id"], row["urn"])
    for urn in candidates(record):
        dataset = by_urn(rows, urn)
        if dataset is not None:
            return dataset
    return None


def by_urn(rows: Rows, urn: str) -> Dataset | None:
    for row in rows.select(dict_dataset, ["id"], {"urn": urn}):
        return Dataset(row["id"], urn)
    return None
