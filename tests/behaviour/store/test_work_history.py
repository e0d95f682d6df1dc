"""Lists, counts and single work orders, on every database."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from penstock.core.ids import new_id, time_of
from penstock.store import Store
from penstock.store.work import history
from penstock.store.work.history_model import Order, WorkOrderFilter, WorkOrderRow
from penstock.store.work.states import WORK_ORDER_STATES
from tests.behaviour.store.work_rows import SECOND, Rows, now


@pytest.fixture
def rows(work_store: Store) -> Rows:
    return Rows(work_store)


def everything(store: Store) -> list[WorkOrderRow]:
    return store.history.list(limit=10_000)


def fits(row: WorkOrderRow, which: WorkOrderFilter) -> bool:
    """What a filter means, said in another way."""
    received, active = time_of(row.id), row.last_activity
    return (
        which.project_id in (None, row.project_id)
        and which.workflow_id in (None, row.workflow_id)
        and which.trigger_id in (None, row.trigger_id)
        and (not which.states or row.state in which.states)
        and (which.received_after is None or received >= which.received_after)
        and (which.received_before is None or received < which.received_before)
        and (which.active_after is None or active >= which.active_after)
        and (which.active_before is None or active < which.active_before)
        and (not which.ids or row.id in which.ids)
    )


def test_any_filter_in_any_order_finds_what_it_says_page_by_page(work_store: Store, rows: Rows) -> None:
    dice = random.Random(7)
    begin = now() - 4_000 * SECOND
    for number in range(120):
        at = begin + number * 10 * SECOND + dice.randrange(SECOND)
        rows.order(
            dice.randrange(3),
            state=dice.choice(WORK_ORDER_STATES),
            at=at,
            active=at + dice.choice([0, 1, 300, 3_000]) * SECOND,
            manual=dice.random() < 0.3,
        )
    known = everything(work_store)
    assert len(known) == 120

    def moment() -> int | None:
        return dice.choice([None, begin + dice.randrange(2_000) * SECOND])

    for _ in range(150):
        row = dice.choice(known)
        which = WorkOrderFilter(
            project_id=dice.choice([None, row.project_id]),
            workflow_id=dice.choice([None, None, row.workflow_id]),
            trigger_id=dice.choice([None, None, row.trigger_id]),
            states=tuple(dice.sample(WORK_ORDER_STATES, dice.choice([0, 0, 1, 3]))),
            received_after=moment(),
            received_before=moment(),
            active_after=moment(),
            active_before=moment(),
            ids=tuple(one.id for one in dice.sample(known, dice.choice([0, 0, 0, 30]))),
        )
        order: Order = dice.choice(["created", "activity"])
        oldest_first = dice.random() < 0.3
        key: Callable[[WorkOrderRow], tuple[int, str]] = lambda row, order=order: (  # type: ignore[misc] # noqa: E731
            row.last_activity if order == "activity" else 0,
            row.id,
        )
        wanted = sorted((row for row in known if fits(row, which)), key=key, reverse=not oldest_first)
        found, after = [], None
        while page := work_store.history.list(which, order=order, limit=7, after=after, oldest_first=oldest_first):
            found += page
            after = page[-1].cursor(order)
        assert [row.id for row in found] == [row.id for row in wanted], which
        assert work_store.history.count(which) == (len(wanted), False)
        assert work_store.history.count(which, cap=3) == (min(len(wanted), 3), len(wanted) > 3)
        skipped = work_store.history.list(which, order=order, limit=5, skip=4, oldest_first=oldest_first)
        assert [row.id for row in skipped] == [row.id for row in wanted[4:9]]


def test_a_list_says_what_its_columns_need(work_store: Store, rows: Rows) -> None:
    order = rows.order(1, state="failed")
    [row] = work_store.history.list()
    assert (row.id, row.workflow, row.state, row.workflow_deleted) == (order, "ward", "failed", False)
    assert [run.state for run in row.runs] == ["failed"]
    work_store.workflows.delete(rows.flows[1].id)
    assert work_store.history.list(WorkOrderFilter(project_id=rows.project))[0].workflow_deleted


def test_a_work_order_is_shown_with_all_that_belongs_to_it(work_store: Store, rows: Rows) -> None:
    order = rows.order(logs=["first line", "second line"])
    shown = work_store.history.show(order.upper())
    assert shown is not None
    [run] = shown.runs
    assert [step.name for step in run.steps] == ["first"]
    assert [line.message for line in run.logs] == ["first line", "second line"]
    assert not run.has_more_logs
    assert {clip.type for clip in shown.dataclips.values()} == {"kafka", "step_result"}
    assert shown.dataclips[shown.row.dataclip_id or ""].body == '{"patient": "Anna"}'
    assert work_store.history.run(run.run.id) == run
    rest = work_store.history.logs(run.run.id, after=run.logs[0], limit=5)
    assert [line.message for line in rest] == ["second line"]


@pytest.mark.parametrize("malformed", ["", "x", "' OR 1=1", "0" * 36])
def test_malformed_ids_are_not_found(work_store: Store, rows: Rows, malformed: str) -> None:
    rows.order()
    store = work_store.history
    assert [store.show(malformed), store.run(malformed), store.dataclip(malformed)] == [None] * 3
    assert store.logs(malformed) == []
    for name in ("project_id", "workflow_id", "trigger_id"):
        assert store.list(WorkOrderFilter(**{name: malformed})) == []  # type: ignore[arg-type] # as named
        assert store.count(WorkOrderFilter(**{name: malformed})).number == 0  # type: ignore[arg-type] # as named
    assert store.list(WorkOrderFilter(ids=(malformed,))) == []
    assert store.show(new_id()) is None


@pytest.fixture(params=[500, 0], ids=["newest first", "index only"])
def _looked_at(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few work orders are found by a look at the newest; many, by the index alone."""
    monkeypatch.setattr(history, "_NEWEST", request.param)


def terms(store: Store, term: str, **fields: object) -> list[str]:
    """Numbers of the work orders that a term finds, in every order the same."""
    found = [
        {row.id for row in store.history.list(WorkOrderFilter(term=term, **fields), order=order)}  # type: ignore[arg-type] # as the test says
        for order in ("created", "activity")
    ]
    assert found[0] == found[1]
    return sorted(found[0])


@pytest.mark.usefixtures("_looked_at")
def test_work_orders_are_found_by_words_of_body_name_and_logs(work_store: Store, rows: Rows) -> None:
    anna = rows.order(body='{"patient_name": "Anna Kühn", "note": "line\\nbreak \\u00e9t\\u00e9"}', name="Ward round")
    bert = rows.order(body='{"patient_name": "Bert", "count": 4711}', logs=["Posting to the registry", "done: 4711"])
    other = rows.order(2, body='{"patient_name": "Anna"}')
    rows.index()
    assert terms(work_store, "anna") == sorted([anna, other])
    assert terms(work_store, "anna", project_id=rows.project) == [anna]
    assert terms(work_store, "anna", workflow_id=rows.flows[2].id) == [other]
    assert terms(work_store, "ANN kuhn") == terms(work_store, "été break") == [anna]
    assert terms(work_store, "bert anna") == []
    assert terms(work_store, "nna") == []
    assert terms(work_store, "regis post") == terms(work_store, "4711") == [bert]
    assert terms(work_store, "patient bert", states=("failed",)) == []
    assert terms(work_store, "round") == terms(work_store, "round", fields=frozenset({"name"})) == [anna]
    assert terms(work_store, "round", fields=frozenset({"body", "log"})) == []
    assert terms(work_store, "registry", fields=frozenset({"body", "name"})) == []
    assert terms(work_store, "4711", fields=frozenset({"log"})) == [bert]
    assert terms(work_store, "anna", fields=frozenset({"log", "name"})) == []
    assert terms(work_store, "round", fields=frozenset({"log", "name"})) == [anna]
    for nothing in ("'", '"', "a' | b", '"*', "(((", "& !", "\\", "\0"):
        terms(work_store, nothing)


@pytest.mark.parametrize("older", [5_000, 3])
def test_what_has_the_words_comes_in_order_page_by_page(
    work_store: Store, rows: Rows, monkeypatch: pytest.MonkeyPatch, older: int
) -> None:
    # As with a million work orders: the newest have no such words, and some of the old ones ran again of late.
    monkeypatch.setattr(history, "_NEWEST", 5)
    monkeypatch.setattr(history, "_OLDER", older)
    dice, has_words = random.Random(3), set[str]()
    begin = now() - 4_000 * SECOND
    for number in range(90):
        at = begin + number * 10 * SECOND
        word = "modern" if number >= 60 or number % 7 == 0 else "legacy"
        active = at + dice.choice([0, 0, 0, 100, 3_000]) * SECOND
        state = dice.choice(["success", "failed"])
        made = rows.order(dice.randrange(3), state=state, at=at, active=active, body=f'{{"note": "{word}"}}')
        has_words |= {made} if word == "legacy" else set()
    rows.index()
    legacy = [row for row in everything(work_store) if row.id in has_words]
    for which in (WorkOrderFilter(), WorkOrderFilter(states=("failed",)), WorkOrderFilter(project_id=rows.project)):
        wanted = sorted(
            (row for row in legacy if fits(row, which)), key=lambda r: (r.last_activity, r.id), reverse=True
        )
        found, after = [], None
        while page := work_store.history.list(replace(which, term="legacy"), order="activity", limit=4, after=after):
            found += page
            after = page[-1].cursor("activity")
        assert [row.id for row in found] == [row.id for row in wanted]


def test_words_and_times_together_find_what_both_say(
    work_store: Store, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "_NEWEST", 5)
    dice, has_words = random.Random(5), set[str]()
    begin = now() - 4_000 * SECOND
    for number in range(60):
        at = begin + number * 10 * SECOND
        active = at + dice.choice([0, 0, 100, 3_000]) * SECOND
        word = dice.choice(["legacy", "legacy", "modern"])
        made = rows.order(at=at, active=active, body=f'{{"note": "{word}"}}')
        has_words |= {made} if word == "legacy" else set()
    rows.index()
    legacy = [row for row in everything(work_store) if row.id in has_words]

    def moment() -> int | None:
        return dice.choice([None, begin + dice.randrange(700) * SECOND])

    for _ in range(40):
        which = WorkOrderFilter(
            received_after=moment(), received_before=moment(), active_after=moment(), active_before=moment()
        )
        wanted = sorted(row.id for row in legacy if fits(row, which))
        for order in ("created", "activity"):
            found = work_store.history.list(replace(which, term="legacy"), order=order, limit=100)  # type: ignore[arg-type]  # one of both
            assert sorted(row.id for row in found) == wanted
        assert work_store.history.count(replace(which, term="legacy")).number == min(50, len(wanted))


@pytest.mark.usefixtures("_looked_at")
def test_work_orders_are_found_by_ids_of_their_own_and_of_runs_and_steps(work_store: Store, rows: Rows) -> None:
    order = rows.order(at=now() - 900 * SECOND)
    rows.order()
    shown = work_store.history.show(order)
    assert shown is not None
    for identifier in (order, shown.runs[0].run.id, shown.runs[0].steps[0].id):
        assert terms(work_store, identifier) == terms(work_store, identifier[:20].upper()) == [order]
        assert terms(work_store, identifier, fields=frozenset({"body"})) == []
    assert terms(work_store, new_id()) == []


@pytest.mark.usefixtures("_looked_at")
def test_a_count_with_a_term_ends_at_fifty(work_store: Store, rows: Rows) -> None:
    for _ in range(51):
        rows.order()
    rows.index()
    assert work_store.history.count(WorkOrderFilter(term="anna")) == (50, True)
    assert work_store.history.count(WorkOrderFilter(term="anna", states=("failed",))) == (0, False)
    assert work_store.history.count(WorkOrderFilter()) == (51, False)
    pages = list(itertools.islice(_pages(work_store, WorkOrderFilter(term="anna")), 20))
    assert [row.id for page in pages for row in page] == [row.id for row in everything(work_store)]


def _pages(store: Store, which: WorkOrderFilter) -> Iterator[list[WorkOrderRow]]:
    after = None
    while page := store.history.list(which, after=after):
        yield page
        after = page[-1].cursor()


def test_what_is_committed_late_becomes_searchable_too(work_store: Store, rows: Rows) -> None:
    rows.order(body='{"word": "early"}')
    rows.index()
    # Its id was made before the other's, its commit came after: the second look finds it.
    late = rows.order(body='{"word": "late"}', at=now() - 400 * SECOND, logs=["too late"])
    assert terms(work_store, "late") == []
    rows.index()
    assert terms(work_store, "late") == [late]
    assert terms(work_store, "too late") == [late]
    assert work_store.search.seconds_behind() == 0.0


def test_what_is_not_searchable_yet_is_known(work_store: Store, rows: Rows) -> None:
    rows.order(at=now() - 50 * SECOND)
    assert 40 < work_store.search.seconds_behind() < 3_000
    rows.index()
    assert work_store.search.seconds_behind() == 0.0
    rows.order(at=now())
    rows.index()
    assert 0.0 <= work_store.search.seconds_behind() < 1_000
