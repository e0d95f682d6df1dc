"""The repository of dead letters: recorded once per coordinates, listed newest first, with every step taken."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from penstock.core.dead_letter import DeadLetter
from penstock.store.database import Database
from penstock.store.letters import rows
from penstock.store.letters.facets import Facets, facets
from penstock.store.letters.importing import Importing
from penstock.store.letters.listing import PAGE_SECONDS
from penstock.store.letters.model import DeadLetterFilter
from penstock.store.letters.payloads import PayloadFiles

INLINE_BYTES: Final = 1_000_000
"""Values above this become files beside a local store."""


class DeadLetters(Importing):
    """All that can be done with dead letters: `Listing` reads them, `Claims` changes them, `Keeping` forgets them,
    `Importing` takes them in."""

    def __init__(self, database: Database, inline_bytes: int = INLINE_BYTES) -> None:
        super().__init__(database, PayloadFiles(_folder(database), inline_bytes))

    def facets(self, which: DeadLetterFilter | None = None, *, seconds: float = PAGE_SECONDS) -> Facets:
        """How many of the newest letters there are of each kind, and which errors they share, in so many seconds."""
        return facets(self._database, which or DeadLetterFilter(), seconds)

    def record(self, letters: Sequence[DeadLetter], by: str | None = None) -> None:
        """Make failures durable, in one transaction; a letter that exists is updated and its history goes on. `by` is
        the replay that met them; None: the pipeline itself.

        I1: when this returns, the offsets of these events may be committed.
        """
        if not letters:
            return
        with self._database.write() as connection:
            ids = self._recording.write(connection, letters)
            steps = [rows.step_values(*each, by) for each in zip(ids, letters, strict=True)]
            self._recording.add_steps(connection, steps)


def _folder(database: Database) -> Path | None:
    return Path(database.engine.url.database or "").parent / "payloads" if database.is_sqlite else None
