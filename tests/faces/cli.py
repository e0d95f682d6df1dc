"""The command as tests call it: as a process, the way users do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PENSTOCK = Path(sys.executable).with_name("penstock")


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)


def penstock(*args: object, cwd: Path | None = None, stdin: str | None = None, **env: str) -> Result:
    """Run `penstock ARGS` to its end, without a terminal."""
    done = subprocess.run(
        [PENSTOCK, *map(str, args)],
        cwd=cwd,
        env=os.environ | env,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return Result(done.returncode, done.stdout, done.stderr)
