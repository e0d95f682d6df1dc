"""The picture of a pipeline: its figures, its stages with what each did, and its partitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from penstock.console import words
from penstock.console.parts import box, card, figure, text
from penstock.console.rates import Pace
from penstock.console.spec_text import Stage, stages_of
from penstock.console.tables import Column, table
from penstock.service.operations.letter_models import FacetsView
from penstock.service.operations.models import HistoryEntry, PipelineDetail
from penstock.service.operations.stages import StageCounts

_PLACES: Final = (
    Column("place", "Partition", lead=True),
    Column("committed", "Committed", "number"),
    Column("end", "End", "number"),
    Column("lag", "Lag", "number"),
    Column("owner", "Owner", "mono"),
)


@dataclass(frozen=True, slots=True)
class Shown:
    """All that the page shows."""

    detail: PipelineDetail
    counts: StageCounts
    facets: FacetsView
    history: list[HistoryEntry]
    pace: Pace


class Picture:
    """Figures, stages and partitions; looked at again and again."""

    def __init__(self, shown: Shown) -> None:
        self._drawn: StageCounts | None = None
        with box("figures"):
            self._figures = [figure(name, "")[0] for name, _ in _figures(shown)]
        with card("Stages"), box("stages") as self._stages:
            pass
        with card("Partitions"):
            self._places = table(_PLACES, _places(shown), key="place", label="Partitions")
            self._none = text("No instance owns a partition of it now.", "muted")
        self.show(shown)

    def show(self, now: Shown) -> None:
        for element, (_, value) in zip(self._figures, _figures(now), strict=True):
            element.text = value
        if now.counts != self._drawn:
            self._drawn = now.counts
            self._stages.clear()
            with self._stages:
                _stages(now)
        rows = _places(now)
        if rows != self._places.rows:
            self._places.rows = rows
        self._places.visible, self._none.visible = bool(rows), not rows


def _figures(shown: Shown) -> list[tuple[str, str]]:
    return [
        ("events per second", words.rate(shown.pace.rate)),
        ("events waiting", words.short(shown.detail.lag)),
        ("latency p50", words.millis(shown.counts.p50_ms)),
        ("latency p99", words.millis(shown.counts.p99_ms)),
        ("of recent events failed", words.share(shown.pace.error_share)),
        ("open dead letters", words.number(shown.detail.dead_letters)),
    ]


def _stages(shown: Shown) -> None:
    if shown.detail.spec is None:
        text("Its spec is not known yet: it has not run.", "muted")
        return
    failed = shown.facets.counts.get("stage", {})
    counts = {
        "source": (f"{words.number(shown.counts.read)} read", _pace(shown, "decode"), failed.get("decode", 0)),
        "filter": (f"{words.number(shown.counts.filtered)} filtered", _pace(shown, "filter"), failed.get("filter", 0)),
        "transform": ("", _pace(shown, "transform"), failed.get("transform", 0)),
        "action": (
            f"{words.number(shown.counts.acted)} acted on",
            _pace(shown, "act") or _pace(shown, "write"),
            sum(failed.get(stage, 0) for stage in ("act", "write", "timeout", "crash")),
        ),
    }
    said: set[str] = set()
    for index, stage in enumerate(stages_of(shown.detail.spec)):
        if index:
            text("→", "arrow")
        # Instances count all filters together, so the first one tells for all of them.
        _stage(stage, *(("", "", 0) if stage.kind in said else counts[stage.kind]))
        said.add(stage.kind)


def _pace(shown: Shown, stage: str) -> str:
    """How long the stage takes per event, where that is known."""
    times = shown.counts.times.get(stage)
    if times is None or times.p50_ms is None:
        return ""
    return f"p50 {words.millis(times.p50_ms)}, p99 {words.millis(times.p99_ms)}"


def _stage(stage: Stage, count: str, pace: str, fails: int) -> None:
    with box("stage"):
        text(stage.kind, "kind")
        text(stage.what, "what")
        if stage.more:
            text(stage.more, "small muted wrap")
        if count:
            text(count, "count small")
        if pace:
            text(pace, "small muted")
        if fails:
            text(f"{words.number(fails)} dead letters", "fails small")


def _places(shown: Shown) -> list[dict[str, Any]]:
    return [
        {
            "place": f"{place.topic}/{place.partition}",
            "committed": place.committed,
            "committed_text": words.number(place.committed),
            "end": place.end,
            "end_text": words.number(place.end),
            "lag": place.lag,
            "lag_text": words.number(place.lag),
            "owner": place.owner or "nobody",
        }
        for place in shown.detail.places
    ]
