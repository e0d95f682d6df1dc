"""Discards of many dead letters, page after page, as the work of a job."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeVar

from penstock.core.backoff import Backoff
from penstock.core.errors import Unavailable
from penstock.service.replayers import own_name
from penstock.store import Store, Which
from penstock.store.letters.claims import DiscardedPage

T = TypeVar("T")
_MOST_PATIENCE: Final = 5.0
"""Seconds between two tries while the store is away."""


@dataclass(slots=True)
class DiscardWork:
    """Closes letters without a replay."""

    store: Store
    which: Which
    by: str
    reason: str
    total: int
    pipelines: Collection[str]
    runner: str = field(default_factory=own_name)
    done: int = 0
    note: str | None = None
    halted: str | None = None

    def figures(self) -> dict[str, dict[str, Any]]:
        return {name: {} for name in self.pipelines}

    def run(self, stop: threading.Event) -> None:
        # Refuses ids that somebody has replayed or discarded since they were chosen.
        self._patiently(stop, partial(self.store.dead_letters.refuse_discard, self.which))
        after = 0
        while page := self._patiently(stop, partial(self._page, after)):
            self.done, after = self.done + page.letters, page.last_id

    def _page(self, after: int) -> DiscardedPage | None:
        return self.store.dead_letters.discard_page(self.which, by=self.by, reason=self.reason, after=after)

    def _patiently(self, stop: threading.Event, act: Callable[[], T]) -> T | None:
        """I6: a store that is away is waited for. None: stopped."""
        away = Backoff(most=_MOST_PATIENCE)
        while not stop.is_set():
            try:
                answer = act()
            except Unavailable as error:
                self.note = f"the store does not answer: {error}"
                stop.wait(away.fail())
            else:
                self.note = None
                return answer
        return None
