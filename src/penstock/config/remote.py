"""Pipeline files behind an http or https address, as an operator may name them on the command line."""

from __future__ import annotations

import base64
import re
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit, urlunsplit

_URL = re.compile(r"https?://", re.IGNORECASE)
_TIMEOUT = 10.0
_LARGEST = 5_000_000
"""Bytes; no honest configuration comes near this."""


def is_url(name: str) -> bool:
    return _URL.match(name) is not None


def suffix_of(name: str) -> str:
    """The suffix of a file or of an address's path, in lower case."""
    return PurePosixPath(urlsplit(name).path if is_url(name) else name).suffix.lower()


def fetch(url: str) -> str:
    """The text at an address; raises `OSError` with a reason that shows no password, or `UnicodeDecodeError`."""
    # Workers import this module with the specs, and fetch nothing.
    import urllib.error  # noqa: PLC0415
    import urllib.request  # noqa: PLC0415

    parts = urlsplit(url)
    bare = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    request = urllib.request.Request(bare, headers={"accept": "*/*"})  # noqa: S310 - is_url admits http and https only
    if parts.username is not None:
        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        request.add_header("authorization", f"Basic {base64.b64encode(login.encode()).decode()}")
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT) as answer:  # noqa: S310 - as above
            body: bytes = answer.read(_LARGEST + 1)
    except urllib.error.HTTPError as error:
        raise OSError(0, f"the server answered {error.code} {error.reason}".rstrip()) from None
    except urllib.error.URLError as error:
        raise OSError(0, str(getattr(error.reason, "strerror", None) or error.reason)) from None
    except (TimeoutError, ValueError) as error:
        raise OSError(0, str(error) or "no answer in time") from None
    if len(body) > _LARGEST:
        raise OSError(0, f"it is longer than {_LARGEST:,} bytes")
    return body.decode("utf-8-sig")
