"""Whoever does not want the console does not load it."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["penstock", "penstock.cli.main", "penstock.cli.running", "penstock.service.run"])
def test_the_console_is_loaded_by_nobody_else(module: str) -> None:
    code = f"import sys, {module}; print(sorted(n for n in sys.modules if n in ('nicegui', 'penstock.console.app')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
