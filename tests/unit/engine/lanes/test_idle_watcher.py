"""The idle watcher wakes each pipeline once when its next offset is reached, and misses none."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from penstock.engine.lanes.idle_watcher import IdleWatcher
from penstock.kafka.client import KafkaClientConfig
from penstock.pipeline.messages import Partition
from tests.unit.engine.lanes.doubles import Time

TP = ("orders", 0)


class Log:
    """Records by offset, and a consumer over them as `ArrivalConsumer` is one: what was delivered does not come again
    unless it is watched anew."""

    def __init__(self, *steps: Callable[[], None]) -> None:
        self.time = Time()
        self.ends: dict[Partition, int] = {TP: 5}
        self.errors: list[Partition] = []
        self.positions: dict[Partition, int] = {}
        self.steps = list(steps)
        """What happens between two polls; after the last one the watcher is stopped."""
        self.made = self.closed = 0
        self.woken: list[str] = []
        self.watcher = IdleWatcher(
            KafkaClientConfig({}), consumer=lambda _: self._new(), clock=self.time.clock, threads=self.time
        )

    def _new(self) -> Log:
        self.made, self.positions = self.made + 1, {}
        return self

    def run(self) -> list[str]:
        self.time.at.append((self.time.now + 60.0, self.watcher.stop))
        self.watcher.run()
        return self.woken

    def idle(self, name: str, at: int = 5, then: Callable[[], None] = lambda: None) -> None:
        def wake() -> None:
            self.woken.append(name)
            then()

        self.watcher.watch(name, {TP: at}, wake)

    def append(self) -> None:
        self.ends[TP] += 1

    # -- as `Arrivals` ---------------------------------------------------------------------

    def watch(self, wanted: Mapping[Partition, int]) -> None:
        self.positions = dict(wanted)

    def wait(self, timeout: float) -> list[tuple[Partition, int | None]]:
        self.time.clock.sleep(timeout)
        if not self.steps:
            self.watcher.stop()
            return []
        self.steps.pop(0)()
        found: list[tuple[Partition, int | None]] = [(tp, None) for tp in self.errors]
        for tp, at in self.positions.items():
            found += [(tp, offset) for offset in range(at, self.ends[tp])]
            self.positions[tp] = max(at, self.ends[tp])
        self.errors = []
        return found

    def close(self) -> None:
        self.closed += 1


def nothing() -> None: ...


def test_a_pipeline_is_woken_once_when_its_next_offset_is_reached() -> None:
    log = Log()
    log.steps = [nothing, nothing, log.append, log.append, nothing]
    log.idle("early", 5)
    log.idle("later", 6)
    log.idle("never", 99)
    assert log.run() == ["early", "later"]
    assert log.closed == 1


def test_f28_one_that_begins_to_watch_while_others_are_woken_by_the_record_it_waits_for_is_woken() -> None:
    log = Log()
    log.steps = [log.append, nothing, nothing]
    log.idle("first", 5, then=lambda: log.idle("second", 5))
    assert log.run() == ["first", "second"]


def test_an_error_of_a_partition_wakes_all_that_watch_it() -> None:
    log = Log()
    log.steps = [lambda: log.errors.append(TP)]
    log.idle("one", 5)
    log.idle("other", 50)
    assert sorted(log.run()) == ["one", "other"]


def test_one_that_has_left_is_not_woken_and_a_predecessor_cannot_leave_for_it() -> None:
    log, old, new = Log(), object(), object()
    log.steps = [log.append]
    log.watcher.watch(old, {TP: 5}, lambda: log.woken.append("old"))
    log.watcher.watch(new, {TP: 5}, lambda: log.woken.append("new"))
    log.watcher.leave(old)
    log.watcher.leave(old)
    assert log.run() == ["new"]


def test_a_failing_consumer_wakes_all_and_is_made_anew() -> None:
    log = Log()

    def fail() -> None:
        raise RuntimeError("broken")

    def again() -> None:
        log.idle("third", 5)

    log.steps = [fail, again, log.append, nothing]
    log.idle("one", 99)
    log.idle("other", 99, then=lambda: log.idle("held", 98))
    assert log.run() == ["one", "other", "third"]
    assert (log.made, log.closed) == (2, 2)


def test_a_pipeline_that_cannot_be_woken_does_not_keep_the_others_asleep() -> None:
    log = Log()
    log.steps = [log.append]
    log.watcher.watch("bad", {TP: 5}, lambda: 1 / 0)  # type: ignore[arg-type,return-value]
    log.idle("good", 5)
    assert log.run() == ["good"]
