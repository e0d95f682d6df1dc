"""One parser for URLs that users supply: the one of the library that sends the request."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from yarl import URL

from penstock.core.net.guard import is_disguised, literal_address, plain_name

_NAME: Final = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*\.?")
_SPACE: Final = re.compile(r"[\x00-\x20\x7f-\xa0\u2028\u2029]")
_LONGEST: Final = 4_096
_LONGEST_NAME: Final = 253


def parse_url(
    text: str, schemes: Collection[str] = ("http", "https"), *, allow_userinfo: bool = False, example: str | None = None
) -> URL:
    """The URL as the HTTP client reads it; `ValueError` says what is wrong, without repeating the text, which may hold
    a secret.

    Blanks, control characters, user information and hosts that other libraries may read differently are refused, so
    that the host which is checked is the host that is contacted. An international host name is converted to its ASCII
    form: send to the returned URL, not to the text.
    """
    wanted = f"a URL like {example or 'https://example.org/path'} is wanted"
    if len(text) > _LONGEST or _SPACE.search(text):
        raise ValueError(f"{wanted}, of at most {_LONGEST} characters without blanks and control characters")
    try:
        url = URL(text)
    except (ValueError, UnicodeError):
        raise ValueError(wanted) from None
    if url.scheme not in schemes or not url.raw_host:
        raise ValueError(wanted)
    authority = re.split(r"[/?#]", text.partition("//")[2], maxsplit=1)[0]
    if not allow_userinfo and "@" in authority:
        raise ValueError("a URL without user and password is wanted; send credentials in a header or a setting")
    _check_host(url.raw_host, is_bracketed="[" in authority)
    return url


def _check_host(host: str, *, is_bracketed: bool) -> None:
    if is_bracketed or ":" in host:
        if ":" not in host or literal_address(host) is None:
            raise ValueError(f"{host!r} is no IPv6 address")
    elif len(host) > _LONGEST_NAME or not _NAME.fullmatch(host):
        raise ValueError("a host is a name of letters, digits, `-` and `.`, or an IP address")
    elif is_disguised(plain_name(host)):
        raise ValueError("an IPv4 address is written as four decimal numbers: 192.0.2.1")
