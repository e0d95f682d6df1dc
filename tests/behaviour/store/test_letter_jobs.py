"""Jobs over dead letters at several instances that share a store: begun at one, seen, followed and stopped at another;
what becomes of them when an instance stops or dies, or the store is away."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any

import pytest
import sqlalchemy as sa

from penstock.config.settings import Settings
from penstock.core.errors import ConfigError
from penstock.service.access import Actor, NotFound, system_actor
from penstock.service.discard_jobs import DiscardWork
from penstock.service.letter_job_records import job_name, tidy
from penstock.service.letter_jobs import LetterJobs, Stopping
from penstock.service.operations import dead_letters as operations
from penstock.service.operations.desk import Desk
from penstock.service.operations.letter_models import JobView, LetterChoice, LetterQuery
from penstock.store import LetterJobRow, Store
from penstock.store.letters import claims
from penstock.store.tables import letter_jobs
from tests.behaviour.store.letters import letter
from tests.support.letter_jobs import Steps
from tests.support.postgres import PostgresServer
from tests.support.waiting import until

SYSTEM = system_actor("tests")
WAIT_S = 30.0


def url_of(store: Store) -> str:
    return store.database.engine.url.render_as_string(hide_password=False)


def begin(desk: Desk, work: Steps) -> str:
    return job_name(desk.letter_jobs.begin("replay", work, by="ada", what="some", pipelines=["orders"]))


def reached(desk: Desk, job: str, is_so: Callable[[JobView], bool]) -> JobView:
    def look() -> JobView | None:
        seen = operations.job(desk, SYSTEM, job)
        return seen if is_so(seen) else None

    return until(look, WAIT_S, lambda: operations.job(desk, SYSTEM, job))


@pytest.fixture
def desks(work_store: Store) -> Iterator[list[Desk]]:
    """Of two instances with connections of their own."""
    with Store.open(url_of(work_store)) as other:
        made = [Desk(work_store, Settings()), Desk(other, Settings())]
        yield made
        for each in made:
            each.close()


def test_a_job_is_seen_followed_and_stopped_at_another_instance(desks: list[Desk]) -> None:
    here, there = desks
    work = Steps()
    job = begin(here, work)
    seen = operations.job(there, SYSTEM, job)
    assert (seen.kind, seen.by, seen.what, seen.state, seen.letters) == ("replay", "ada", "some", "running", 10)
    assert str(os.getpid()) in seen.instance
    work.turns.release(4)
    assert reached(there, job, lambda seen: seen.done == 4).pipelines == {"orders": {"replayed": 4}}
    work.note = "the store is slow"
    reached(there, job, lambda seen: seen.note == "the store is slow")
    assert [each.id for each in operations.jobs(there, SYSTEM)] == [job]
    operations.stop_job(there, SYSTEM, job)
    ended = reached(there, job, lambda seen: seen.state == "stopped")
    assert (ended.done, ended.error, ended.ended_at is not None) == (4, None, True)
    assert operations.stop_job(there, SYSTEM, job).state == "stopped"


def test_a_job_is_history_after_a_restart_and_its_id_is_never_another_ones(desks: list[Desk]) -> None:
    here, there = desks
    work = Steps(total=1)
    job = begin(here, work)
    work.turns.release()
    reached(there, job, lambda seen: seen.state == "done")
    here.close()
    again = Desk(here.store, Settings())
    assert operations.job(again, SYSTEM, job).state == "done"
    assert begin(again, Steps()) != job
    assert len(operations.jobs(again, SYSTEM)) == 2
    again.close()


def test_jobs_that_are_lined_up_wait_and_are_stopped_while_they_do(desks: list[Desk]) -> None:
    here, there = desks
    first, second, third = Steps(), Steps(), Steps()
    jobs = [
        job_name(here.letter_jobs.line_up("replay", work, by="ada", what="", pipelines=["orders"]))
        for work in (first, second, third)
    ]
    reached(there, jobs[0], lambda seen: seen.state == "running")
    assert operations.job(there, SYSTEM, jobs[1]).state == "queued"
    operations.stop_job(there, SYSTEM, jobs[1])
    ended = reached(there, jobs[1], lambda seen: seen.state == "stopped")
    assert ended.ended_at is not None
    assert operations.job(there, SYSTEM, jobs[0]).state == "running", "it need not wait for the others to end"
    first.turns.release(10)
    reached(there, jobs[2], lambda seen: seen.state == "running")
    assert second.done == 0


def test_a_job_ends_with_its_instance_and_says_so(desks: list[Desk]) -> None:
    here, there = desks
    job, waiting = begin(here, Steps()), Steps()
    here.letter_jobs.line_up("replay", waiting, by="ada", what="", pipelines=["orders"])
    here.close()
    for seen in operations.jobs(there, SYSTEM):
        assert (seen.state, seen.done) == ("stopped", 0)
        assert "its instance was stopped" in (seen.error or "")
    assert operations.job(there, SYSTEM, job).ended_at is not None
    with pytest.raises(Stopping):
        begin(here, Steps())


def test_work_that_fails_ends_its_job_with_the_reason(desks: list[Desk]) -> None:
    here, there = desks

    class Failing(Steps):
        def __init__(self, error: Exception) -> None:
            super().__init__()
            self.error = error

        def run(self, stop: threading.Event) -> None:
            raise self.error

    refused = begin(here, Failing(ConfigError("it cannot be", hint="leave it")))
    assert "it cannot be" in (reached(there, refused, lambda seen: seen.state == "failed").error or "")
    broken = begin(here, Failing(KeyError("x")))
    assert reached(there, broken, lambda seen: seen.state == "failed").error == "KeyError: 'x'"
    halting = Steps(total=1)
    halting.halted, job = "the pipeline halted", begin(here, halting)
    halting.turns.release()
    assert reached(there, job, lambda seen: seen.state == "failed").error == "the pipeline halted"


def run_until_killed(url: str, tell: Connection) -> None:
    """An instance whose replay holds two letters."""
    with Store.open(url) as store:
        work = Steps()
        jobs = LetterJobs(store, lambda: "i-killed")
        row = jobs.begin("replay", work, by="ada", what="some", pipelines=["orders"])
        claimed = store.dead_letters.claim([1, 2], by=work.runner)
        tell.send((row.id, len(claimed)))
        threading.Event().wait()


def test_a_job_whose_instance_was_killed_has_failed_and_its_letters_are_free(desks: list[Desk]) -> None:
    here, _ = desks
    here.store.dead_letters.record([letter(n) for n in range(3)])
    context = multiprocessing.get_context("spawn")
    told, tell = context.Pipe(duplex=False)
    process = context.Process(target=run_until_killed, args=(url_of(here.store), tell), daemon=True)
    process.start()
    assert told.poll(60)
    job_id, claimed = told.recv()
    assert claimed == 2
    assert operations.job(here, SYSTEM, f"replay-{job_id}").state == "running"
    process.kill()
    process.join(30)
    [seen] = operations.jobs(here, SYSTEM)
    assert (seen.state, seen.instance, seen.ended_at is not None) == ("failed", "i-killed", True)
    assert "is gone" in (seen.error or "")
    assert "begun anew" in (seen.error or "")
    assert here.store.dead_letters.counts_by_status() == {"new": 3}


def stranger(store: Store, silent_for: float) -> LetterJobRow:
    """A job of another machine, of which nothing was heard for so many seconds."""
    row = store.letter_jobs.add(
        "replay", by="ada", what="", pipelines=["orders"], total=1, instance="i-far", runner="replay:far:1:2:3:4"
    )
    with store.database.write() as connection:
        since = letter_jobs.c.heartbeat_at - int(silent_for * 1000)
        connection.execute(sa.update(letter_jobs).where(letter_jobs.c.id == row.id).values(heartbeat_at=since))
    return row


def test_a_job_of_another_machine_is_lost_when_nothing_is_heard_of_it(desks: list[Desk]) -> None:
    here, there = desks
    here.store.dead_letters.record([letter(0)])
    here.store.dead_letters.claim([1], by="replay:far:1:2:3:4")
    quiet, silent = stranger(here.store, 20), stranger(here.store, 61)
    tidy(there.store)
    assert {seen.state for seen in operations.jobs(here, SYSTEM)} == {"queued"}, "a silence is noticed first"
    assert here.store.dead_letters.counts_by_status() == {"replaying": 1}
    with there.store.database.write() as connection:
        connection.execute(sa.update(letter_jobs).values(missed_at=letter_jobs.c.missed_at - 15_001))
    tidy(there.store)
    assert operations.job(here, SYSTEM, job_name(quiet)).state == "queued"
    assert operations.job(here, SYSTEM, job_name(silent)).state == "failed"
    assert here.store.dead_letters.counts_by_status() == {"new": 1}


def test_jobs_are_shown_to_those_who_may_see_their_pipelines(desks: list[Desk]) -> None:
    here, there = desks
    works = [Steps(), Steps()]
    named = begin(here, works[0])
    begin(here, works[1])
    some = Actor(name="b", projects={"p": "operator"})
    assert operations.jobs(there, some) == []
    for wrong in (named, "replay-1", "replay-x", "discard" + named.removeprefix("replay"), ""):
        with pytest.raises(NotFound):
            operations.job(there, some if wrong == named else SYSTEM, wrong)


def test_a_discard_is_a_job_of_all_instances(desks: list[Desk]) -> None:
    here, there = desks
    here.store.dead_letters.record([letter(n) for n in range(5)])
    choice = LetterChoice(filter=LetterQuery(pipeline="orders"))
    job = operations.discard(here, SYSTEM, choice, "test data")
    ended = reached(there, job.id, lambda seen: seen.state == "done")
    assert (ended.kind, ended.done, ended.letters) == ("discard", 5, 5)
    assert here.store.dead_letters.counts_by_status() == {"discarded": 5}


@pytest.mark.postgres
def test_i06_a_job_goes_on_while_the_store_is_away_and_its_end_is_told_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "_BATCH", 10)
    with PostgresServer() as server, Store.open(server.create_database()) as store:
        store.dead_letters.record([letter(n) for n in range(30)])
        desk, steps = Desk(store, Settings()), Steps()
        work = DiscardWork(store, [*range(1, 31)], "ada", "test data", 30, ["orders"])
        first = begin(desk, steps)
        page = store.dead_letters.discard_page

        def interrupted(*arguments: Any, **options: Any) -> Any:
            if work.done == 10:
                monkeypatch.setattr(store.dead_letters, "discard_page", page)
                server.stop()
            return page(*arguments, **options)

        monkeypatch.setattr(store.dead_letters, "discard_page", interrupted)
        row = desk.letter_jobs.begin("discard", work, by="ada", what="", pipelines=["orders"])
        until(lambda: work.note, WAIT_S, "the discard waits for the store")
        assert "does not answer" in (work.note or "")
        steps.turns.release(10)
        until(lambda: steps.done == 10, WAIT_S, "the other job does not wait")
        server.start()
        assert reached(desk, job_name(row), lambda seen: seen.state == "done").done == 30
        assert reached(desk, first, lambda seen: seen.state == "done").done == 10
        assert store.dead_letters.counts_by_status() == {"discarded": 30}
        desk.close()
