"""A missing piece is a failure unless PENSTOCK_TEST_SKIP names it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def _run(skip: str) -> str:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "tests/behaviour/registry",
        "-k",
        "Apicurio and check",
    ]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"PENSTOCK_TEST_SKIP": skip}, capture_output=True, text=True, check=False
    )
    return done.stdout


def test_a_named_piece_is_skipped_and_said_so() -> None:
    shown = _run("postgres, registry")
    assert "1 skipped" in shown
    assert "PENSTOCK_TEST_SKIP names registry" in shown


def test_other_pieces_are_not_skipped() -> None:
    assert "1 passed" in _run("postgres")
