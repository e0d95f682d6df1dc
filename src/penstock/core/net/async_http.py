"""aiohttp sessions that connect to checked addresses only."""

from __future__ import annotations

import asyncio
import socket

from aiohttp import TCPConnector
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

from penstock.core.net.guard import AddressGuard, HostUnknown


def guarded_connector(guard: AddressGuard, limit: int = 100) -> TCPConnector:
    """A connector whose connections go to the addresses that the guard has checked; TLS still verifies the name.

    aiohttp does not resolve hosts that are written as addresses: call `guard.check_literal` for the URL's host first.
    The session must not set `trust_env`: a proxy would resolve the name again.
    """
    return TCPConnector(limit=limit, resolver=ThreadedResolver() if guard.allow_private else _GuardedResolver(guard))


class _GuardedResolver(AbstractResolver):
    def __init__(self, guard: AddressGuard) -> None:
        self._guard = guard

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        try:
            found = await asyncio.to_thread(self._guard.addresses, host, port)
        except HostUnknown as error:
            raise OSError(None, error.message) from None  # what aiohttp reports as a failed connection
        families = [(address, socket.AF_INET6 if ":" in address else socket.AF_INET) for address in found]
        return [
            ResolveResult(hostname=host, host=address, port=port, family=kind, proto=0, flags=socket.AI_NUMERICHOST)
            for address, kind in families
            if family in (socket.AF_UNSPEC, kind)
        ]

    async def close(self) -> None:
        """Nothing is open."""
