"""Owners of datasets: who they are, and how new ones are merged with those that are known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from penstock.tables.lookup_tables import dir_external_group_user_map, dir_external_user_info
from penstock.tables.metadata_tables import dataset_owner, stg_dataset_owner_unmatched
from penstock.tables.processor import Row
from penstock.tables.processors.datasets import Dataset
from penstock.tables.rows import Rows

_RANKS: Final = {"OWNER": 20, "PRODUCER": 40, "DELEGATE": 60, "STAKEHOLDER": 80}
_UNKNOWN_RANK: Final = 100
_USERS: Final = 300
_GROUPS: Final = 301
_KEPT: Final = ("db_ids", "created_time", "confirmed_by", "confirmed_on")
"""What an owner that is known already passes on."""
_ACCOUNT: Final = ("owner_id", "app_id", "namespace", "owner_type", "owner_sub_type", "owner_id_type", "owner_source")
_STATE: Final = ("is_group", "is_active", "source_time")
_COLUMNS: Final = (*_ACCOUNT, *_STATE, *_KEPT, "is_deleted", "sort_id")


def store_owners(
    rows: Rows, dataset: Dataset | None, urn: str, owners: Iterable[Row], *, now: int, source: str | None = None
) -> None:
    """Owners of whom nothing is known, or of unknown datasets, are set aside; the others are merged.

    `source`: owners that this source gave before, and gives no longer, are dropped.
    """
    known: dict[str, Row] = {}
    for owner in owners:
        app_id, is_active = _account(rows, owner["owner_id"])
        owner |= {"app_id": app_id, "is_active": is_active}
        if dataset is None or app_id == 0:
            _set_aside(rows, urn, owner)
        else:
            known[owner["owner_id"]] = owner
    if dataset is not None and known:
        _replace(rows, dataset, merged(list(known.values()), _existing(rows, dataset), source), now)


def merged(new: Sequence[Row], existing: Sequence[Row], source: str | None) -> list[Row]:
    """New owners first, each with what is known of it; then the others, without those that only `source` named."""
    by_id: dict[str, Row] = {}
    for owner in existing:
        by_id.setdefault(owner["owner_id"], owner)
    out = [_joined(owner, by_id.get(owner["owner_id"])) for owner in new]
    taken = {owner["owner_id"] for owner in new}
    for owner in existing:
        stale = source is not None and (owner["owner_source"] or "").lower() == source.lower()
        if owner["owner_id"] not in taken and not stale:
            out.append(owner)
    return [owner | {"sort_id": place} for place, owner in enumerate(out)]


def _joined(new: Row, old: Row | None) -> Row:
    if old is None:
        return new
    joined = new | {name: old[name] for name in _KEPT}
    if _rank(old["owner_type"]) < _rank(new["owner_type"]):
        joined["owner_type"] = old["owner_type"]
    given, before = new["owner_source"], old["owner_source"]
    if before and given:
        joined["owner_source"] = before if given in before else f"{given},{before}"
    else:
        joined["owner_source"] = given or before
    return joined


def _rank(category: str | None) -> int:
    return _RANKS.get((category or "").upper(), _UNKNOWN_RANK)


def _existing(rows: Rows, dataset: Dataset) -> list[dict[str, Any]]:
    found = rows.select(dataset_owner, _COLUMNS, {"dataset_id": dataset.id})
    return sorted(found, key=lambda owner: (owner["sort_id"] is None, owner["sort_id"], owner["owner_id"]))


def _replace(rows: Rows, dataset: Dataset, owners: Sequence[Row], now: int) -> None:
    same = {"dataset_id": dataset.id, "dataset_urn": dataset.urn, "modified_time": now}
    rows.replace(
        dataset_owner,
        {"dataset_id": dataset.id},
        [{name: owner.get(name) for name in _COLUMNS} | same for owner in owners],
    )


def _set_aside(rows: Rows, urn: str, owner: Row) -> None:
    row = {name: owner.get(name) for name in (*_ACCOUNT, *_STATE, "sort_id")}
    row |= {"dataset_urn": urn, "db_name": "N/A", "db_id": 0}
    same = {name: row[name] for name in ("dataset_urn", "owner_id", "owner_source")}
    rows.replace(stg_dataset_owner_unmatched, same, [row])


def _account(rows: Rows, owner_id: str) -> tuple[int, str]:
    """The application that knows the owner, and whether the owner is active in it."""
    if rows.has(dir_external_user_info):
        for user in rows.select(dir_external_user_info, ["app_id", "is_active"], {"user_id": owner_id}):
            return user["app_id"], _active(user["app_id"], user["is_active"])
    if rows.has(dir_external_group_user_map):
        for group in rows.select(dir_external_group_user_map, ["app_id"], {"group_id": owner_id})[:1]:
            return group["app_id"], _active(group["app_id"], None)
    return 0, "N"


def _active(app_id: int, is_active: str | None) -> str:
    if app_id == _GROUPS:
        return "Y"
    return (is_active or "N") if app_id == _USERS else "N"
