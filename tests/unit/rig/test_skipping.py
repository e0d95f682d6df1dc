"""A missing piece is a failure unless PENSTOCK_TEST_SKIP names it, and so is a process that outlives its test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def _pytest(*args: str, skip: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *args]
    env = os.environ | {"PENSTOCK_TEST_SKIP": skip}
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)


def _planned(skip: str) -> str:
    """What pytest would set up for a test that needs Apicurio."""
    return _pytest("--setup-plan", "tests/behaviour/registry", "-k", "Apicurio and check", skip=skip).stdout


def test_a_named_piece_is_skipped_and_said_so() -> None:
    shown = _planned("postgres, registry")
    assert "1 skipped" in shown
    assert "PENSTOCK_TEST_SKIP names registry" in shown


def test_other_pieces_are_not_skipped() -> None:
    shown = _planned("postgres")
    assert "SETUP    S apicurio_url" in shown
    assert "skipped" not in shown


def test_a_process_left_behind_fails_the_run(tmp_path: Path) -> None:
    leak = tmp_path / "test_leak.py"
    leak.write_text(
        "import subprocess, sys\n"
        "from tests.support.children import CHILDREN\n"
        "def test_leak():\n"
        "    code = 'import time; time.sleep(600)'\n"
        "    CHILDREN.spawn([sys.executable, '-c', code], name='forgotten', output=subprocess.DEVNULL)\n"
    )
    done = _pytest("-p", "tests.conftest", str(leak))
    assert "1 passed" in done.stdout
    assert done.returncode == 1
    assert "left running by the tests: forgotten" in done.stderr
