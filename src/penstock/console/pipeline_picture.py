"""The picture of a pipeline: its figures, its stages with what each did, and its partitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from nicegui import ui
from nicegui.elements.mixins.text_element import TextElement

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
_FAILS: Final = {
    "source": ("decode",),
    "filter": ("filter",),
    "transform": ("transform",),
    "action": ("act", "write", "timeout", "crash"),
}
"""The stages of dead letters that each kind of box has, its own one first."""


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
        self._drawn: list[Stage] | None = None
        self._boxes: list[_Box] = []
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
        self._show_stages(now)
        rows = _places(now)
        if rows != self._places.rows:
            self._places.rows = rows
        self._places.visible, self._none.visible = bool(rows), not rows

    def _show_stages(self, now: Shown) -> None:
        """Drawn anew when the spec is another one. Figures change in place: a link may be pressed just now."""
        stages = stages_of(now.detail.spec) if now.detail.spec is not None else []
        if stages != self._drawn:
            self._drawn = stages
            self._stages.clear()
            with self._stages:
                self._boxes = _boxes(stages, now.detail.name)
        for each in self._boxes:
            each.show(now)


class _Box:
    """One stage: what it did, how fast, and its dead letters with the way to them."""

    def __init__(self, stage: Stage, pipeline: str) -> None:
        self._kind = stage.kind
        self._fails: dict[str, ui.link] = {}
        with box("stage"):
            text(stage.kind, "kind")
            text(stage.what, "what")
            if stage.more:
                text(stage.more, "small muted wrap")
            self._did = text("", "count small")
            self._pace = text("", "small muted")
            for step in _FAILS[stage.kind]:
                self._fails[step] = link("", url("/dead-letters", pipeline=pipeline, stage=step), "fails small")
        for element in self._told:
            element.visible = False

    @property
    def _told(self) -> list[TextElement]:
        return [self._did, self._pace, *self._fails.values()]

    def show(self, now: Shown) -> None:
        failed = now.facets.counts.get("stage", {})
        own, *_ = self._fails
        self._did.text = _did(self._kind, now.counts)
        self._pace.text = next(filter(None, (_pace(now, step) for step in self._fails)), "")
        for step, shown in self._fails.items():
            many = failed.get(step, 0)
            shown.text = f"{words.number(many)} dead letters{'' if step == own else f' ({step})'}" if many else ""
        for element in self._told:
            element.visible = bool(element.text)


def _boxes(stages: list[Stage], pipeline: str) -> list[_Box]:
    """Those that tell what was done. Instances count all filters together, so the first one tells for all of them."""
    if not stages:
        text("Its spec is not known yet: it has not run.", "muted")
    telling: dict[str, _Box] = {}
    for index, stage in enumerate(stages):
        if index:
            text("→", "arrow")
        telling.setdefault(stage.kind, _Box(stage, pipeline))
    return list(telling.values())


def _did(kind: str, counts: StageCounts) -> str:
    if kind == "transform":
        return ""
    many, word = {
        "source": (counts.read, "read"),
        "filter": (counts.filtered, "filtered"),
        "action": (counts.acted, "acted on"),
    }[kind]
    return f"{words.number(many)} {word}"


def _figures(shown: Shown) -> list[tuple[str, str]]:
    return [
        ("events per second", words.rate(shown.pace.rate)),
        ("events waiting", words.short(shown.detail.lag)),
        ("latency p50", words.millis(shown.counts.p50_ms)),
        ("latency p99", words.millis(shown.counts.p99_ms)),
        ("of recent events failed", words.share(shown.pace.error_share)),
        (_OPEN, words.number(shown.detail.dead_letters)),
    ]


def _pace(shown: Shown, stage: str) -> str:
    """How long the stage takes per event, where that is known."""
    times = shown.counts.times.get(stage)
    if times is None or times.p50_ms is None:
        return ""
    return f"p50 {words.millis(times.p50_ms)}, p99 {words.millis(times.p99_ms)}"


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
