"""What came of each fault: a line of the table that is kept under `bench/results`."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.machine import facts

from tests.faults.checker import Allowance, Report

RESULTS = Path(__file__).resolve().parents[2] / "bench" / "results"


@dataclass
class Row:
    """One fault and what it did."""

    fault: str
    verdict: str = "failed"
    produced: int = 0
    repeated: int = 0
    allowed: str = "nothing"
    dead_letters: int = 0
    recovered: float | None = None
    """Seconds from the fault (or from its end, for outages) to the next effect."""
    seconds: float = 0.0

    def kept(self, report: Report, allowed: Allowance, recovered: float | None = None) -> None:
        self.verdict = "kept"
        self.produced, self.repeated, self.dead_letters = report.produced, report.repeats, report.dead_letters
        self.allowed = f"{allowed.repeats} per partition" if allowed.repeats else "nothing"
        self.recovered = None if recovered is None else round(recovered, 1)

    def __str__(self) -> str:
        repeated = f"{self.repeated} repeated (allowed: {self.allowed})"
        told = f"{self.verdict:7} {self.fault}: {self.produced} events, {repeated}, {self.dead_letters} dead letters"
        return told if self.recovered is None else f"{told}, on again after {self.recovered:g} s"


ROWS: list[Row] = []


def write(rows: list[Row], folder: Path = RESULTS) -> Path:
    """Write `faults-<date>.json` and `.md`; returns the latter."""
    now, machine = dt.datetime.now(dt.UTC), facts()
    stem = folder / f"faults-{now:%Y-%m-%d-%H%M}"
    content = {"date": f"{now:%Y-%m-%d %H:%M} UTC", "machine": machine, "faults": [asdict(row) for row in rows]}
    stem.with_suffix(".json").write_text(json.dumps(content, indent=1) + "\n")
    page = stem.with_suffix(".md")
    page.write_text(_page(content, rows))
    return page


def _page(content: dict[str, Any], rows: list[Row]) -> str:
    machine = ", ".join(f"{name} {value}" for name, value in content["machine"].items())
    head = "| fault | verdict | events | repeated | allowed | dead letters | on again after | test took |"
    lines = [f"# Fault matrix, {content['date']}", "", machine, "", head, "| --- " * 8 + "|"]
    for row in rows:
        recovered = "" if row.recovered is None else f"{row.recovered:g} s"
        cells = [row.fault, row.verdict, row.produced, row.repeated, row.allowed, row.dead_letters, recovered]
        lines.append("| " + " | ".join(map(str, cells)) + f" | {row.seconds:g} s |")
    return "\n".join(lines) + "\n"
