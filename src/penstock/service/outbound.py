"""Keeps addresses that API callers type from leading inside the house."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from ipaddress import ip_address, ip_network

from penstock.config.spec import PipelineSpec
from penstock.core.errors import ConfigError
from penstock.kafka.network_probe import Address, addresses
from penstock.workflows.public_address import AddressRefusedError, check_public, is_disguised


def resolve(host: str) -> list[str]:
    """The addresses of a host, each once; `OSError` where it has none."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(info[4][0]) for info in found))


class Outbound:
    """Which hosts callers may name: those the whole internet reaches, those that are listed, and `clusters` that are
    in use already, at their very ports: what else runs on those machines is none of a caller's business."""

    def __init__(self, allowed: Iterable[str] = (), clusters: Iterable[Address] = ()) -> None:
        self._clusters = {Address(_name(place.host), place.port) for place in clusters}
        self._hosts = set[str]()
        self._networks = []
        for entry in allowed:
            try:
                self._networks.append(ip_network(entry, strict=False))
            except ValueError:
                self._hosts.add(entry.lower().rstrip("."))

    @classmethod
    def beside(cls, allowed: Iterable[str], specs: Iterable[PipelineSpec]) -> Outbound:
        """With the clusters that these pipelines read from."""
        used = [spec.source.config.connection.bootstrap for spec in specs if not spec.source.is_foreign]
        return cls(allowed, [place for bootstrap in used for place in addresses(bootstrap)])

    def knows(self, bootstrap: str) -> bool:
        """Whether the cluster is in use already, so that those who run it are trusted with where its brokers are."""
        return all(Address(_name(place.host), place.port) in self._clusters for place in addresses(bootstrap))

    def check(self, host: str, port: int | None = None) -> list[str]:
        """The addresses to connect to, and no others: a name may be answered differently the next time. `port` is
        given for brokers only."""
        name = _name(host)
        if not name or is_disguised(name):
            raise AddressRefusedError(host, host)
        try:
            found = resolve(name)
        except OSError as error:
            raise ConfigError(f"the host {host} has no address: {error.strerror or error}", received=host) from None
        used = port is not None and Address(name, port) in self._clusters
        if name not in self._hosts and not used:
            for address in found:
                if not self._listed(address):
                    self._check_public(host, address)
        return found

    def _listed(self, address: str) -> bool:
        ip = ip_address(address.partition("%")[0])
        return any(ip in network for network in self._networks)

    def _check_public(self, host: str, address: str) -> None:
        try:
            check_public(host, address)
        except AddressRefusedError as error:
            error.hint = "an admin of the machine may list it in api.networks"
            raise


def _name(host: str) -> str:
    return host.strip("[]").lower().rstrip(".")
