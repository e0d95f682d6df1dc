"""Passwords and random keys: how they are made, kept and compared."""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Final

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerifyMismatchError

from penstock.core.errors import ConfigError, Unavailable

TOKEN_PREFIX: Final = "pst_"  # noqa: S105 - what tokens begin with, so that scanners of repositories find them
SHOWN: Final = 10
"""Characters of a token that lists show."""
_HASHER: Final = PasswordHasher()
_SHORTEST: Final = 10
_LONGEST: Final = 1_000
"""Hashing takes time that grows with the password: nobody may ask for much of it."""
_AT_ONCE: Final = threading.BoundedSemaphore(2)
"""Each hash takes 64 MiB: those of all threads that requests share would take as much as the whole instance has."""
_PATIENCE: Final = 5.0
"""Seconds that a log-in waits for its turn."""


class HashingBusy(Unavailable):
    """Too many passwords are being compared."""

    code = "busy"


def hash_password(password: str) -> str:
    """Argon2id; `ConfigError` where the password is too short or too long."""
    if not _SHORTEST <= len(password) <= _LONGEST:
        raise ConfigError(
            "the password is too short or too long", allowed=f"{_SHORTEST} to {_LONGEST} characters", hint="a sentence?"
        )
    with _turn():
        return _HASHER.hash(password)


def verify_password(known: str | None, password: str) -> bool:
    """Takes as long where there is no password to compare with, so that nobody learns who exists."""
    if len(password) > _LONGEST:
        return False
    try:
        with _turn():
            return _HASHER.verify(known or _nobodys(), password) and known is not None
    except (VerifyMismatchError, InvalidHashError):
        return False


def new_key(prefix: str = "") -> str:
    """A random text that nobody guesses."""
    return prefix + secrets.token_urlsafe(32)


def digest(key: str) -> str:
    """What the store keeps of a random key: it has too many bits for anyone to try."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def csrf_of(session: str) -> str:
    """What a page must send along to change something: only who holds the session can know it."""
    return hashlib.sha256(f"csrf:{session}".encode("utf-8", "surrogatepass")).hexdigest()


def same(one: str, other: str) -> bool:
    return secrets.compare_digest(one.encode("utf-8", "surrogatepass"), other.encode("utf-8", "surrogatepass"))


@contextmanager
def _turn() -> Iterator[None]:
    if not _AT_ONCE.acquire(timeout=_PATIENCE):
        raise HashingBusy("too many people log in at this moment", hint="try again in a few seconds")
    try:
        yield
    finally:
        _AT_ONCE.release()


@cache
def _nobodys() -> str:
    return _HASHER.hash(secrets.token_urlsafe(16))
