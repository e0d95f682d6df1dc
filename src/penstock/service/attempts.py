"""Counts failed log-ins, so that nobody tries passwords by the thousand."""

from __future__ import annotations

import ipaddress
import math
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from penstock.core.clock import SYSTEM, Clock
from penstock.core.errors import PenstockError, Transient, Unavailable
from penstock.service.passwords import digest
from penstock.store.failed_logins import FailedLogins

_MOST_KEYS: Final = 10_000
"""Closed keys that are remembered; beyond, those not heard of for longest are forgotten. The store knows them all."""
_HOME: Final = 64
"""Bits of an IPv6 address that a provider chooses; the rest is up to whoever is there."""


class TooManyAttempts(PenstockError, Transient):
    """Log-ins have failed too often; later ones are answered again."""

    code = "too_many_attempts"

    def __init__(self, seconds: int) -> None:
        super().__init__("too many log-ins have failed", hint=f"try again in {seconds} s")
        self.seconds = seconds


def address_key(address: str | None) -> str:
    """What an address is counted by. Of IPv6 that is its network: whoever has one address has 2⁶⁴ of them."""
    return f"address:{_network(address)}"


def token_key(address: str | None) -> str:
    """The same for tokens that are not known."""
    return f"token-address:{_network(address)}"


def user_key(email: str) -> str:
    """What a user is counted by."""
    return f"user:{email.lower()}"


@dataclass(slots=True)
class Attempt:
    """One log-in."""

    succeeded: bool = False
    forgiven: Sequence[str] = ()
    """Keys whose earlier failures are forgotten too."""


class Attempts:
    """Failed log-ins by address and by user, counted in the store for all instances."""

    def __init__(self, failures: FailedLogins, limit: int, clock: Clock = SYSTEM) -> None:
        self._failures, self._limit, self._clock = failures, limit, clock
        self._closed: OrderedDict[str, float] = OrderedDict()
        """Keys that have failed too often, as the store said, and until when; not to ask it for every request."""
        self._lock, self._counting = threading.Lock(), threading.Lock()

    def check(self, *keys: str) -> None:
        """Raise `TooManyAttempts` where one of them has failed too often, at whichever instance."""
        self._remember(keys, self._failures.waits(_hashes(keys), limit=self._limit))
        self.recall(*keys)

    def recall(self, *keys: str) -> None:
        """The same from what this process has learned already, for requests that are no log-ins."""
        now = self._clock.monotonic()
        with self._lock:
            longest = max((self._closed.get(key, now) - now for key in keys), default=0.0)
        if longest > 0:
            raise TooManyAttempts(math.ceil(longest))

    def failed(self, *keys: str) -> None:
        self._remember(keys, self._failures.add(_hashes(keys), limit=self._limit))

    @contextmanager
    def counted(self, *keys: str) -> Iterator[Attempt]:
        """Around a log-in: it is counted as failed before anything is compared, so that many at once are as many as
        one after the other. `TooManyAttempts` where one of the keys has failed too often."""
        with self._counting:
            waits, numbers = self._failures.attempt(_hashes(keys), limit=self._limit)
        self._remember(keys, waits)
        self.recall(*keys)
        attempt = Attempt()
        try:
            yield attempt
        except Unavailable:
            self._failures.take_back(numbers)  # nothing was compared
            raise
        if attempt.succeeded:
            self._failures.take_back(numbers)
            if attempt.forgiven:
                self._failures.forgive(_hashes(attempt.forgiven))

    def is_closed(self, *keys: str) -> bool:
        """Whether the next attempt will be refused."""
        return any(self._failures.waits(_hashes(keys), limit=self._limit))

    def _remember(self, keys: Sequence[str], waits: Sequence[float]) -> None:
        now = self._clock.monotonic()
        with self._lock:
            for key, wait in zip(keys, waits, strict=True):
                self._closed.pop(key, None)
                if wait > 0:
                    self._closed[key] = now + wait
            while len(self._closed) > _MOST_KEYS:
                self._closed.popitem(last=False)


def _network(address: str | None) -> str:
    try:
        found = ipaddress.ip_address((address or "").partition("%")[0])
    except ValueError:
        return str(address)
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    return str(found.ipv4_mapped or ipaddress.ip_network((found, _HOME), strict=False))


def _hashes(keys: Sequence[str]) -> list[str]:
    return [digest(key) for key in keys]
