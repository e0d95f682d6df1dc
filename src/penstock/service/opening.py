"""Opens the store that the settings name, for commands that look at it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from penstock.config.settings import Settings
from penstock.core.errors import Unavailable
from penstock.store.errors import StoreMissing
from penstock.store.store import Store

log = structlog.get_logger("penstock.store")

_LONGEST_PAUSE = 30.0


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


def opened_in_time(settings: Settings, stop: threading.Event | None) -> Store:
    """The same; with `stop`, a store that is away is waited for until that is set."""
    pause = 1.0
    while True:
        try:
            return opened_for_writing(settings)
        except Unavailable as error:
            if stop is None:
                raise
            log.warning("the store does not answer", reason=str(error), again_in=f"{pause:g} s")
            if stop.wait(pause):
                raise
            pause = min(2 * pause, _LONGEST_PAUSE)


def _opened(settings: Settings, *, create: bool) -> Store:
    return Store.open(settings.store_url, create=create, inline_bytes=settings.dead_letters.inline_size)
