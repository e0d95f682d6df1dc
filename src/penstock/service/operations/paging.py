"""Pages of lists: a cursor says where the next one begins."""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final, Generic, TypeVar

import orjson
from pydantic import BaseModel, Field

from penstock.core.errors import ConfigError

T = TypeVar("T")

MOST: Final = 1_000


class BadCursor(ConfigError):
    """`after` is not what a list gave as `next`."""

    code = "cursor"


class Page(BaseModel, Generic[T]):
    """A part of a list."""

    items: list[T]
    next: str | None = Field(default=None, description="Given as `after`, goes on behind the last item; null: the end.")


def cursor(*place: Any) -> str:
    """A place in a list, as an opaque text."""
    return base64.urlsafe_b64encode(orjson.dumps(place)).decode().rstrip("=")


def place_of(after: str | None, *kinds: type) -> tuple[Any, ...] | None:
    """The place again; `BadCursor` where it is something else."""
    if after is None:
        return None
    try:
        place = orjson.loads(base64.urlsafe_b64decode(after + "=" * (-len(after) % 4)))
    except (binascii.Error, ValueError):
        place = None
    fits = isinstance(place, list) and [type(each) for each in place] == list(kinds)
    if not fits or any(isinstance(each, int) and not 0 <= each < 2**62 for each in place):
        raise BadCursor("`after` is not what a list gave as `next`", received=after[:100])
    return tuple(place)


def checked_limit(limit: int) -> int:
    if not 1 <= limit <= MOST:
        raise ConfigError("the size of a page is out of range", received=limit, allowed=f"1 to {MOST}")
    return limit
