"""The dispatcher and its lanes, without Spark and without a broker."""

from __future__ import annotations

import pytest

from penstock.engine.lanes.dispatcher import Dispatcher
from penstock.engine.lanes.lane import Lane, LaneSizes
from penstock.engine.spark.context import EventCrashed, WindowLost
from penstock.pipeline.in_flight_log import InFlight
from penstock.worker.protocol import WindowRequest
from tests.unit.engine.lanes.doubles import METRICS, Backend, Pipeline, Time, WouldBlock

SIZES = LaneSizes(shared=2, dedicated=2, pinned=2)


class Bench:
    """A dispatcher whose lanes the test runs, one window at a time."""

    def __init__(self, *, local: bool = True, sizes: LaneSizes = SIZES) -> None:
        self.time = Time()
        self.backend = Backend(self.time, is_local=local)
        self.dispatcher = Dispatcher(self.backend, METRICS, 10.0, clock=self.time.clock, threads=self.time)
        self.dispatcher.start(sizes)
        for lane in self.lanes.values():
            lane.worker.warm.set()
            lane.warm_ups = 0
            lane.worker.used_at = self.time.now

    @property
    def lanes(self) -> dict[str, Lane]:
        return self.dispatcher.lanes

    def add(self, *pipelines: Pipeline) -> None:
        for pipeline in pipelines:
            self.dispatcher.add(pipeline)

    def window(self, lane: str) -> WindowRequest:
        """Run the lane's next window."""
        before = len(self.backend.requests)
        assert self.dispatcher.run_window(self.lanes[lane])
        assert len(self.backend.requests) == before + 1
        return self.backend.requests[-1]

    def carried(self, lane: str) -> list[str]:
        """Pipelines of the lane's next window; all of them commit behind it."""
        names = [unit.pipeline for unit in self.window(lane).units if not unit.closing]
        for pipeline in list(self.lanes[lane].pipelines):
            self.dispatcher.ready(pipeline)
        return names


@pytest.fixture
def bench() -> Bench:
    return Bench()


# -- sharing -------------------------------------------------------------------------------


def test_pipelines_are_spread_over_the_shared_lanes_and_ride_in_every_window(bench: Bench) -> None:
    pipelines = [Pipeline(f"p{n}") for n in range(4)]
    bench.add(*pipelines)
    assert [bench.dispatcher.lanes_of(pipeline) for pipeline in pipelines] == [("shared-0",), ("shared-1",)] * 2
    for _ in range(3):
        assert bench.carried("shared-0") == ["p0", "p2"]
    assert [len(pipeline.done) for pipeline in pipelines] == [3, 0, 3, 0]


def test_one_that_is_still_committing_is_waited_for_only_a_moment(bench: Bench) -> None:
    quick = [Pipeline(f"quick-{n}") for n in range(8)]
    bench.add(*[each for pair in zip(quick, [Pipeline(f"x{n}") for n in range(8)], strict=True) for each in pair])
    bench.window("shared-0")
    for pipeline in quick[1:]:
        bench.dispatcher.ready(pipeline)
    began = bench.time.now
    bench.window("shared-0")
    assert bench.time.now - began - quick[0].seconds == pytest.approx(0.15, abs=0.01)


def test_a_crowd_has_longer_windows_and_builds_only_some_pipelines_at_a_time() -> None:
    bench = Bench(sizes=LaneSizes(shared=1, dedicated=0, pinned=0))
    bench.add(*[Pipeline(f"p{n:03}") for n in range(100)])
    assert len(first := bench.carried("shared-0")) == 40
    assert bench.backend.last("shared-0").seconds == 2.0
    assert first == [f"p{n:03}" for n in range(40)]


def test_more_than_64_units_of_a_lane_come_back_each_to_its_own() -> None:
    bench = Bench(sizes=LaneSizes(shared=1, dedicated=0, pinned=0))
    pipelines = [Pipeline(f"p{n:03}") for n in range(150)]
    bench.add(*pipelines)
    for _ in range(6):
        bench.carried("shared-0")
    assert len(bench.carried("shared-0")) == 150
    assert all(pipeline.done and not pipeline.units for pipeline in pipelines)
    bench.backend.during = lambda request: bench.backend.crash(request.lane)
    bench.window("shared-0")
    assert [len(pipeline.lost) for pipeline in pipelines] == [1] * 150


def test_i07_a_pipeline_that_cannot_be_planned_does_not_stop_its_neighbours(bench: Bench) -> None:
    bad, good = Pipeline("bad"), Pipeline("good")
    bad.plan = lambda *_, **__: 1 / 0  # type: ignore[assignment,method-assign,return-value]
    bench.add(bad, Pipeline("elsewhere"), good)
    assert bench.carried("shared-0") == ["good"]


def test_an_outcome_that_a_runner_cannot_take_does_not_keep_the_others_from_theirs(bench: Bench) -> None:
    bad, good = Pipeline("bad"), Pipeline("good")
    bad.deliver = None  # type: ignore[assignment,method-assign]  # raises when it is called
    bench.add(bad, Pipeline("elsewhere"), good)
    bench.window("shared-0")
    assert len(good.done) == 1


def test_blueprints_travel_once_per_process(bench: Bench) -> None:
    pipeline = Pipeline("p")
    bench.add(pipeline)
    bench.carried("shared-0")
    assert bench.window("shared-0").units[0].blueprint == b"blueprint"  # the process was seen for the first time
    bench.dispatcher.ready(pipeline)
    assert bench.window("shared-0").units[0].blueprint == b""
    bench.dispatcher.ready(pipeline)
    bench.backend.crash("shared-0")
    bench.window("shared-0")
    bench.dispatcher.ready(pipeline)
    assert bench.window("shared-0").units[0].blueprint == b"blueprint"


def test_a_lane_without_work_is_kept_warm_and_runs_a_unit_when_its_time_comes(bench: Bench) -> None:
    began = bench.time.now
    assert bench.window("shared-0").units == []
    assert bench.time.now == pytest.approx(began + 45.0)
    pipeline = Pipeline("p")
    pipeline.idle, pipeline.wake_at = True, bench.time.now + 3.0
    bench.time.at.append((bench.time.now + 3.0, lambda: setattr(pipeline, "idle", False)))
    bench.add(pipeline)
    assert len(bench.window("shared-0").units) == 1
    assert bench.time.now == pytest.approx(began + 45.0 + 3.0 + pipeline.seconds, abs=0.1)


# -- detached units ------------------------------------------------------------------------


def test_a_detached_unit_is_collected_by_a_later_window_while_the_others_go_on(bench: Bench) -> None:
    slow, quick = Pipeline("slow"), Pipeline("quick")
    bench.add(slow, Pipeline("elsewhere"), quick)
    bench.backend.slow = {"slow"}
    bench.carried("shared-0")
    assert bench.carried("shared-0") == ["quick"]
    assert [each.status for each in slow.done] == ["detached"]
    bench.backend.slow = set()
    bench.carried("shared-0")
    assert [each.status for each in slow.done] == ["detached", "done"]
    assert len({each.unit for each in slow.done}) == 1
    assert bench.carried("shared-0") == ["quick", "slow"]


def test_two_detached_units_are_collected_by_windows_that_carry_nothing_else(bench: Bench) -> None:
    first, second = Pipeline("first"), Pipeline("second")
    bench.add(first, Pipeline("elsewhere"), second)
    bench.backend.slow = {"first", "second"}
    bench.carried("shared-0")
    first.idle = second.idle = True
    assert len(bench.lanes["shared-0"].detached) == 2
    request = bench.window("shared-0")
    assert (request.units, request.seconds) == ([], 1.0)
    bench.backend.slow = {"second"}
    bench.window("shared-0")
    assert ([e.status for e in first.done], [e.status for e in second.done]) == (["detached", "done"], ["detached"])
    bench.backend.slow = set()
    bench.window("shared-0")
    assert second.done[-1].status == "done"
    assert bench.lanes["shared-0"].owners == {}


def test_a_process_that_was_replaced_while_idle_takes_its_detached_units_with_it_and_no_event_is_to_blame(
    bench: Bench,
) -> None:
    slow, quick = Pipeline("slow"), Pipeline("quick")
    bench.add(slow, Pipeline("elsewhere"), quick)
    bench.backend.slow = {"slow"}
    bench.carried("shared-0")
    (unit,) = slow.units
    bench.backend.in_flight["shared-0"] = {unit: [InFlight(0, 5, 6)]}
    bench.backend.crash("shared-0")
    bench.window("shared-0")
    assert slow.lost == [({unit}, {}, None, "another process took the place of the lane's worker")]
    assert quick.lost == []


# -- lost windows --------------------------------------------------------------------------


def test_every_unit_of_a_dead_worker_is_lost_and_the_log_is_shown_to_each_of_their_pipelines(bench: Bench) -> None:
    killer, neighbour, slow = Pipeline("killer"), Pipeline("neighbour"), Pipeline("slow")
    others = [Pipeline(f"elsewhere-{n}") for n in range(2)]
    bench.add(killer, others[0], neighbour, others[1], slow)
    bench.backend.slow = {"slow"}
    bench.carried("shared-0")

    def die(request: WindowRequest) -> None:
        (unit,) = killer.units
        bench.backend.in_flight["shared-0"] = {unit: [InFlight(0, 7, 8)], 9_999: [InFlight(0, 1, 2)]}
        bench.backend.crash(request.lane)

    bench.backend.during = die
    bench.window("shared-0")
    (((unit,), suspects, stage, _),) = killer.lost
    assert (stage, suspects) == ("crash", {unit: [InFlight(0, 7, 8)]})
    for pipeline in (neighbour, slow):
        ((mine, shown, why, _),) = pipeline.lost
        assert len(mine) == 1
        assert unit not in mine
        assert (shown, why) == (suspects, "crash")
    assert others[0].lost == others[1].lost == []


def test_a_window_that_does_not_end_is_killed_and_its_event_fails_with_the_stage_timeout(bench: Bench) -> None:
    pipeline = Pipeline("p", timeout=3.0)
    bench.add(pipeline)

    def hang(request: WindowRequest) -> None:
        began = bench.time.now
        while bench.time.now < began + request.seconds + 3.0 + 4.9:
            assert bench.backend.killed == []
            bench.time._pass(0.5)
            bench.dispatcher._end_overdue()
        bench.time._pass(0.5)
        bench.dispatcher._end_overdue()
        assert len(bench.backend.killed) == 1

    bench.backend.during = hang
    bench.window("shared-0")
    assert [stage for _, _, stage, _ in pipeline.lost] == ["timeout"]


def test_l6_a_pause_of_the_driver_makes_no_window_overdue(bench: Bench) -> None:
    pipeline = Pipeline("p", timeout=3.0)
    bench.add(pipeline)

    def freeze(_: WindowRequest) -> None:
        bench.time._pass(60.0)
        bench.dispatcher._end_overdue()
        assert bench.backend.killed == []

    bench.backend.during = freeze
    bench.window("shared-0")
    assert pipeline.lost == []


def test_a_detached_unit_has_the_time_of_its_own_action(bench: Bench) -> None:
    slow, quick = Pipeline("slow", timeout=100.0), Pipeline("quick", timeout=1.0)
    bench.add(slow, Pipeline("elsewhere"), quick)
    bench.backend.slow = {"slow"}
    bench.carried("shared-0")
    quick.idle = True

    def late(_: WindowRequest) -> None:
        bench.time._pass(60.0)
        bench.dispatcher._end_overdue()

    bench.backend.during = late
    bench.window("shared-0")
    assert bench.backend.killed == []


def test_cancelled_units_are_lost_without_blame_and_their_process_is_gone_when_cancel_returns(bench: Bench) -> None:
    leaving, neighbour = Pipeline("leaving"), Pipeline("neighbour")
    bench.add(leaving, Pipeline("elsewhere"), neighbour)

    def revoke(request: WindowRequest) -> None:
        bench.backend.in_flight[request.lane] = {unit: [InFlight(0, 1, 2)] for unit in leaving.units}
        bench.dispatcher.cancel(set(leaving.units))
        assert bench.backend.alive.isdisjoint({bench.backend.processes[request.lane].pid})

    bench.backend.during = revoke
    bench.window("shared-0")
    assert [(stage, suspects) for _, suspects, stage, _ in leaving.lost + neighbour.lost] == [(None, {})] * 2
    bench.backend.during = lambda request: bench.backend.crash(request.lane)
    bench.window("shared-0")
    assert leaving.lost[-1][2] == "crash", "the cancelling explains one loss only"


def test_a_process_that_is_cancelled_after_its_window_excuses_no_later_crash(bench: Bench) -> None:
    pipeline = Pipeline("p")
    bench.add(pipeline)
    bench.backend.slow = {"p"}
    bench.carried("shared-0")
    bench.dispatcher.cancel(set(pipeline.units))
    bench.backend.slow = set()
    bench.carried("shared-0")
    assert [stage for _, _, stage, _ in pipeline.lost] == [None]
    bench.backend.during = lambda request: bench.backend.crash(request.lane)
    bench.window("shared-0")
    assert [stage for _, _, stage, _ in pipeline.lost] == [None, "crash"]


def test_the_lock_is_free_while_a_process_is_killed(bench: Bench) -> None:
    pipeline, held = Pipeline("p"), []
    bench.add(pipeline)
    bench.backend.end_process = lambda _: held.append(bench.dispatcher._lock.depth) or True  # type: ignore[assignment,attr-defined,func-returns-value,method-assign,return-value]
    bench.backend.during = lambda _: bench.dispatcher.cancel(set(pipeline.units))
    bench.window("shared-0")
    bench.backend.processes["shared-0"].tainted = True
    bench.backend.during = lambda _: None
    bench.carried("shared-0")
    bench.window("shared-0")
    assert held
    assert set(held) == {0}


def test_units_are_asked_to_stop_where_they_are(bench: Bench) -> None:
    one, other = Pipeline("one"), Pipeline("other")
    bench.add(one, other)
    bench.backend.during = lambda _: bench.dispatcher.stop_units({*one.units, *other.units, 77})
    bench.window("shared-0")
    assert bench.backend.stopped == {"shared-0": {one.done[0].unit}}
    assert one.lost == []


def test_a_worker_with_a_hung_thread_is_replaced_once_its_units_are_collected(bench: Bench) -> None:
    hangs, slow = Pipeline("hangs"), Pipeline("slow")
    bench.add(hangs, Pipeline("elsewhere"), slow)
    bench.backend.slow = {"slow"}
    bench.carried("shared-0")
    process = bench.backend.processes["shared-0"]
    process.tainted = True
    bench.carried("shared-0")
    assert bench.carried("shared-0") == ["hangs"]
    assert process.pid in bench.backend.alive, "a unit is still acting in it"
    bench.backend.slow = set()
    bench.carried("shared-0")
    assert bench.window("shared-0").retiring
    assert process.pid not in bench.backend.alive
    assert bench.carried("shared-0") == ["hangs", "slow"]
    assert not bench.lanes["shared-0"].worker.tainted
    assert hangs.lost == slow.lost == []


# -- garbage -------------------------------------------------------------------------------


def test_a_worker_that_answers_garbage_is_ended_and_its_window_is_lost_without_blame(bench: Bench) -> None:
    pipeline = Pipeline("p")
    bench.add(pipeline)
    bench.carried("shared-0")
    garbage = [
        lambda request, outcome: None,
        lambda request, outcome: setattr(outcome, "lane", "shared-1") or outcome,
        lambda request, outcome: outcome.units.append(outcome.units[0]) or outcome,
        lambda request, outcome: setattr(outcome.units[0], "unit", 4_711) or outcome,
        lambda request, outcome: setattr(outcome.units[0], "pipeline", "another") or outcome,
        lambda request, outcome: outcome.units.clear() or outcome,
        lambda request, outcome: outcome.running.append(4_711) or outcome,
        lambda request, outcome: setattr(outcome.units[0], "status", "detached") or outcome,
        lambda request, outcome: setattr(outcome, "units", 7) or outcome,
    ]
    for number, answer in enumerate(garbage, start=1):
        pid = bench.backend.processes["shared-0"].pid
        bench.backend.answer = answer
        bench.window("shared-0")
        assert len(pipeline.lost) == number
        assert pipeline.lost[-1][1:3] == ({}, None)
        bench.backend.answer = lambda _, outcome: outcome
        assert bench.carried("shared-0") == ["p"]
        assert bench.backend.processes["shared-0"].pid != pid
    assert pipeline.units == {}


def test_windows_that_are_lost_without_blame_come_slower_and_slower(bench: Bench) -> None:
    pipeline = Pipeline("p")
    bench.add(pipeline)
    bench.backend.answer = lambda _request, _outcome: None
    waits = []
    for _ in range(10):
        began = bench.time.now
        request = bench.window("shared-0")
        waits.append(bench.time.now - began - request.seconds)
    assert waits[1] >= 0.4
    assert waits[-1] >= 20.0
    assert waits == sorted(waits)


def test_a_lane_survives_whatever_is_raised_in_it(bench: Bench) -> None:
    pipeline = Pipeline("p")
    bench.add(pipeline)
    bench.backend.during = lambda _: 1 / 0  # type: ignore[assignment,return-value]
    bench.window("shared-0")
    assert pipeline.lost[0][2] is None
    bench.backend.during = lambda _: None
    assert bench.carried("shared-0") == ["p"]


def test_units_that_a_failing_lane_has_planned_and_not_sent_are_planned_again(bench: Bench) -> None:
    pipeline = Pipeline("p")
    bench.add(pipeline)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bench.dispatcher, "_window", None)
        assert bench.dispatcher.run_window(bench.lanes["shared-0"])
    assert [(stage, reason) for _, _, stage, reason in pipeline.lost] == [(None, "the lane failed")]
    assert bench.carried("shared-0") == ["p"]


def test_outcomes_that_cannot_be_passed_on_are_lost_and_not_forgotten(bench: Bench) -> None:
    pipeline = Pipeline("p")
    bench.add(pipeline)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bench.dispatcher, "_end_window", None)
        assert bench.dispatcher.run_window(bench.lanes["shared-0"])
    assert len(pipeline.lost) == 1
    assert bench.carried("shared-0") == ["p"]


# -- isolation -----------------------------------------------------------------------------


def test_suspects_run_alone_and_the_pipelines_take_turns(bench: Bench) -> None:
    one, other = Pipeline("one"), Pipeline("other")
    one.has_isolated = other.has_isolated = True
    bench.add(one, other)
    bench.dispatcher.isolate(one)
    bench.dispatcher.isolate(other)
    carried = []
    for _ in range(4):
        request = bench.window("isolation-0")
        assert request.seconds == 5.0
        carried += [unit.pipeline for unit in request.units]
        bench.time._pass(1.0)
    assert carried in (["one", "other"] * 2, ["other", "one"] * 2)
    one.has_isolated = False
    assert {unit.pipeline for unit in bench.window("isolation-0").units if not unit.closing} == {"other"}
    other.has_isolated = False
    assert all(unit.closing for unit in bench.window("isolation-0").units)


def test_one_that_hangs_in_isolation_does_not_die_with_another(bench: Bench) -> None:
    one, other = Pipeline("one"), Pipeline("other")
    one.has_isolated = other.has_isolated = True
    bench.add(one, other)
    bench.dispatcher.isolate(one)
    bench.backend.slow = {"one"}
    bench.window("isolation-0")
    bench.dispatcher.isolate(other)
    assert bench.window("isolation-0").units == []
    assert other.units == {}


# -- dedicated and express lanes -----------------------------------------------------------


def test_dedicated_lanes_are_started_when_wanted_and_left_again(bench: Bench) -> None:
    pipeline = Pipeline("p")
    bench.add(pipeline)
    for lane in ("dedicated-0", "dedicated-1"):
        bench.lanes[lane].worker.warm.clear()
    bench.dispatcher.dedicate(pipeline, on=True)
    assert bench.dispatcher.lanes_of(pipeline) == ("shared-0",), "it stays at home until one is warm"
    assert [name for name, _ in bench.time.started].count("lane-start") == 2
    bench.lanes["dedicated-1"].worker.warm.set()
    bench.dispatcher.dedicate(pipeline, on=True)
    assert bench.dispatcher.lanes_of(pipeline) == ("dedicated-1",)
    bench.lanes["dedicated-0"].worker.warm.set()
    bench.dispatcher.dedicate(pipeline, on=True)
    assert bench.dispatcher.lanes_of(pipeline) == ("dedicated-0", "dedicated-1")
    assert bench.carried("dedicated-0") == bench.carried("dedicated-1") == ["p"]
    assert pipeline.planned[-1][1] == ("dedicated-0", "dedicated-1")
    bench.dispatcher.dedicate(pipeline, on=False)
    assert bench.dispatcher.lanes_of(pipeline) == ("shared-0",)
    assert bench.carried("shared-0") == ["p"]


def test_a_woken_pipeline_gets_an_express_window_until_its_home_lane_is_free(bench: Bench) -> None:
    woken, busy = Pipeline("woken"), Pipeline("busy")
    busy.seconds = 5.0
    bench.add(woken, Pipeline("elsewhere"), busy)
    woken.idle = True

    def arrives(_: WindowRequest) -> None:
        bench.time._pass(2.0)
        woken.idle = False
        bench.dispatcher.wake(woken)

    bench.backend.during = arrives
    bench.window("shared-0")
    bench.backend.during = lambda _: None
    assert bench.dispatcher.lanes_of(woken) == ("express-0",)
    assert bench.window("express-0").seconds == pytest.approx(3.0)
    bench.dispatcher.ready(woken)
    assert bench.dispatcher.lanes_of(woken) == ("shared-0",)
    bench.dispatcher.ready(busy)
    assert bench.carried("shared-0") == ["busy", "woken"]


def test_a_woken_pipeline_goes_home_at_once_where_its_lane_is_free(bench: Bench) -> None:
    woken = Pipeline("woken")
    bench.add(woken)
    bench.dispatcher.wake(woken)
    assert bench.carried("shared-0") == ["woken"]


def test_pinned_pipelines_have_a_lane_for_each_action_object_while_there_are_some(bench: Bench) -> None:
    two, third = Pipeline("two", pinned=True, parallelism=2), Pipeline("third", pinned=True)
    bench.add(two, third)
    assert bench.dispatcher.lanes_of(two) == ("pinned-0", "pinned-1")
    assert bench.dispatcher.lanes_of(third)[0] in ("pinned-0", "pinned-1")
    alone = Pipeline("alone", pinned=True, alone=True)
    bench.add(alone)
    assert bench.dispatcher.lanes_of(alone) == ("pinned-2",)


# -- coming and going ----------------------------------------------------------------------


def test_a_runner_that_ends_late_leaves_its_successor_alone(bench: Bench) -> None:
    """F10: a reload goes on without an old runner that is slow to stop."""
    old, new = Pipeline("p"), Pipeline("p")
    bench.add(old)
    bench.backend.slow = {"p"}
    bench.carried("shared-0")
    bench.add(new)
    bench.dispatcher.remove(old)
    assert bench.dispatcher.lanes_of(old) == ()
    lane = bench.dispatcher.lanes_of(new)[0]
    assert bench.carried(lane) == ["p"]
    assert len(new.units) == 1
    bench.backend.slow = set()
    bench.carried("shared-0")
    bench.carried(lane)
    assert [each.status for each in old.done] == ["detached", "done"], "its outcome is not its successor's"
    assert {each.unit for each in old.done}.isdisjoint({each.unit for each in new.done})
    bench.dispatcher.remove(old)
    assert bench.carried(lane) == ["p"]


def test_a_removed_pipeline_is_closed_in_every_lane_that_may_hold_it(bench: Bench) -> None:
    pipeline = Pipeline("p")
    bench.add(pipeline)
    bench.dispatcher.dedicate(pipeline, on=True)
    bench.carried("dedicated-0")
    bench.dispatcher.remove(pipeline)
    for lane in ("shared-0", "dedicated-0", "dedicated-1"):
        (unit,) = bench.window(lane).units
        assert (unit.pipeline, unit.closing) == ("p", True)
    assert bench.carried("shared-0") == []


def test_a_stop_runs_what_is_to_be_closed_and_collects_what_is_detached_and_then_ends_the_lane(bench: Bench) -> None:
    pipeline = Pipeline("p")
    bench.add(pipeline)
    bench.backend.slow = {"p"}
    bench.carried("shared-0")
    bench.dispatcher.remove(pipeline)
    bench.dispatcher.stop(5.0)
    (unit,) = bench.window("shared-0").units
    assert unit.closing
    bench.backend.slow = set()
    bench.window("shared-0")
    assert pipeline.done[-1].status == "done"
    assert not bench.dispatcher.run_window(bench.lanes["shared-0"])
    assert not bench.dispatcher.run_window(bench.lanes["shared-1"])


# -- clusters ------------------------------------------------------------------------------


def test_f09_a_lost_window_of_a_cluster_blames_no_event_without_the_proof_that_one_was_begun() -> None:
    bench, pipeline = Bench(local=False), Pipeline("p")
    bench.add(pipeline)

    def fail(error: Exception) -> None:
        def during(_: WindowRequest) -> None:
            raise error

        bench.backend.during = during

    for reason in ("ImportError: No module named 'confluent_kafka'", "ExecutorLostFailure", "No space left on device"):
        fail(WindowLost(reason))
        bench.window("shared-0")
        assert pipeline.lost[-1][1:] == (None, None, reason)
    fail(EventCrashed("Python worker exited unexpectedly"))
    bench.window("shared-0")
    assert pipeline.lost[-1][1:3] == (None, "crash")


def test_f17_a_lost_window_of_a_cluster_is_repeated_only_when_it_cannot_act_any_more() -> None:
    bench, pipeline = Bench(local=False), Pipeline("p")
    pipeline.seconds = 20.0
    bench.add(pipeline)
    began = bench.time.now
    bench.backend.during = lambda request: bench.backend.cancelled.append(request.lane)
    bench.window("shared-0")
    assert bench.time.now - began >= 23.0
    assert len(pipeline.lost) == 1


def test_f17_a_cancel_on_a_cluster_returns_when_the_job_has_ended() -> None:
    bench, pipeline = Bench(local=False), Pipeline("p")
    bench.add(pipeline)

    def revoke(_: WindowRequest) -> None:
        began = bench.time.now
        bench.dispatcher.cancel(set(pipeline.units))
        # In one thread the job cannot end meanwhile: the wait takes all of its time.
        assert bench.time.now - began >= 30.0

    bench.backend.during = revoke
    bench.window("shared-0")
    assert pipeline.lost[0][2] is None


def test_f18_a_cluster_gets_no_retiring_windows_for_a_process_that_ends_itself() -> None:
    bench, pipeline = Bench(local=False), Pipeline("p")
    bench.add(pipeline)
    bench.carried("shared-0")
    bench.backend.processes["shared-0"].tainted = True
    assert bench.carried("shared-0") == ["p"]
    assert bench.carried("shared-0") == ["p"]
    assert not any(request.retiring for request in bench.backend.requests)


def test_the_double_blocks_where_a_thread_would_block_for_ever(bench: Bench) -> None:
    with pytest.raises(WouldBlock):
        bench.time.condition().wait()
