"""The states of runs and work orders as a machine: whatever is tried in whatever order, it stays within the rules."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from penstock.workflows.states import (
    FINAL,
    MOVES,
    RUN_STATES,
    UNFINISHED,
    WORK_ORDER_STATES,
    FinalState,
    MoveRefused,
    RunState,
    WorkOrderState,
    check_move,
    derived,
    final_of,
    sources,
    times,
)

runs = st.sampled_from(RUN_STATES)


class WorkOrder(RuleBasedStateMachine):
    """A work order whose runs are moved, retried and cancelled at random."""

    def __init__(self) -> None:
        super().__init__()
        self.runs: list[RunState] = ["available"]
        self.columns: list[dict[str, int]] = [{}]
        self.state: WorkOrderState = "pending"
        self.clock = 0

    @rule(which=st.integers(0, 20), after=runs)
    def move(self, which: int, after: RunState) -> None:
        index = which % len(self.runs)
        before = self.runs[index]
        self.clock += 1
        try:
            check_move(before, after)
        except MoveRefused:
            assert before not in sources(after)
        else:
            assert before in sources(after)
            self.columns[index] |= times(after, self.clock)
            self._changed(index, after)

    @rule()
    def retry(self) -> None:
        self.runs.append("available")
        self.columns.append({})
        self._changed(len(self.runs) - 1, "available")

    def _changed(self, index: int, state: RunState) -> None:
        self.runs[index] = state
        self.state = derived(state, [other for at, other in enumerate(self.runs) if at != index])

    @invariant()
    def the_work_order_says_what_its_runs_do(self) -> None:
        if {"claimed", "started"} & set(self.runs):
            assert self.state == "running"
        elif "available" in self.runs:
            assert self.state == "pending"
        else:
            assert self.state in FINAL
            assert self.state in self.runs

    @invariant()
    def times_are_there_and_in_order(self) -> None:
        for state, columns in zip(self.runs, self.columns, strict=True):
            assert ("finished_at" in columns) == (state in FINAL)
            assert state != "started" or "started_at" in columns
            known = [columns[name] for name in ("claimed_at", "started_at", "finished_at") if name in columns]
            assert known == sorted(known)


TestWorkOrder = WorkOrder.TestCase


@given(runs, runs)
def test_only_the_moves_of_the_rules_are_let_through(before: RunState, after: RunState) -> None:
    allowed = (
        (before == "available" and after in ("claimed", "cancelled"))
        or (before == "claimed" and after in ("started", "available"))
        or (before in ("claimed", "started") and after in FINAL)
    )
    if allowed:
        check_move(before, after)
    else:
        with pytest.raises(MoveRefused):
            check_move(before, after)


def test_a_refusal_says_what_may_be_done_instead() -> None:
    with pytest.raises(MoveRefused) as refused:
        check_move("success", "claimed")
    assert "retry its work order" in str(refused.value)
    with pytest.raises(MoveRefused) as refused:
        check_move("available", "success")
    assert refused.value.allowed == ["claimed", "cancelled"]


@pytest.mark.parametrize(
    ("changed", "others", "state"),
    [
        ("available", [], "pending"),
        ("claimed", [], "running"),
        ("success", ["failed"], "success"),
        ("failed", ["available"], "pending"),
        ("failed", ["available", "started"], "running"),
        ("cancelled", ["claimed", "available"], "running"),
        ("available", ["started"], "running"),
        ("lost", ["success", "crashed"], "lost"),
    ],
)
def test_unfinished_runs_speak_first(changed: str, others: list[str], state: str) -> None:
    assert derived(changed, others) == state


@given(runs, st.lists(runs))
def test_a_work_order_has_one_of_its_own_states(changed: RunState, others: list[RunState]) -> None:
    assert derived(changed, others) in WORK_ORDER_STATES
    assert derived(changed, others) == derived(changed, [state for state in others if state in UNFINISHED])


@pytest.mark.parametrize(
    ("reason", "state"),
    [
        *(("ok", "success"), ("success", "success"), ("fail", "failed"), ("crash", "crashed"), ("kill", "killed")),
        *(("cancel", "cancelled"), ("exception", "exception"), ("lost", "lost"), ("no such reason", "exception")),
    ],
)
def test_reasons_of_steps_end_runs(reason: str, state: FinalState) -> None:
    assert final_of(reason) == state


def test_every_state_is_reached_and_the_last_ones_are_left_by_nothing() -> None:
    assert {state for reached in MOVES.values() for state in reached} == {*RUN_STATES}
    assert all(not MOVES[state] for state in FINAL)
