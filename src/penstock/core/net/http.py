"""Blocking HTTP clients that connect to checked addresses only and follow no redirects."""

from __future__ import annotations

import ssl
from typing import Any
from urllib.request import getproxies

import httpx2

from penstock.core.net.guard import AddressGuard, HostUnknown


def guarded_client(
    guard: AddressGuard, *, verify: ssl.SSLContext | None = None, use_proxies: bool = False, **options: Any
) -> httpx2.Client:
    """A client for addresses that the guard checks; see `guarded_options`."""
    return httpx2.Client(**guarded_options(guard, verify=verify, use_proxies=use_proxies), **options)


def guarded_options(
    guard: AddressGuard, *, verify: ssl.SSLContext | None = None, use_proxies: bool = False
) -> dict[str, Any]:
    """What makes an httpx client obey the guard. It follows no redirects.

    A proxy resolves names by itself, so the proxies of the environment (`HTTPS_PROXY`) are used only without a guard,
    or with `use_proxies`, which is for addresses that the machine's administrator has set.
    """
    if guard.allow_private or (use_proxies and getproxies().keys() & {"http", "https", "all"}):
        return {"verify": True if verify is None else verify, "follow_redirects": False}
    return {"transport": GuardedTransport(guard, verify), "follow_redirects": False, "trust_env": False}


class GuardedTransport(httpx2.BaseTransport):
    """Resolves and checks the host of each request, then connects to the checked address; TLS verifies the name."""

    def __init__(self, guard: AddressGuard, verify: ssl.SSLContext | None = None) -> None:
        self._guard = guard
        self._verify = verify
        self._transports: dict[tuple[str, str], httpx2.HTTPTransport] = {}
        """By scheme and host: two names at one address must not share a connection, whose certificate is of one."""

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        host = request.url.raw_host.decode("ascii")
        try:
            *others, last = self._guard.addresses(host, request.url.port)
        except HostUnknown as error:
            raise httpx2.ConnectError(error.message) from None
        transport = self._transport(request.url.scheme, host)
        for address in others:
            try:
                return transport.handle_request(_pinned(request, host, address))
            except (httpx2.ConnectError, httpx2.ConnectTimeout):
                continue
        return transport.handle_request(_pinned(request, host, last))

    def close(self) -> None:
        for transport in self._transports.values():
            transport.close()

    def _transport(self, scheme: str, host: str) -> httpx2.HTTPTransport:
        found = self._transports.get((scheme, host))
        if found is None:
            # A context with the machine's authorities takes a tenth of a second; plain HTTP needs none.
            plain = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if scheme != "https" else None
            found = httpx2.HTTPTransport(verify=self._verify or plain or True, trust_env=False)
            self._transports[scheme, host] = found
        return found


def _pinned(request: httpx2.Request, host: str, address: str) -> httpx2.Request:
    """The same request to an address; its `Host` header and the name in TLS stay."""
    return httpx2.Request(
        request.method,
        request.url.copy_with(host=address),
        headers=request.headers,
        stream=request.stream,
        extensions={**request.extensions, "sni_hostname": host},
    )
