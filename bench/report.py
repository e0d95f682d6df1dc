"""Results as data and as a table, each figure beside its bar."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True, kw_only=True)
class Bar:
    """What a figure has to reach."""

    figure: str
    at_most: float | None = None
    at_least: float | None = None

    def met(self, value: float) -> bool:
        low = self.at_least is None or value >= self.at_least
        return low and (self.at_most is None or value <= self.at_most)

    def __str__(self) -> str:
        sign, limit = ("≤", self.at_most) if self.at_most is not None else ("≥", self.at_least)
        return f"{sign} {limit:,g}"


@dataclass(kw_only=True)
class Result:
    """One measurement."""

    name: str
    what: str
    figures: dict[str, Any]
    bars: list[Bar] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """Why this is not a valid figure: lost events, an instance that ended."""

    def rows(self) -> list[tuple[str, str, str]]:
        bars = {bar.figure: bar for bar in self.bars}
        rows = []
        for name, value in self.figures.items():
            if isinstance(value, (list, dict)):
                continue
            bar = bars.get(name)
            judged = "" if bar is None else f"{bar} {'met' if bar.met(float(value)) else '**missed**'}"
            rows.append((name, f"{value:,}" if isinstance(value, (int, float)) else str(value), judged))
        return rows


def write(results: list[Result], machine: dict[str, Any], folder: Path = RESULTS) -> Path:
    """Write `<time>-<commit>.json` and `.md`; returns the latter."""
    folder.mkdir(parents=True, exist_ok=True)
    now = dt.datetime.now(dt.UTC)
    stem = folder / f"{now:%Y-%m-%d-%H%M}-{machine['commit']}"
    date = f"{now:%Y-%m-%d %H:%M} UTC"
    content = {"date": date, "machine": machine, "results": [asdict(r) for r in results]}
    stem.with_suffix(".json").write_text(json.dumps(content, indent=1) + "\n")
    stem.with_suffix(".md").write_text(markdown(results, machine, date))
    return stem.with_suffix(".md")


def markdown(results: list[Result], machine: dict[str, Any], date: str) -> str:
    facts = ", ".join(f"{name} {value}" for name, value in machine.items())
    lines = [f"# Measured {date}", "", f"Method: [METHOD.md](../METHOD.md). Machine and versions: {facts}.", ""]
    for result in results:
        lines += [f"## {result.name}", "", result.what, ""]
        lines += [f"**Not valid:** {problem}" for problem in result.problems]
        lines += ["", "| figure | value | bar |", "| --- | ---: | --- |"]
        lines += [f"| {name} | {value} | {bar} |" for name, value, bar in result.rows()]
        lines.append("")
    return "\n".join(lines)


def show(result: Result) -> None:
    print(f"\n{result.name}: {result.what}")
    for problem in result.problems:
        print(f"  NOT VALID: {problem}")
    for name, value, bar in result.rows():
        print(f"  {name:<28}{value:>16}   {bar}", flush=True)
