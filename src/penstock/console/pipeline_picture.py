"""The picture of a pipeline: its figures, its stages with what each did, and its partitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from penstock.console import words
from penstock.console.frame import url
from penstock.console.parts import box, card, figure, link, text
from penstock.console.rates import Pace
from penstock.console.spec_text import Stage, stages_of
from penstock.console.tables import Column, place, table
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


_OPEN: Final = "open dead letters"
_Did = tuple[str, str, list[tuple[str, str]]]
"""What a stage did, how fast, and its dead letters with the way to them."""


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
        self._drawn: tuple[StageCounts, FacetsView] | None = None
        with box("figures"):
            letters = url("/dead-letters", pipeline=shown.detail.name)
            self._figures = [
                figure(name, "", target=letters if name == _OPEN else None)[0] for name, _ in _figures(shown)
            ]
        with card("Stages"), box("stages") as self._stages:
            pass
        with card("Partitions"):
            self._places = table(_PLACES, _places(shown), key="place", label="Partitions")
            self._none = text("No instance owns a partition of it now.", "muted")
        self.show(shown)

    def show(self, now: Shown) -> None:
        for element, (_, value) in zip(self._figures, _figures(now), strict=True):
            element.text = value
        if (now.counts, now.facets) != self._drawn:
            self._drawn = (now.counts, now.facets)
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
        (_OPEN, words.number(shown.detail.dead_letters)),
    ]


def _stages(shown: Shown) -> None:
    if shown.detail.spec is None:
        text("Its spec is not known yet: it has not run.", "muted")
        return
    failed = shown.facets.counts.get("stage", {})

    def fails(*stages: str) -> list[tuple[str, str]]:
        return [
            (
                f"{words.number(failed[step])} dead letters" + (f" ({step})" if step != stages[0] else ""),
                _letters(shown, step),
            )
            for step in stages
            if failed.get(step)
        ]

    counts: dict[str, _Did] = {
        "source": (f"{words.number(shown.counts.read)} read", _pace(shown, "decode"), fails("decode")),
        "filter": (f"{words.number(shown.counts.filtered)} filtered", _pace(shown, "filter"), fails("filter")),
        "transform": ("", _pace(shown, "transform"), fails("transform")),
        "action": (
            f"{words.number(shown.counts.acted)} acted on",
            _pace(shown, "act") or _pace(shown, "write"),
            fails("act", "write", "timeout", "crash"),
        ),
    }
    said: set[str] = set()
    for index, stage in enumerate(stages_of(shown.detail.spec)):
        if index:
            text("→", "arrow")
        # Instances count all filters together, so the first one tells for all of them.
        _stage(stage, *(("", "", []) if stage.kind in said else counts[stage.kind]))
        said.add(stage.kind)


def _pace(shown: Shown, stage: str) -> str:
    """How long the stage takes per event, where that is known."""
    times = shown.counts.times.get(stage)
    if times is None or times.p50_ms is None:
        return ""
    return f"p50 {words.millis(times.p50_ms)}, p99 {words.millis(times.p99_ms)}"


def _letters(shown: Shown, stage: str) -> str:
    return url("/dead-letters", pipeline=shown.detail.name, stage=stage)


def _stage(stage: Stage, count: str, pace: str, fails: list[tuple[str, str]]) -> None:
    with box("stage"):
        text(stage.kind, "kind")
        text(stage.what, "what")
        if stage.more:
            text(stage.more, "small muted wrap")
        if count:
            text(count, "count small")
        if pace:
            text(pace, "small muted")
        for said, where in fails:
            link(said, where, "fails small")


def _places(shown: Shown) -> list[dict[str, Any]]:
    return [
        {
            **place(each.topic, each.partition),
            "committed": each.committed,
            "committed_text": words.number(each.committed),
            # The end is asked for now and then; a commit may have overtaken it.
            "end": end,
            "end_text": words.number(end),
            "lag": each.lag,
            "lag_text": words.number(each.lag),
            "owner": each.owner or "nobody",
        }
        for each in shown.detail.places
        for end in [None if each.end is None else max(each.end, each.committed or 0)]
    ]
