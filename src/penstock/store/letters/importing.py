"""Taking letters in from elsewhere: all of them or none, and never one twice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from penstock.core.dead_letter import DeadLetter
from penstock.store.letters import rows
from penstock.store.letters.keeping import Keeping
from penstock.store.letters.model import DeadLetterStatus, DeadLetterStep, LetterPlace
from penstock.store.tables import dead_letters


class LetterToImport(NamedTuple):
    """A letter as another store knew it."""

    letter: DeadLetter
    status: DeadLetterStatus
    replays: int
    history: Sequence[DeadLetterStep]


class Imported(NamedTuple):
    """What an import did."""

    added: int
    present: int
    """Letters of events that the store has letters of already; these were left as they are."""


class Importing(Keeping):
    """The importing side of the repository."""

    def import_letters(self, batches: Iterable[Sequence[LetterToImport]], *, by: str) -> Imported:
        """Add what is not there yet, in one transaction over all batches."""
        added = present = 0
        with self._database.write() as connection:
            now = self._database.now(connection)
            for batch in batches:
                known = self._known(connection, [rows.place_of(each.letter) for each in batch])
                fresh = {at: each for each in batch if (at := rows.place_of(each.letter)) not in known}
                if fresh:
                    self._add(connection, list(fresh.values()), by, now)
                added += len(fresh)
                present += len(batch) - len(fresh)
        return Imported(added, present)

    def _known(self, connection: sa.Connection, places: Sequence[LetterPlace]) -> set[LetterPlace]:
        columns = [dead_letters.c[name] for name in rows.COORDINATES]
        found = connection.execute(sa.select(*columns).where(sa.tuple_(*columns).in_(places)))
        return {LetterPlace(*row) for row in found}

    def _add(self, connection: sa.Connection, fresh: Sequence[LetterToImport], by: str, now: int) -> None:
        ids = self._recording.write(connection, [each.letter for each in fresh])
        changed: list[dict[str, Any]] = []
        steps: list[dict[str, Any]] = []
        for letter_id, each in zip(ids, fresh, strict=True):
            steps += [_step(letter_id, step) for step in each.history]
            steps.append(_step(letter_id, DeadLetterStep(at=now, kind="imported", text="", by=by, data={})))
            # The replay that held it is another store's.
            status = "new" if each.status == "replaying" else each.status
            changed.append({"at_id": letter_id, "status": status, "replays": each.replays, "changed_at": now})
        values: dict[str, Any] = {name: sa.bindparam(name) for name in ("status", "replays", "changed_at")}
        update = sa.update(dead_letters).where(dead_letters.c.id == sa.bindparam("at_id")).values(values)
        connection.execute(update, changed)
        self._recording.add_steps(connection, steps)


def _step(letter_id: int, step: DeadLetterStep) -> dict[str, Any]:
    values = {"at": step.at, "kind": step.kind, "text": step.text, "taken_by": step.by, "data": step.data}
    return {"letter_id": letter_id} | values
