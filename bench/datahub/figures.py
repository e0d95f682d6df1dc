"""What the rounds gave, and the tables made of it: medians, ratios to the peer, the bars."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from bench.datahub.cases import Side
from bench.datahub.records import MARK_EVERY
from bench.report import Bar, Result


@dataclass(frozen=True, kw_only=True)
class _Table:
    """Cases that belong together; each of ours is set against each of the peer's."""

    name: str
    what: str
    peers: tuple[str, ...]
    ours: dict[str, dict[str, float]]
    """By case, the ratio to reach by peer."""


_TABLES = [
    _Table(
        name="EntityChangeEvent",
        what="EntityChangeEvents of 380 B, four partitions, through an action that reads three fields and counts.",
        peers=("changes, peer",),
        ours={"changes": {"changes, peer": 15}, "changes, one lane": {}, "changes, plug-in": {}},
    ),
    _Table(
        name="MetadataChangeLog",
        what="MetadataChangeLogs of 1.6 kB, four partitions, through an action that reads the URN, the aspect's name "
        "and its bytes, and counts.",
        peers=("logs, peer",),
        ours={
            "logs": {"logs, peer": 8},
            "logs, one lane": {},
            "logs, plug-in": {},
            "logs, plug-in, real classes": {"logs, peer": 2},
        },
    ),
    _Table(
        name="MetadataChangeLog, rejected",
        what=f"The same records, all but one in {MARK_EVERY} rejected by `filters` on entity type, aspect and change.",
        peers=("rejected, peer", "rejected early, peer"),
        ours={"rejected": {"rejected, peer": 50, "rejected early, peer": 20}},
    ),
]


@dataclass
class Figures:
    """By case, one figure per round."""

    rates: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    cpu_us: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    waits: dict[Side, list[dict[str, float]]] = field(default_factory=lambda: defaultdict(list))
    problems: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def results(self) -> list[Result]:
        made = [self._table(table) for table in _TABLES]
        made += [self._waits(), self._control()]
        return [result for result in made if result.figures or result.problems]

    def _table(self, table: _Table) -> Result:
        figures: dict[str, Any] = {}
        bars: list[Bar] = []
        cases = [case for case in (*table.peers, *table.ours) if self.rates.get(case)]
        for case in cases:
            figures[f"{case}: events/s"] = round(median(self.rates[case]))
        for case, wanted in table.ours.items():
            for peer in table.peers:
                if not (self.rates.get(case) and self.rates.get(peer)):
                    continue
                figure = f"{case}: times {peer}"
                figures[figure] = round(median(self.rates[case]) / median(self.rates[peer]), 1)
                if peer in wanted:
                    bars.append(Bar(figure=figure, at_least=wanted[peer]))
        for case in cases:
            figures[f"{case}: CPU µs per event"] = median(self.cpu_us[case])
        figures |= {f"{case}: each round": self.rates[case] for case in cases}
        problems = [problem for case in (*table.peers, *table.ours) for problem in self.problems.get(case, ())]
        return Result(name=table.name, what=table.what, figures=figures, bars=bars, problems=problems)

    def _waits(self) -> Result:
        figures: dict[str, Any] = {}
        for name in ("p50_ms", "p99_ms", "start_s", "rss_mb", "cpu_percent_of_a_core"):
            for side, rounds in self.waits.items():
                figures[f"{side}: {name}"] = median(each[name] for each in rounds)
                figures[f"{side}: {name} each round"] = [each[name] for each in rounds]
        bars = []
        if {"peer", "penstock"} <= set(self.waits):
            figures["p50 above the peer's, ms"] = round(figures["penstock: p50_ms"] - figures["peer: p50_ms"], 2)
            bars = [Bar(figure="p50 above the peer's, ms", at_most=20)]
        what = (
            "100 EntityChangeEvents/s through the same plug-in class on both sides, produced by another process; "
            "start: from the command to the action of an event that waited; memory and CPU of all processes."
        )
        sides = ("peer", "penstock")
        problems = [problem for side in sides for problem in self.problems.get(f"latency, {side}", ())]
        return Result(name="Latency, start and memory", what=what, figures=figures, bars=bars, problems=problems)

    def _control(self) -> Result:
        figures: dict[str, Any] = {}
        if self.rates.get("changes, peer again"):
            first, again = (median(self.rates[name]) for name in ("changes, peer", "changes, peer again"))
            figures = {
                "A: events/s": round(first),
                "A again: events/s": round(again),
                "difference, %": round(100 * abs(first - again) / first, 1),
            }
        what = "The peer's first run of each round made once more at its end: what is smaller means nothing."
        return Result(name="A/A control", what=what, figures=figures)
