"""What Spark does for the instance that answers: figures, and a row per lane."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from penstock.console import words
from penstock.console.parts import box, card, figure, text
from penstock.console.tables import Column, cell, table
from penstock.service.operations.instances import LaneView, SparkView

_LANES: Final = (
    Column("lane", "Lane", lead=True),
    Column("state", "State", "chip"),
    Column("pipelines", "Last window carried", wide=True),
    Column("rate", "Windows", "number"),
    Column("took", "Each took", "number"),
    Column("jobs", "Jobs", "number"),
    Column("lost", "Lost", "number"),
)
_NAMED: Final = 4
"""Pipelines of a window that are named; a carpool's has hundreds."""


class SparkCard:
    """Looked at again and again; out of sight where the process that answers runs no pipelines."""

    def __init__(self, spark: SparkView | None, titles: Mapping[str, str]) -> None:
        """`titles`: what people call pipelines whose names were made for them."""
        with box("stack") as self._whole, card("Spark of this instance"):
            self._master = text("", "muted")
            with box("figures"):
                self._figures = [figure(name, "")[0] for name in _figures(None)]
            self._lanes = table(_LANES, [], key="lane", label="Lanes")
        self.show(spark, titles)

    def show(self, spark: SparkView | None, titles: Mapping[str, str]) -> None:
        self._whole.visible = spark is not None
        if spark is None:
            return
        master = f"Master {cell(spark.master)}. " if spark.master else ""
        self._master.text = f"{master}Each window is one Spark job; a lane runs them one by one."
        for element, value in zip(self._figures, _figures(spark).values(), strict=True):
            element.text = value
        rows = [_row(lane, titles) for lane in spark.lanes]
        if rows != self._lanes.rows:
            self._lanes.rows = rows


def _figures(spark: SparkView | None) -> dict[str, str]:
    return {
        "slots": words.number(spark.slots if spark else None),
        "windows running": words.number(spark.running if spark else None),
        "windows per second": words.rate(spark.windows_per_second) if spark else "",
        "jobs since the start": words.number(spark.jobs if spark else None),
        "jobs lost": words.number(spark.lost if spark else None),
    }


def _row(lane: LaneView, titles: Mapping[str, str]) -> dict[str, Any]:
    more = len(lane.pipelines) - _NAMED
    called = [titles.get(name, name) for name in lane.pipelines[:_NAMED]]
    named = ", ".join(called) + (f" and {more} more" if more > 0 else "")
    runs = lane.running_for is not None
    return {
        "lane": lane.lane,
        "state": "running" if runs else "waiting",
        "state_text": "runs a window" if runs else "waits",
        "state_tone": "good" if runs else "rest",
        "pipelines": cell(named or "nothing"),
        "rate": lane.windows_per_second,
        "rate_text": words.rate(lane.windows_per_second),
        "took": lane.mean_seconds or 0.0,
        "took_text": words.millis(None if lane.mean_seconds is None else lane.mean_seconds * 1000),
        "jobs": lane.jobs,
        "jobs_text": words.number(lane.jobs),
        "lost": lane.lost,
        "lost_text": words.number(lane.lost),
        "lost_tone": "bad" if lane.lost else "",
    }
