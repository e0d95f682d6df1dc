"""Network checks of an address: name resolution, TCP connection, TLS handshake."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import socket
import ssl
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def addresses(bootstrap: str) -> list[Address]:
    """The addresses of a comma list of `host[:port]`; Kafka's port is 9092 where none is given."""
    found = []
    for part in bootstrap.split(","):
        host, colon, port = part.strip().rpartition(":")
        if not colon or part.strip().endswith("]"):
            host, port = part.strip(), "9092"
        found.append(Address(host.strip("[]"), int(port)))
    return found


def connect(address: Address, timeout: float, pinned: Sequence[str] = ()) -> None:
    """Open and close a connection, to the pinned IP addresses only where there are any; raises `OSError`."""
    _opened(address, timeout, pinned).close()


def handshake(address: Address, properties: Mapping[str, str], timeout: float, pinned: Sequence[str] = ()) -> str:
    """Do the TLS handshake as the Kafka client would; returns what was agreed. Raises `OSError`."""
    with (
        _opened(address, timeout, pinned) as plain,
        tls_context(properties).wrap_socket(plain, server_hostname=address.host) as secured,
    ):
        days = _days_left(secured.getpeercert())
        until = "" if days is None else f", certificate valid for {days} more days"
        return f"{secured.version()}{until}"


def _opened(address: Address, timeout: float, pinned: Sequence[str]) -> socket.socket:
    *others, last = pinned or [address.host]
    for each in others:
        with contextlib.suppress(OSError):
            return socket.create_connection((each, address.port), timeout)
    return socket.create_connection((last, address.port), timeout)


def tls_context(properties: Mapping[str, str]) -> ssl.SSLContext:
    """Python's TLS settings for the client's `ssl.*` properties."""
    context = ssl.create_default_context(cafile=properties.get("ssl.ca.location"), cadata=properties.get("ssl.ca.pem"))
    verified = properties.get("enable.ssl.certificate.verification", "true").lower() != "false"
    named = properties.get("ssl.endpoint.identification.algorithm", "https").lower() == "https"
    context.check_hostname = verified and named
    context.verify_mode = ssl.CERT_REQUIRED if verified else ssl.CERT_NONE
    password = properties.get("ssl.key.password")
    if "ssl.certificate.location" in properties:
        context.load_cert_chain(properties["ssl.certificate.location"], properties.get("ssl.key.location"), password)
    elif "ssl.certificate.pem" in properties:
        with _private_file(properties["ssl.key.pem"] + properties["ssl.certificate.pem"]) as path:
            context.load_cert_chain(path, password=password)
    return context


@contextlib.contextmanager
def _private_file(text: str) -> Iterator[str]:
    # Python's TLS reads client certificates from files only; this one is 0600 and gone at once.
    with tempfile.NamedTemporaryFile("w", prefix="penstock-", suffix=".pem", delete=False) as file:
        file.write(text)
    try:
        yield file.name
    finally:
        os.unlink(file.name)  # noqa: PTH108 - a name, not a path object


def _days_left(certificate: Mapping[str, object] | None) -> int | None:
    if not certificate or "notAfter" not in certificate:
        return None
    end = dt.datetime.fromtimestamp(ssl.cert_time_to_seconds(str(certificate["notAfter"])), dt.UTC)
    return (end - dt.datetime.now(dt.UTC)).days
