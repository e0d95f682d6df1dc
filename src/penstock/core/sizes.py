"""Sizes (`100MB`, `64KiB`) as people write them."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}


def parse_size(text: Any) -> int:
    """Bytes from `100MB`, `64KiB`, `1.5 GB`, or a plain number."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", str(text).lower())
    if isinstance(text, bool) or match is None or match[2] not in _UNITS:
        raise ValueError(f"a size like 100MB, 64KiB or 1GB is wanted, not {text!r}")
    size = int(float(match[1]) * _UNITS[match[2]])
    if size < 1:
        raise ValueError(f"a size must be above zero: {text!r}")
    return size


Size = Annotated[
    int,
    BeforeValidator(parse_size),
    WithJsonSchema({"type": ["string", "integer"], "description": "a size: 100MB, 64KiB, 1GB, or bytes"}),
]
