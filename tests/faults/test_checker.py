"""The checker finds each kind of breach, and nothing in a clean run."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.faults.checker import Allowance, At, Committed, Effect, History, Produced, check

T = ("orders", 0)


def produced(*offsets: int) -> list[Produced]:
    return [Produced(At(*T, o), f"k{o % 2}", o * 10) for o in offsets]


def effects(*offsets: int, pid: int = 7) -> list[Effect]:
    return [Effect(At(*T, o), f"k{o % 2}", o * 10, float(i), pid) for i, o in enumerate(offsets)]


def run(acted: list[Effect], *commits: Committed, records: int = 6) -> History:
    return History(produced(*range(records)), acted, list(commits or [Committed(T, records, 100.0)]))


def kinds(history: History, allowed: Allowance = Allowance()) -> set[str]:  # noqa: B008 - frozen
    return {breach.kind for breach in check(history, allowed=allowed).breaches}


def test_a_clean_run_passes() -> None:
    history = run(effects(0, 1, 3, 4), Committed(T, 2, 1.5), Committed(T, 4, 5.0, 5), Committed(T, 6, 9.0))
    history.dead_letters = {At(*T, 2)}
    history.filtered = lambda record: record.at.offset == 5
    report = check(history)
    assert report.clean, report
    assert report.summary() == "6 produced, 4 took effect, 0 repeated, 1 dead letters, 3 commits seen"


@pytest.mark.parametrize(
    ("kind", "broken"),
    [
        ("lost", lambda: run(effects(0, 1, 2, 4, 5))),
        ("phantom", lambda: run(effects(0, 1, 2, 3, 4, 5, 6))),
        ("changed", lambda: run([*effects(0, 1, 2, 3, 4), Effect(At(*T, 5), "k1", 51, 5.0, 7)])),
        ("duplicated", lambda: run(effects(0, 1, 2, 2, 3, 4, 5))),
        ("reordered", lambda: run(effects(0, 2, 1, 3, 4, 5))),
        ("reordered", lambda: run(effects(0, 1, 2, 3, 1, 2, 1, 2, 3, 4, 5))),
        ("skipped", lambda: run(effects(0, 1, 2, 3, 4, 5), Committed(T, 4, 2.5), Committed(T, 6, 9.0))),
        ("skipped", lambda: run(effects(0, 1, 2, 3, 4, 5), Committed(T, 0, 2.5, 4, (1,)), Committed(T, 6, 9.0))),
        ("skipped", lambda: run(effects(0, 1, 2, 4, 5), Committed(T, 6, 9.0))),
        ("backwards", lambda: run(effects(*range(6)), Committed(T, 6, 9.0), Committed(T, 5, 9.5), Committed(T, 6, 10))),
        ("unfinished", lambda: run(effects(*range(6)), Committed(T, 5, 9.0))),
        ("unfinished", lambda: History(produced(0), effects(0), [])),
    ],
)
def test_each_breach_is_found(kind: str, broken: Callable[[], History]) -> None:
    assert kind in kinds(broken())


def test_an_event_that_is_done_and_failed_is_a_breach() -> None:
    history = run(effects(*range(6)))
    history.dead_letters = {At(*T, 3)}
    assert kinds(history) == {"twofold"}


def test_a_kill_allows_one_window_again_and_no_more() -> None:
    history = run([*effects(0, 1, 2, 3), *effects(2, 3, 4, 5, pid=8)])
    assert kinds(history) == {"duplicated", "reordered"}
    assert kinds(history, Allowance.kill(2)) == set()
    assert kinds(history, Allowance.kill(1)) == {"duplicated"}


def test_a_lost_session_allows_the_act_in_flight_to_end_late() -> None:
    history = run([*effects(0, 1, 2), *effects(2, 3, 4, pid=8), *effects(3), *effects(5, pid=8)])
    assert kinds(history, Allowance.lost_session(1)) == set()
    assert kinds(history, Allowance.kill(2)) == {"reordered"}


def test_order_by_key_lets_keys_pass_each_other() -> None:
    history = run(effects(1, 0, 3, 5, 2, 4))
    assert check(history, ordering="key").clean
    assert check(history, ordering="none").clean
    assert "reordered" in kinds(history)


def test_records_below_the_beginning_are_nobodys_business() -> None:
    history = run(effects(3, 4, 5))
    history.begin = {T: 3}
    assert check(history).clean


def test_the_report_can_be_read() -> None:
    told = str(check(run(effects(0, 1, 5))))
    assert "lost: 1\n  orders/0: 3 events: 2\u20134" in told
    assert "skipped: 1\n  orders/0: committed 6 (next_offset None) while these were open: 2\u20134" in told
