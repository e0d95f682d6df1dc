"""How jobs over dead letters behave: their runner tells, everybody sees, and nobody is believed dead for good."""

from __future__ import annotations

import sqlalchemy as sa

from penstock.store import LetterJobReport, LetterJobRow, Store
from penstock.store.tables import letter_jobs


def add(store: Store, runner: str = "r-1", **options: str) -> LetterJobRow:
    given = {"by": "ada", "what": "pipeline=orders", "pipelines": ["orders"], "total": 10, "instance": "i-1"}
    return store.letter_jobs.add("replay", **given | {"runner": runner} | options)  # type: ignore[arg-type]


def found(store: Store, job: LetterJobRow) -> LetterJobRow:
    row = store.letter_jobs.get(job.id)
    assert row is not None
    return row


def set_times(store: Store, job: LetterJobRow, **times: int) -> None:
    with store._database.write() as connection:
        connection.execute(sa.update(letter_jobs).where(letter_jobs.c.id == job.id).values(times))


class LetterJobsBehaviour:
    def test_a_job_is_known_from_its_beginning_to_its_end_by_all_who_open_the_store(
        self, store: Store, url: str
    ) -> None:
        job = add(store)
        with Store.open(url) as other:
            seen = found(other, job)
            assert (seen.kind, seen.asked_by, seen.what, seen.state) == ("replay", "ada", "pipeline=orders", "queued")
            assert (seen.pipelines, seen.total, seen.instance, seen.over) == ({"orders": {}}, 10, "i-1", False)
            assert (seen.started_at, seen.ended_at) == (None, None)
            report = LetterJobReport(state="running", done=3, pipelines={"orders": {"failed": 1}}, note="it waits")
            assert not store.letter_jobs.tell(job.id, "r-1", report)
            seen = found(other, job)
            assert (seen.state, seen.done, seen.pipelines, seen.note) == (
                "running",
                3,
                {"orders": {"failed": 1}},
                "it waits",
            )
            began = seen.started_at
            assert began is not None
            assert other.letter_jobs.ask_to_stop(job.id)
            assert store.letter_jobs.tell(job.id, "r-1", report), "its runner learns that it is to stop"
            store.letter_jobs.tell(job.id, "r-1", LetterJobReport(state="stopped", done=4, error="why"))
            seen = found(other, job)
            assert (seen.state, seen.done, seen.note, seen.error, seen.over) == ("stopped", 4, None, "why", True)
            assert seen.started_at == began
            assert seen.ended_at is not None
            assert not other.letter_jobs.ask_to_stop(job.id), "it has ended"

    def test_only_the_runner_of_a_job_tells_how_far_it_is(self, store: Store) -> None:
        job = add(store)
        assert not store.letter_jobs.tell(job.id, "r-2", LetterJobReport(state="done", done=10))
        assert found(store, job).state == "queued"

    def test_jobs_are_listed_newest_first_in_pages(self, store: Store) -> None:
        made = [add(store).id for _ in range(5)][::-1]
        assert [row.id for row in store.letter_jobs.list()] == made
        assert [row.id for row in store.letter_jobs.list(2, before=made[1])] == made[2:4]

    def test_jobs_of_silent_and_dead_runners_have_failed(self, store: Store) -> None:
        silent, dead, well, over = (add(store, f"r-{n}") for n in range(4))
        store.letter_jobs.tell(over.id, "r-3", LetterJobReport(state="done", done=10))
        for job in (silent, over):
            set_times(store, job, heartbeat_at=1)
        assert store.letter_jobs.give_up("gone", silent_for=60, missed_for=15, dead=["r-1", "r-3"]) == {"r-1"}
        missed_at = found(store, silent).missed_at
        assert missed_at is not None, "the silence is noticed first"
        assert store.letter_jobs.give_up("gone", silent_for=60, missed_for=15) == set()
        set_times(store, silent, missed_at=missed_at - 15_001)
        assert store.letter_jobs.give_up("gone", silent_for=60, missed_for=15) == {"r-0"}
        assert [(found(store, job).state, found(store, job).error) for job in (silent, dead, well, over)] == [
            ("failed", "gone"),
            ("failed", "gone"),
            ("queued", None),
            ("done", None),
        ]
        assert found(store, silent).ended_at is not None
        assert [row.id for row in store.letter_jobs.open()] == [well.id]

    def test_i06_a_runner_that_was_only_away_is_believed(self, store: Store) -> None:
        job = add(store)
        set_times(store, job, heartbeat_at=1, missed_at=1)
        assert found(store, job).silent_for > 60
        assert store.letter_jobs.give_up("gone", silent_for=60, missed_for=15) == {"r-1"}
        store.letter_jobs.tell(job.id, "r-1", LetterJobReport(state="running", done=5))
        seen = found(store, job)
        assert (seen.state, seen.done, seen.error, seen.ended_at) == ("running", 5, None, None)
        assert (seen.silent_for < 60, seen.missed_for) == (True, None)

    def test_old_jobs_are_forgotten_and_open_ones_never(self, store: Store) -> None:
        jobs = [add(store) for _ in range(6)]
        for job in jobs[1:]:
            store.letter_jobs.tell(job.id, "r-1", LetterJobReport(state="done", done=10))
        assert store.letter_jobs.forget(keep=5, older_than=60) == 0
        set_times(store, jobs[5], ended_at=1)
        set_times(store, jobs[0], asked_at=1, heartbeat_at=1)
        assert store.letter_jobs.forget(keep=5, older_than=60) == 1
        assert store.letter_jobs.forget(keep=2, older_than=60) == 2
        assert [row.id for row in store.letter_jobs.list()] == [jobs[4].id, jobs[3].id, jobs[0].id]
