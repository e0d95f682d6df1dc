"""Jobs over dead letters as every instance sees them; those of instances that are gone have failed, and old ones are
forgotten."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import structlog

from penstock.core.ids import is_id
from penstock.service.replayers import is_dead, own_name
from penstock.store import LetterJobRow, Store
from penstock.store.letters.claims import LEASE_SECONDS

log = structlog.get_logger("penstock.letter_jobs")

SHOWN: Final = 200
_KEPT: Final = 1_000
_KEPT_FOR: Final = 90 * 86_400.0
"""Jobs that have ended are kept so long, and no more of them than that."""
_SILENT: Final = LEASE_SECONDS
"""Seconds after which others may take the letters of a replay that says nothing: then its job is over, too."""
_MISSED: Final = 15.0
"""Seconds between noticing that and believing it: a runner that lives reaches the store by then, if anybody does."""
_GONE: Final = (
    "the instance that ran it is gone; letters that it had not reached are free again, and it can be begun anew"
)


def find_job(store: Store, name: str) -> LetterJobRow | None:
    """By the name that faces give it, as `replay-…`."""
    kind, _, job_id = name.partition("-")
    found = store.letter_jobs.get(job_id.lower()) if is_id(job_id) else None
    if found is not None and _is_lost(found):
        give_up_lost(store)
        found = store.letter_jobs.get(found.id)
    return found if found is not None and found.kind == kind else None


def list_jobs(store: Store, may_see: Callable[[LetterJobRow], bool]) -> list[LetterJobRow]:
    """The newest of those that may be seen, newest first."""
    seen: list[LetterJobRow] = []
    before: str | None = None
    while True:
        page = _page(store, before)
        seen += [row for row in page if may_see(row)]
        if len(page) < SHOWN or len(seen) >= SHOWN:
            return seen[:SHOWN]
        before = page[-1].id


def job_name(row: LetterJobRow) -> str:
    """What faces call it."""
    return f"{row.kind}-{row.id}"


def give_up_lost(store: Store) -> None:
    """Jobs whose instance is gone have failed, and what they held is free. An instance that was only away for long
    says so itself when it is back, and is believed."""
    lost = [row for row in store.letter_jobs.open() if _is_lost(row)]
    if not lost:
        return
    dead = [row.runner for row in lost if is_dead(row.runner)]
    for runner in store.letter_jobs.give_up(_GONE, silent_for=_SILENT, missed_for=_MISSED, dead=dead):
        log.warning("a job over dead letters lost its instance", runner=runner)
        store.dead_letters.release(by=own_name(), reason="its replay is gone", claimed_by=runner)


def tidy(store: Store) -> None:
    """Done now and then, also while nobody looks at jobs."""
    give_up_lost(store)
    store.letter_jobs.forget(keep=_KEPT, older_than=_KEPT_FOR)


def _page(store: Store, before: str | None) -> list[LetterJobRow]:
    page = store.letter_jobs.list(SHOWN, before)
    if any(_is_lost(row) for row in page):
        give_up_lost(store)
        page = store.letter_jobs.list(SHOWN, before)
    return page


def _is_lost(row: LetterJobRow) -> bool:
    """Or noticed to be silent for the first time, which is written down too."""
    if row.over:
        return False
    unheard = row.silent_for > _SILENT and (row.missed_for is None or row.missed_for > _MISSED)
    return unheard or is_dead(row.runner)
