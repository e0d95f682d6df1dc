"""What pages ask in threads."""

from __future__ import annotations

import asyncio
import threading

import pytest

from penstock.console.threads import in_thread

_PATIENCE = 30.0


def test_a_page_that_is_closed_while_it_asks_does_not_go_on() -> None:
    begun, answered = threading.Event(), threading.Event()

    def question() -> str:
        begun.set()
        answered.wait(_PATIENCE)
        return "late"

    async def closed() -> str:
        page = asyncio.create_task(in_thread(question))
        while not begun.is_set():
            await asyncio.sleep(0)
        page.cancel()
        return await page

    try:
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(closed())
    finally:
        answered.set()


def test_answers_and_errors_come_back() -> None:
    def refuse() -> None:
        raise ValueError("no")

    assert asyncio.run(in_thread(lambda: 7)) == 7
    with pytest.raises(ValueError, match="no"):
        asyncio.run(in_thread(refuse))
