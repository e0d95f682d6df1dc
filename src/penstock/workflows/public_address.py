"""Keeps outgoing requests away from addresses inside the house: loopback, private, link-local, metadata services."""

from __future__ import annotations

import socket
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

from penstock.core.errors import PenstockError, Terminal

_NAT64 = IPv6Network("64:ff9b::/96")


class AddressRefusedError(PenstockError, Terminal):
    """A host is, or resolves to, an address that is not public."""

    code = "address-refused"

    def __init__(self, host: str, address: str) -> None:
        where = host if host == address else f"{host} ({address})"
        super().__init__(
            f"{where} is not a public address", received=host, hint="`allow_private: true` lets it through"
        )


def check_public(host: str, address: str) -> None:
    """Refuse an address, also one that only wraps an inner one, unless the whole internet can reach it."""
    ip = ip_address(address.partition("%")[0])
    if not all(inner.is_global and not inner.is_multicast for inner in _meant(ip)):
        raise AddressRefusedError(host, address)


def check_literal(host: str) -> None:
    """Refuse a host written as an address, or named as this machine; other names are checked when they are resolved."""
    if host.rstrip(".").lower().rpartition(".")[2] == "localhost":
        raise AddressRefusedError(host, host)
    try:
        ip_address(host.partition("%")[0])
    except ValueError:
        return
    check_public(host, host)


def is_disguised(host: str) -> bool:
    """Whether a host is an IPv4 address in one of the forms that only old libraries read: `127.1`, `0x7f000001`."""
    try:
        return socket.inet_ntoa(socket.inet_aton(host)) != host
    except OSError:
        return False


class PublicResolver(AbstractResolver):
    """Resolves names to public addresses only; the connection is made to the very address that was checked."""

    def __init__(self) -> None:
        self._inner = ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        found = await self._inner.resolve(host, port, family)
        for result in found:
            check_public(host, result["host"])
        return found

    async def close(self) -> None:
        await self._inner.close()


def _meant(ip: IPv4Address | IPv6Address) -> list[IPv4Address | IPv6Address]:
    """The addresses that packets to `ip` may end at: itself, or the IPv4 address inside it."""
    if isinstance(ip, IPv4Address):
        return [ip]
    if ip in _NAT64:
        return [IPv4Address(int(ip) & 0xFFFFFFFF)]
    if ip.ipv4_mapped:
        return [ip.ipv4_mapped]
    if ip.sixtofour:
        return [ip.sixtofour]
    return [ip, *(ip.teredo or ())]
