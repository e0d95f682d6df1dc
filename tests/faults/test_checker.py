"""The checker finds each kind of breach, and nothing in a clean run."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.faults.checker import Allowance, At, Committed, Effect, Fault, History, Produced, check

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


def test_each_repetition_needs_a_fault_between_its_effects_and_within_what_that_one_allows() -> None:
    # Effects happen at 0, 1, 2, …: offsets 1 and 2 again at 3 and 4, offset 3 again at 6.
    history = run(effects(0, 1, 2, 1, 2, 3, 3, 4, 5))
    kill, other = Fault("kill", 2.2, 2.8, Allowance.kill(2)), Fault("other kill", 5.2, 5.8, Allowance.kill(1))

    def breaches(*faults: Fault) -> list[str]:
        return [breach.text for breach in check(history, faults=faults).breaches if breach.kind == "duplicated"]

    assert check(history, faults=[kill, other]).clean
    assert breaches(kill) == ["offset 3 took effect at 5.000 and 6.000, without a fault"]
    # Two faults that allow enough together, but one of them too little.
    small, large = Fault("small", 2.2, 2.8, Allowance.kill(1)), Fault("large", 5.2, 5.8, Allowance.kill(9))
    assert breaches(small, large) == ["offset 2 took effect at 2.000 and 4.000, more than small allows"]
    assert check(history, allowed=Allowance(repeats=10, rewinds=10)).clean, "added up they would hide it"


def test_going_back_needs_a_fault_too() -> None:
    history = run(effects(0, 1, 2, 1, 2, 3, 4, 5))
    late = Fault("late", 4.5, 4.6, Allowance.kill(9))
    assert {breach.kind for breach in check(history, faults=[late]).breaches} == {"duplicated", "reordered"}


def test_two_owners_must_not_act_side_by_side() -> None:
    def act(offset: int, began: float, ended: float, instance: str) -> Effect:
        return Effect(At(*T, offset), f"k{offset % 2}", offset * 10, ended, 7, began, instance)

    handed_over = run([act(0, 0, 1, "a"), act(1, 1, 2, "a"), act(2, 2, 3, "b")], Committed(T, 3, 9.0), records=3)
    assert check(handed_over, turns=1).clean
    assert [breach.kind for breach in check(handed_over, turns=0).breaches] == ["overlapping"]
    side_by_side = run([act(0, 0, 1, "a"), act(2, 1.5, 1.8, "b"), act(1, 1, 2, "a")], Committed(T, 3, 9.0), records=3)
    told = [breach.text for breach in check(side_by_side, turns=1).breaches if breach.kind == "overlapping"]
    assert told == ["b began 2 while a acted on 1"]
    begun_late = run([act(0, 0, 1, "a"), act(1, 1, 2, "b"), act(1, 3, 4, "a"), act(2, 4, 5, "b")], records=3)
    assert "overlapping" in {breach.kind for breach in check(begun_late, turns=1).breaches}
