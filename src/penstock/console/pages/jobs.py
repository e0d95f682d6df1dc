"""Jobs: what is done with many dead letters or work orders, how far each is; and what a replay would do before it is
begun."""

from __future__ import annotations

from typing import Any, Final

from nicegui import ui

from penstock.console import words
from penstock.console.frame import Visit, pages, refreshing
from penstock.console.job_page import OVER, Bar, JobHead, follow
from penstock.console.letter_filters import PATH, chosen
from penstock.console.parts import TONES, box, button, card, empty, facts, figure, link, problem, text, title
from penstock.console.tables import Column, cell, place, table
from penstock.core.durations import parse_rate
from penstock.core.errors import ConfigError
from penstock.core.visible import visible
from penstock.service.operations import dead_letters as operations
from penstock.service.operations import work_orders
from penstock.service.operations.letter_models import JobView, LetterChoice
from penstock.service.operations.work_order_models import WorkOrderJob

_JOBS: Final = (
    Column("job", "Job", "link", lead=True),
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


@pages.page("/jobs", "Jobs", "/jobs")
async def jobs(visit: Visit) -> None:
    title("Jobs")
    found = await _all(visit)
    if not found:
        empty(
            "Nothing has been replayed, discarded, retried or cancelled in bulk.",
            "Choose dead letters or work orders, look at what would be done with them, and begin it there.",
        )
        with box("head"):
            link("Dead letters", PATH)
            link("History", "/history")
        return
    shown = table(_JOBS, found, key="job", label="Jobs")

    async def look() -> None:
        rows = await _all(visit)
        if rows != shown.rows:
            shown.rows = rows

    refreshing(look)


async def _all(visit: Visit) -> list[dict[str, Any]]:
    """Of dead letters and of work orders, newest first."""
    letters = [_row(job, "dead letters", f"/jobs/{job.id}", job.letters) for job in await visit.ask(operations.jobs)]
    orders = [
        _row(job, "work orders", f"/history/jobs/{job.id}", job.total) for job in await visit.ask(work_orders.jobs)
    ]
    return sorted([*letters, *orders], key=lambda row: str(row["asked"]), reverse=True)


def _row(job: JobView | WorkOrderJob, of: str, url: str, total: int) -> dict[str, Any]:
    return {
        "job": job.id,
        "job_text": f"{job.kind} of {of}",
        "job_url": url,
        "state": job.state,
        "state_tone": TONES.get(job.state, "rest"),
        "what": cell(job.what),
        "done": job.done,
        "done_text": f"{words.number(job.done)} of {words.number(total)}",
        "by": cell(job.by or ""),
        "asked": job.asked_at,
        "asked_text": words.moment_of(job.asked_at),
    }


@pages.page("/jobs/replay", "Replay", "/jobs")
async def new_replay(visit: Visit) -> None:
    title("Replay dead letters")
    choice, said = _which(visit)
    plan = await visit.ask(operations.plan_replay, choice)
    if not plan.letters:
        empty("There is nothing to replay.", "New dead letters are taken; parked and replayed ones if you select them.")
        link("Dead letters", PATH)
        return
    text(f"A dry run: nothing has been done yet. Of {said}, these would go through their pipelines as they are now.")
    rows = [
        {
            "key": f"{count['pipeline']} {count['topic']}/{count['partition']}",
            **place(count["topic"], count["partition"]),
            "pipeline": cell(count["pipeline"]),
            "letters": count["letters"],
            "letters_text": words.number(count["letters"]),
        }
        for count in plan.partitions
    ]
    table(_PARTS, rows, key="key", label="What would be replayed")
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
            job = await visit.tell(None, operations.replay, choice, rate=limit)
            if job is not None:
                ui.navigate.to(f"/jobs/{job.id}")

        with box("head"):
            button(f"Replay {words.number(plan.letters)} dead letters", go, "main-act")
            link("Back", PATH)


def _which(visit: Visit) -> tuple[LetterChoice, str]:
    ids = visit.asked("ids")
    if ids is None:
        asked = chosen(visit)
        return asked.choice, asked.said()
    numbers = [int(part) for part in ids.split(",") if part.strip().isdecimal()]
    if not numbers:
        raise ConfigError("no dead letters are named", received=ids)
    return LetterChoice(ids=numbers[:1000]), f"{len(numbers)} selected dead letters"


@pages.page("/jobs/{job}", "Job", "/jobs")
async def job(visit: Visit) -> None:
    name = visit.path["job"]
    found = await visit.ask(operations.job, name)
    follow(lambda: visit.ask(operations.job, name), _Progress(visit, found).show)


class _Progress:
    """How far a job is."""

    def __init__(self, visit: Visit, job: JobView) -> None:
        self._head = JobHead(visit, f"{job.kind.capitalize()} of dead letters", operations.stop_job, job.id)
        self._problem = text("", "problem")
        self._note = text("", "note warn")
        self._bar = Bar()
        with box("figures"):
            self._done, _ = figure("of all done", "")
            self._left, _ = figure("left", "")
        self._end = text("", "note")
        with box("") as self._parts:
            self._ends = table(_ENDS, [], key="pipeline", label="By pipeline")
        with card("About it"):
            facts(
                [
                    ("Of", job.what),
                    ("By", job.by),
                    ("Asked for", words.moment_of(job.asked_at)),
                    ("Done by", job.instance),
                    ("Job", job.id),
                ]
            )
        self._may = visit.may("dead_letters.operate")
        self.show(job)

    def show(self, job: JobView) -> None:
        over = job.state in OVER
        self._done.text = f"{words.number(job.done)} of {words.number(job.letters)}"
        self._left.text = words.number(max(0, job.letters - job.done))
        self._bar.show(job.done, job.letters)
        self._problem.text = visible(job.error or "")
        self._problem.visible = bool(job.error)
        self._note.text = visible(f"It waits: {job.note}") if job.note and not over else ""
        self._note.visible = bool(self._note.text)
        self._end.text = _told(job)
        self._end.visible = bool(self._end.text)
        rows = [{"pipeline": cell(name)} | _figures(each) for name, each in job.pipelines.items()]
        self._parts.visible = bool(rows)
        if rows != self._ends.rows:
            self._ends.rows = rows
        self._head.show(job.state, may_stop=self._may)


def _figures(each: dict[str, Any]) -> dict[str, Any]:
    shown = {name: each.get(name, 0) for name in ("replayed", "failed", "parked", "released")}
    return shown | {"failed_tone": "hot" if shown["failed"] else ""}


def _told(job: JobView) -> str:
    """How it ended, in a sentence."""
    if job.state not in OVER:
        return ""
    if job.kind == "discard":
        return f"{words.number(job.done)} dead letters are discarded."
    good = sum(each.get("replayed", 0) for each in job.pipelines.values())
    bad = sum(each.get("failed", 0) for each in job.pipelines.values())
    return f"{words.number(good)} succeeded, {words.number(bad)} failed again."
