"""Decides which addresses Penstock connects to on behalf of users; the only place that knows what is public."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

from pydantic import StrictBool

from penstock.core.deadline import Deadline
from penstock.core.errors import ConfigError, PenstockError, Terminal
from penstock.core.threads import THREADS

IP = IPv4Address | IPv6Address
Lookup = Callable[[str], list[str]]
AllowPrivate = StrictBool | list[str]
"""A key of a configuration: true, false, or a list of networks and host names."""

_UNICAST: Final = IPv6Network("2000::/3")
"""The only part of IPv6 that is global unicast. Everything else (::/96, fec0::/10, 64:ff9b:1::/48, fc00::/7 ...) is
not public, whatever a version of Python knows of it."""
_NAT64: Final = IPv6Network("64:ff9b::/96")
_DOCUMENTATION: Final = IPv6Network("3fff::/20")
"""Later than Python 3.11's own list."""
_LOOKUP_SECONDS: Final = 5.0
_LOOKUPS: Final = threading.BoundedSemaphore(16)
"""Look-ups at a time. One that the name server leaves unanswered cannot be ended, so their number has a limit."""
_NUMBER: Final = re.compile(r"0x[0-9a-f]*|\d+")


class AddressRefused(PenstockError, Terminal, ValueError):
    """A host is, or resolves to, an address that must not be contacted."""

    code = "address-refused"

    def __init__(self, host: str, address: str | None = None, *, why: str = "is not a public address") -> None:
        where = host if address in (None, host) else f"{host} ({address})"
        super().__init__(
            f"{where} {why}",
            received=host,
            hint="add its network or name to api.networks (PENSTOCK_API_NETWORKS); "
            "in a file, `allow_private: true` allows it",
        )


class HostUnknown(ConfigError):
    """A name has no address, or the name server does not answer."""

    code = "host-unknown"


def system_lookup(host: str) -> list[str]:
    """The addresses of a host by the machine's resolver, each once; `OSError` where it has none."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(info[4][0]) for info in found))


@dataclass(frozen=True)
class AddressGuard:
    """Allows public addresses, and those that the instance's settings open.

    A name is resolved once. Connect to the returned addresses, never to the name: the next answer may differ. Safe to
    share between threads.
    """

    networks: tuple[str, ...] = ()
    """Networks and host names that are open as well: `10.1.0.0/16`, `kafka.internal`. Of `api.networks`."""
    allow_private: bool = False
    """True: every address is allowed."""
    brokers: frozenset[tuple[str, int]] = frozenset()
    """Hosts with their ports that are open as well: clusters of pipeline files."""
    lookup: Lookup = field(default_factory=lambda: system_lookup, repr=False, compare=False)
    deadline: Deadline | None = field(default=None, repr=False, compare=False)

    def within(self, seconds: float) -> AddressGuard:
        """The same guard, whose look-ups take `seconds` together at most."""
        return replace(self, deadline=Deadline.after(seconds))

    def is_allowed(self, address: str | IP) -> bool:
        """Whether an IP address may be contacted."""
        ip = ip_address(address.partition("%")[0]) if isinstance(address, str) else address
        return self.allow_private or is_public(ip) or any(ip in network for network in self._open[0])

    def check_url(self, url: str) -> None:
        """Check the host of one http(s) URL, which may have no user information; `AddressRefused`, `ValueError`."""
        from penstock.core.net.url import parse_url  # noqa: PLC0415 - it needs this module

        parsed = parse_url(url)
        self.addresses(parsed.raw_host or "", parsed.port)

    def check_host(self, host: str, port: int | None = None) -> None:
        """Resolve and check a host; `AddressRefused` or `HostUnknown`."""
        self.addresses(host, port)

    def check_literal(self, host: str) -> None:
        """Refuse a host that is written as an address, or that names this machine, without a look-up."""
        name = plain_name(host)
        if self.allow_private or name in self._open[1]:
            return
        if not name or is_disguised(name) or name.rpartition(".")[2] == "localhost":
            raise AddressRefused(host)
        if (ip := literal_address(name)) is not None and not self.is_allowed(ip):
            raise AddressRefused(host, str(ip))

    def addresses(self, host: str, port: int | None = None) -> list[str]:
        """The IP addresses at which the host may be contacted. One that is refused refuses the host."""
        name = plain_name(host)
        if not self._is_open(name, port):
            self.check_literal(host)
        found = [name] if literal_address(name) is not None else self._resolved(name)
        self.check_answer(host, port, found)
        return found

    def check_answer(self, host: str, port: int | None, addresses: Sequence[str]) -> None:
        """Check the addresses that somebody else has resolved a host to and will connect to."""
        if not self._is_open(plain_name(host), port):
            for address in addresses:
                if not self.is_allowed(address):
                    raise AddressRefused(host, address)

    def _is_open(self, name: str, port: int | None) -> bool:
        return self.allow_private or name in self._open[1] or (name, port) in self.brokers

    def _resolved(self, name: str) -> list[str]:
        seconds = _LOOKUP_SECONDS if self.deadline is None else min(_LOOKUP_SECONDS, self.deadline.remaining)
        return _bounded(name, self.lookup, seconds)

    @cached_property
    def _open(self) -> tuple[list[IPv4Network | IPv6Network], frozenset[str]]:
        networks, names = list[IPv4Network | IPv6Network](), set[str]()
        for entry in self.networks:
            try:
                networks.append(ip_network(entry.strip(), strict=False))
            except ValueError:
                names.add(plain_name(entry))
        return networks, frozenset(names)


UNGUARDED: Final = AddressGuard(allow_private=True)
"""For addresses that pipeline files and settings of the machine name."""


def guard_of(allow_private: bool | Sequence[str]) -> AddressGuard:  # noqa: FBT001 - the value of a key
    """The guard that `allow_private` of a configuration means: true, false, or a list of networks and names."""
    if isinstance(allow_private, bool):
        return UNGUARDED if allow_private else AddressGuard()
    return AddressGuard(tuple(allow_private))


def is_public(ip: IP) -> bool:
    """Whether the whole internet reaches an address, also where it wraps an IPv4 address."""
    if isinstance(ip, IPv4Address):
        return ip.is_global and not ip.is_multicast
    inner = ip.ipv4_mapped or ip.sixtofour or (IPv4Address(int(ip) & 0xFFFFFFFF) if ip in _NAT64 else None)
    if inner is not None:
        return is_public(inner)
    return ip in _UNICAST and ip.is_global and ip.teredo is None and ip not in _DOCUMENTATION


def plain_name(host: str) -> str:
    """A host as it is compared: lower case, no brackets, no trailing dot."""
    return host.strip().strip("[]").lower().rstrip(".")


def literal_address(host: str) -> IP | None:
    """The IP address that a host is written as; None for names."""
    try:
        return ip_address(host.partition("%")[0])
    except ValueError:
        return None


def is_disguised(name: str) -> bool:
    """Whether a name is an IPv4 address in a form that only old libraries read: `127.1`, `0x7f000001`, `0177.0.0.1`."""
    return literal_address(name) is None and _NUMBER.fullmatch(name.rpartition(".")[2]) is not None


def _bounded(name: str, lookup: Lookup, seconds: float) -> list[str]:
    """Look a name up in a thread that may be given up; `HostUnknown` where there is no answer in time."""
    deadline = Deadline.after(seconds)
    if not _LOOKUPS.acquire(timeout=deadline.remaining):
        raise HostUnknown(f"{name} was not looked up: the name server is slow", received=name, hint="try again later")
    found: list[str] = []
    failures: list[Exception] = []
    done = threading.Event()

    def look() -> None:
        try:
            found.extend(lookup(name))
        except Exception as error:  # noqa: BLE001 - raised again below, in the thread that waits
            failures.append(error)
        finally:
            _LOOKUPS.release()
            done.set()

    THREADS.start("name-lookup", look, owner="AddressGuard", ends="when the name server answers")
    if not done.wait(deadline.remaining):
        raise HostUnknown(f"{name} has no address: no answer within {seconds:g} s", received=name)
    for error in failures:
        if not isinstance(error, (OSError, UnicodeError)):
            raise error
        reason = getattr(error, "strerror", None) or str(error)
        raise HostUnknown(f"the host {name} has no address: {reason}", received=name) from None
    return found
