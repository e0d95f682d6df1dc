"""What every page has."""

from __future__ import annotations

import asyncio

import pytest
from nicegui import Client, ui

from penstock.console.frame import waiting
from penstock.core.errors import Unavailable


def test_a_page_that_is_closed_while_it_waits_fails_at_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    async def connected(_: Client, timeout: float) -> None:
        assert timeout

    async def closed() -> None:
        with Client(ui.page("/waits"), request=None) as client:
            async with waiting():
                client.delete()
                raise Unavailable("the broker is away")

    monkeypatch.setattr(Client, "connected", connected)
    with pytest.raises(Unavailable, match="the broker is away"):
        asyncio.run(closed())
