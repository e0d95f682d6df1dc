"""Questions of pages are asked in threads: the loop is shared by all pages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from nicegui import app, run

from penstock.core.errors import Unavailable

T = TypeVar("T")


async def in_thread(question: Callable[[], T]) -> T:
    """The answer to a question that may block.

    NiceGUI's own `run.io_bound` turns a cancellation into an answer of None: a page whose tab was closed while it asked
    would go on, and fail at what is no longer there.
    """
    if app.is_stopping:
        raise Unavailable("the server is stopping")
    return await asyncio.get_running_loop().run_in_executor(run.thread_pool, question)
