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
        store = _opened(settings or Settings.load(), create=False)
    except StoreMissing:
        yield None
        return
    with store:
        yield store


def opened_for_writing(settings: Settings) -> Store:
    """The store, made where there is none yet."""
    return _opened(settings, create=True)


def _opened(settings: Settings, *, create: bool) -> Store:
    return Store.open(settings.store_url, create=create, inline_bytes=settings.dead_letters.inline_size)
