"""Homes of instances under test: each its own, but for the class-data archive that halves the start of Spark."""

from __future__ import annotations

import contextlib
from pathlib import Path

from tests.support.fetch import CACHE


def prepared_home(home: Path) -> Path:
    """The folder, with the cache that all test runs share; the first instance that ends in good order fills it."""
    shared = CACHE / "penstock"
    shared.mkdir(parents=True, exist_ok=True)
    home.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        (home / "cache").symlink_to(shared)
    return home
