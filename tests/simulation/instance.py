"""One simulated `penstock run`: a process with a driver in it, started, stopped, crashed, frozen and started again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from penstock.config.source import ConnectionSpec
from penstock.core.clock import Clock
from penstock.kafka.client import KafkaClientConfig
from penstock.kafka.group_consumer import GroupConsumer
from tests.simulation.log import ClusterFake
from tests.simulation.schedule import SESSION_TIMEOUT, PipelineModel
from tests.simulation.scheduler import Process, ProcessKilled, SimThreads, simulated_clock
from tests.simulation.store import StoreView
from tests.simulation.workers import SimSpark

if TYPE_CHECKING:
    from tests.simulation.world import World

STOP_TIMEOUT = 30.0
CLIENT = KafkaClientConfig.of(ConnectionSpec(bootstrap="simulated:9092"))


class Driver(Protocol):
    """What the simulation runs: the real driver, or the model that proves the world and the judge."""

    def start(self) -> None:
        """Begin to run all pipelines; called in a thread of the process."""
        ...

    def stop(self) -> None:
        """Finish what is in flight, leave the groups; blocks until done."""
        ...

    def reload(self, pipeline: str) -> None:
        """Replace a pipeline by a new revision of itself; may block."""
        ...


@dataclass(frozen=True, slots=True)
class Seams:
    """Everything that a driver reaches the world by."""

    world: World
    name: str
    process: Process
    threads: SimThreads
    clock: Clock
    backend: SimSpark
    cluster: ClusterFake
    store: StoreView

    def consumer(self, group: str, listener: Any) -> GroupConsumer:
        """The real group consumer, on the simulated client library."""
        return GroupConsumer(
            CLIENT,
            group,
            listener,
            session_timeout=SESSION_TIMEOUT,
            client_id=self.name,
            threads=self.threads,
            clock=self.clock,
        )

    @property
    def models(self) -> dict[str, PipelineModel]:
        return self.world.models


MakeDriver = Callable[[Seams], Driver]


class SimInstance:
    def __init__(self, world: World, number: int, make: MakeDriver) -> None:
        self._world, self.number, self._make = world, number, make
        self.lives = 0
        self.process = Process(f"i{number}")
        self.process.alive = False
        self.driver: Driver | None = None
        self.backend: SimSpark | None = None
        self.stopping = False
        self._frozen: list[Process] = []
        """Processes that `freeze` stopped: workers that an action holds are not among them."""

    @property
    def running(self) -> bool:
        return self.process.alive

    def start(self) -> None:
        if self.process.alive:
            return
        world = self._world
        self.lives += 1
        self.stopping = False
        self.process = Process(f"i{self.number}.{self.lives}")
        world.processes.append(self.process)
        self.backend = SimSpark(world, self.process)
        seams = Seams(
            world,
            f"i{self.number}",
            self.process,
            SimThreads(world.scheduler, self.process),
            simulated_clock(world.scheduler, self.process),
            self.backend,
            ClusterFake(world.log, world.network, self.process),
            StoreView(world, self.process),
        )
        world.note(f"{self.process} starts")
        self.driver = self._make(seams)
        world.scheduler.spawn(self.process, f"{self.process}/main", self.driver.start)

    def stop(self) -> None:
        """SIGTERM; the process ends when its driver has finished, or after the stop's time-out."""
        if self.process.alive and self.driver is not None and not self.stopping:
            self.stopping = True
            driver, process = self.driver, self.process

            def end() -> None:
                driver.stop()
                self._world.note(f"{process} has stopped")
                self._end_workers()
                self._world.scheduler.kill(process)
                raise ProcessKilled

            self._world.scheduler.spawn(process, f"{process}/stop", end)

    def crash(self, linger: float) -> None:
        """kill -9: nothing of the driver runs any more; its workers end with it, or a moment later."""
        world = self._world
        if not self.process.alive:
            return
        world.note(f"{self.process} crashes")
        world.judge.deaths(str(self.process))
        self._look_for_settled()
        world.scheduler.kill(self.process)
        world.network.cut.discard(self.process)
        if linger <= 0:
            self._end_workers()
        else:
            workers = list(self.backend.all) if self.backend is not None else []

            def end() -> None:
                world.scheduler.block(linger)
                for worker in workers:
                    worker.end("its driver is gone")

            world.spawn(f"workers of {self.process} linger", end)

    def _end_workers(self) -> None:
        for worker in self.backend.all if self.backend is not None else ():
            worker.end("its driver is gone")

    def _look_for_settled(self) -> None:
        for group in self._world.groups.values():
            for member in group.members.values():
                if member.process is self.process and any(
                    self._world.store.has_letters_above(group.name, place, group.offsets) for place in member.owned
                ):
                    self._world.situations.reach("death after settle before commit")

    def freeze(self, seconds: float, *, workers: bool) -> None:
        """SIGSTOP: the driver (and its workers, or not) does nothing for a while, and does not know."""
        if not self.process.alive or self.process.frozen:
            return
        world = self._world
        frozen = [self.process]
        if workers and self.backend is not None:
            frozen += [worker.process for worker in self.backend.all if worker.alive and not worker.process.frozen]
        world.note(f"{[str(process) for process in frozen]} frozen for {seconds:.1f} s")
        for process in frozen:
            process.frozen = True
        self._frozen = frozen

        def thaw() -> None:
            world.scheduler.block(seconds)
            if self._frozen is frozen:
                self.thaw()

        world.spawn("thaw", thaw)

    def thaw(self) -> None:
        """SIGCONT, for the driver and for the workers that were frozen with it."""
        frozen, self._frozen = self._frozen, []
        for process in frozen:
            self._world.note(f"{process} thawed")
            self._world.scheduler.thaw(process)
