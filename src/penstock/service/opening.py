"""Opens the store that the settings name, for commands that look at it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from penstock.config.settings import Settings
from penstock.store.errors import StoreMissing
from penstock.store.store import Store


@contextmanager
def opened_store(settings: Settings | None = None) -> Iterator[Store | None]:
    """The store; None where none exists yet, for nothing has run then and looking must not make one."""
    try:
        store = Store.open((settings or Settings.load()).store_url, create=False)
    except StoreMissing:
        yield None
        return
    with store:
        yield store
