"""The live tap of a pipeline: a few events as each stage leaves them, from when somebody begins to look until they
stop, go away, or have looked for long enough."""

from __future__ import annotations

from collections import deque
from typing import Any, Final

from nicegui import ui

from penstock.console import words
from penstock.console.frame import Visit
from penstock.console.parts import asking, box, button, empty, facts, notify, plain, problem, text
from penstock.console.tables import Column, cell, table
from penstock.core.errors import PenstockError
from penstock.service.operations import tap as operations
from penstock.service.operations.tap import LONGEST, STAGES, SampleView, Tapping

_KEPT: Final = 100
"""Samples on the page."""
_LOOK_EVERY: Final = 0.5
_PER_SECOND: Final = 20.0
_SHORT: Final = 300
"""Characters of a value in its row."""
_TONES: Final = {"passed": "good", "acted": "good", "dropped": "calm", "failed": "bad", "waiting": "warn"}
_COLUMNS: Final = (
    Column("stage", "Stage", lead=True),
    Column("became", "Became", "chip"),
    Column("place", "Event", "mono"),
    Column("value", "Value", "mono", wide=True),
    Column("acts", "", "acts"),
)


class TapTab:
    """One looker."""

    def __init__(self, visit: Visit, name: str) -> None:
        self._visit, self._name = visit, name
        self._tapping: Tapping | None = None
        self._count = 0
        self._samples: deque[tuple[int, SampleView]] = deque(maxlen=_KEPT)
        text(
            f"Events as they leave a stage: a sample of at most {_PER_SECOND:g} a second, of the partitions that this"
            " instance works on. Nothing is sampled while nobody looks.",
            "muted",
        )
        with box("head"):
            self._stages = {stage: ui.checkbox(stage, value=True) for stage in STAGES}
            self._button = button("Look", self._turn, "main-act")
            self._said = text("", "muted small")
        with box("refusal") as self._refusal:
            pass
        self._table = table(_COLUMNS, [], key="number", label="Samples", on_act=self._show)
        self._table.visible = False
        with box("quiet") as self._quiet:
            empty("Nothing has passed yet.", "Windows bring what they sampled when they end, after a second or two.")
        self._quiet.visible = False
        self._timer = ui.timer(_LOOK_EVERY, self._look, active=False)
        # A tab that is closed looks no more; nor does one whose connection is gone.
        ui.context.client.on_disconnect(self.stop)

    async def _turn(self) -> None:
        if self._tapping is not None:
            self.stop()
            return
        self._refusal.clear()
        stages = [stage for stage, wanted in self._stages.items() if wanted.value]
        if not stages:
            notify("Choose a stage.", good=False)
            return
        try:
            self._tapping = await self._visit.ask(
                operations.tap,
                self._name,
                stages=stages,
                seconds=LONGEST,
                limit=operations.MOST,
                per_second=_PER_SECOND,
            )
        except PenstockError as error:
            with self._refusal:
                problem(error)
            return
        self._button.text = "Stop"
        self._quiet.visible = not self._samples
        self._timer.activate()

    def stop(self) -> None:
        """Look no more; what was seen stays."""
        if self._tapping is not None:
            self._tapping.close()
            self._tapping = None
        self._timer.deactivate()
        self._button.text = "Look"
        self._quiet.visible = False

    async def _look(self) -> None:
        tapping = self._tapping
        if tapping is None:
            return
        try:
            found = await self._visit.ask(operations.look, self._name, tapping)
        except PenstockError as error:
            self.stop()
            with self._refusal:
                problem(error)
            return
        for sample in found:
            self._count += 1
            self._samples.appendleft((self._count, sample))
        if found:
            self._table.rows = [_row(number, sample) for number, sample in self._samples]
            self._table.visible, self._quiet.visible = True, False
            more = f", {words.number(tapping.dropped)} too fast to be shown" if tapping.dropped else ""
            self._said.text = f"{words.number(self._count)} samples{more}"
        if tapping.over:
            self.stop()
            notify("The tap was closed: it has been open for long enough.")

    def _show(self, _: str, number: int) -> None:
        sample = next((sample for each, sample in self._samples if each == number), None)
        if sample is None:
            return
        with asking(f"{sample.stage}: {_place(sample)}") as dialog:
            facts(
                [
                    ("Became", sample.became),
                    ("Why", sample.why),
                    ("Event type", sample.event_type),
                    ("Key", sample.key),
                    ("Time", words.moment(sample.timestamp)),
                ]
            )
            if sample.value is not None:
                plain(words.pretty_of(sample.value.encode()) or sample.value)
            if sample.cut:
                text("Its end is cut off.", "muted small")
            if sample.masked:
                text("Rules hide fields of this topic's events.", "muted small")
            with box("foot"):
                button("Close", dialog.close)
        dialog.open()


def _place(sample: SampleView) -> str:
    return f"{sample.topic}/{sample.partition}@{sample.offset}"


def _row(number: int, sample: SampleView) -> dict[str, Any]:
    stage = f"{sample.stage} {sample.step + 1}" if sample.stage in ("filter", "transform") else sample.stage
    value = sample.value or ""
    return {
        "number": number,
        "stage": stage,
        "became": sample.became,
        "became_tone": _TONES[sample.became],
        "became_why": cell(sample.why or "")[:_SHORT],
        "place": cell(_place(sample)),
        "value": cell(value[:_SHORT]) + ("…" if len(value) > _SHORT or sample.cut else ""),
        "acts": ["Show"],
    }
