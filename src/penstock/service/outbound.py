"""Keeps addresses that API callers type from leading inside the house."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from ipaddress import ip_address, ip_network

from penstock.core.errors import ConfigError
from penstock.workflows.public_address import AddressRefusedError, check_public, is_disguised


def resolve(host: str) -> list[str]:
    """The addresses of a host, each once; `OSError` where it has none."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(info[4][0]) for info in found))


class Outbound:
    """Which hosts callers may name: those the whole internet reaches, and those that are listed."""

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        self._hosts = set[str]()
        self._networks = []
        for entry in allowed:
            try:
                self._networks.append(ip_network(entry, strict=False))
            except ValueError:
                self._hosts.add(entry.lower().rstrip("."))

    def check(self, host: str) -> list[str]:
        """The addresses to connect to, and no others: a name may be answered differently the next time."""
        name = host.strip("[]").lower().rstrip(".")
        if not name or is_disguised(name):
            raise AddressRefusedError(host, host)
        try:
            addresses = resolve(name)
        except OSError as error:
            raise ConfigError(f"the host {host} has no address: {error.strerror or error}", received=host) from None
        if name not in self._hosts:
            for address in addresses:
                if not self._listed(address):
                    self._check_public(host, address)
        return addresses

    def _listed(self, address: str) -> bool:
        ip = ip_address(address.partition("%")[0])
        return any(ip in network for network in self._networks)

    def _check_public(self, host: str, address: str) -> None:
        try:
            check_public(host, address)
        except AddressRefusedError as error:
            error.hint = "an admin of the machine may list it in api.networks"
            raise
