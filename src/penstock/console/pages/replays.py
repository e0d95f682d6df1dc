"""Replays: what one would do before it is begun, how far it is, and those of before."""

from __future__ import annotations

from typing import Any, Final

from nicegui import ui

from penstock.console import words
from penstock.console.frame import Visit, pages, refreshing, url
from penstock.console.letter_filters import PATH, chosen
from penstock.console.parts import TONES, box, button, card, chip, empty, facts, figure, link, problem, text, title
from penstock.console.tables import Column, cell, table
from penstock.core.durations import parse_rate
from penstock.core.errors import ConfigError
from penstock.service.replay_jobs import Job
from penstock.store import Which

_JOBS: Final = (
    Column("job", "Replay", "link", lead=True),
    Column("state", "State", "chip"),
    Column("what", "Of", wide=True),
    Column("done", "Done", "number"),
    Column("by", "By"),
    Column("asked", "Asked for"),
)
_PARTS: Final = (
    Column("place", "Topic/partition", lead=True),
    Column("pipeline", "Pipeline"),
    Column("letters", "Letters", "number"),
)
_ENDS: Final = (
    Column("pipeline", "Pipeline", lead=True),
    Column("replayed", "Succeeded", "number"),
    Column("failed", "Failed again", "number"),
    Column("parked", "Parked", "number"),
    Column("released", "Not reached", "number"),
)


@pages.page("/replays", "Replays", "/replays")
async def replays(visit: Visit) -> None:
    title("Replays")
    jobs = visit.data.replays.list()
    if not jobs:
        empty(
            "Nothing has been replayed since this instance started.",
            "Choose dead letters, look at what a replay would do, and begin it there.",
        )
        link("Dead letters", PATH)
        return
    shown = table(_JOBS, [_row(job) for job in jobs], key="job", label="Replays")

    async def look() -> None:
        rows = [_row(job) for job in visit.data.replays.list()]
        if rows != shown.rows:
            shown.rows = rows

    refreshing(look)


def _row(job: Job) -> dict[str, Any]:
    return {
        "job": job.id,
        "job_text": f"Replay {job.id}",
        "job_url": f"/replays/{job.id}",
        "state": job.state,
        "state_tone": TONES.get(job.state, "rest"),
        "what": cell(job.what),
        "done": job.done,
        "done_text": f"{words.number(job.done)} of {words.number(job.total)}",
        "by": cell(job.by),
        "asked": -job.asked_at,
        "asked_text": words.moment(job.asked_at),
    }


@pages.page("/replays/new", "New replay", "/replays")
async def new_replay(visit: Visit) -> None:
    title("Replay dead letters")
    which, said = _which(visit)
    plan = await visit.ask(visit.data.plan, which)
    if not plan.letters:
        empty("There is nothing to replay.", "New dead letters are taken; parked and replayed ones if you select them.")
        link("Dead letters", PATH)
        return
    text(f"A dry run: nothing has been done yet. Of {said}, these would go through their pipelines as they are now.")
    rows = [
        {
            "place": f"{count.topic}/{count.partition}",
            "pipeline": cell(count.pipeline),
            "letters": count.letters,
            "letters_text": words.number(count.letters),
        }
        for count in plan.counts
    ]
    table(_PARTS, rows, key="place", label="What would be replayed")
    with box("card"), box("card-body"):
        rate = ui.input("At most (empty: as fast as it goes)", placeholder="100/s").classes("field search")
        rate.props("outlined dense")
        with box("errors") as errors:
            pass

        async def go() -> None:
            errors.clear()
            try:
                limit = parse_rate(str(rate.value)) if rate.value else None
            except ValueError as error:
                with errors:
                    problem(ConfigError(str(error), received=rate.value, allowed="100/s, 6000/m"))
                return
            job = await visit.tell(None, visit.data.replay, which, by=visit.who, what=said, rate=limit)
            if job is not None:
                ui.navigate.to(f"/replays/{job.id}")

        with box("head"):
            button(f"Replay {words.number(plan.letters)} dead letters", go, "main-act")
            link("Back", PATH)


def _which(visit: Visit) -> tuple[Which, str]:
    ids = visit.asked("ids")
    if ids is None:
        asked = chosen(visit)
        return asked.which, asked.said()
    numbers = [int(part) for part in ids.split(",") if part.strip().isdecimal()]
    if not numbers:
        raise ConfigError("no dead letters are named", received=ids)
    return numbers, f"{len(numbers)} selected dead letters"


@pages.page("/replays/{job}", "Replay", "/replays")
async def replay(visit: Visit) -> None:
    written = visit.path["job"]
    if not written.isdecimal():
        raise ConfigError("a replay is named by its number", received=written)
    job = visit.data.replays.get(int(written))
    ui.page_title(f"Replay {job.id} · Penstock")
    shown = _Progress(visit, job)
    shown.show()

    async def look() -> None:
        shown.show()
        if job.over:
            timer.deactivate()

    timer = refreshing(look)
    timer.interval = 0.5


class _Progress:
    """How far a replay is."""

    def __init__(self, visit: Visit, job: Job) -> None:
        self._job = job
        self._state: str | None = None
        with box("head"):
            link("Replays", "/replays", "crumb")
            text("/", "crumb", "span")
            title(f"Replay {job.id}")
            with box("head") as self._chip:
                pass
            with box("grow"):
                pass
            self._stop = button("Stop", lambda: visit.data.replays.stop(job.id))
        self._problem = text("", "problem")
        self._note = text("", "note warn")
        with box("bar") as self._bar, box("") as self._filled:
            pass
        self._bar.props('role=progressbar aria-label="Progress"')
        with box("figures"):
            self._done, _ = figure("of all done", "")
            self._good, _ = figure("succeeded", "")
            self._bad, _ = figure("failed again", "")
            self._left, _ = figure("left", "")
        with card("By pipeline"):
            self._ends = table(_ENDS, [], key="pipeline", label="By pipeline")
        with card("About it"):
            facts([("Of", job.what), ("By", job.by), ("Asked for", words.moment(job.asked_at))])
        link("Dead letters that failed again", url(PATH, status="new"))

    def show(self) -> None:
        job = self._job
        marks = dict(job.replay.marks)
        good = sum(each.replayed for each in marks.values())
        bad = sum(each.failed for each in marks.values())
        self._done.text = f"{words.number(job.done)} of {words.number(job.total)}"
        self._good.text, self._bad.text = words.number(good), words.number(bad)
        self._left.text = words.number(max(0, job.total - job.done))
        self._bad.classes(remove="bad", add="bad" if bad else "")
        self._filled.style(f"width: {100 * job.done / max(1, job.total):.1f}%")
        self._bar.classes(remove="bad", add="bad" if bad and not good else "")
        self._problem.text = job.error or job.halted or ""
        self._problem.visible = bool(self._problem.text)
        self._note.text = f"It waits: {job.replay.note}" if job.replay.note and not job.over else ""
        self._note.visible = bool(self._note.text)
        self._stop.visible = not job.over
        rows = [
            {"pipeline": cell(name)}
            | {field: getattr(each, field) for field in ("replayed", "failed", "parked", "released")}
            for name, each in marks.items()
        ]
        if rows != self._ends.rows:
            self._ends.rows = rows
        if job.state != self._state:
            self._state = job.state
            self._chip.clear()
            with self._chip:
                chip(job.state)
