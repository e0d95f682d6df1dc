"""The world of one schedule: its parts, its time, its operator, and the faults that happen to it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

from penstock.core.commit_metadata import encode
from penstock.kafka.group_consumer import Commit
from tests.simulation.faults import Fault, Faults
from tests.simulation.group import Group, coordinate
from tests.simulation.instance import MakeDriver, SimInstance
from tests.simulation.judge import WITH_CURSOR, Finding, Judge
from tests.simulation.log import Log
from tests.simulation.network import Network
from tests.simulation.schedule import SESSION_TIMEOUT, PipelineModel, Schedule
from tests.simulation.scheduler import BusyLoop, Process, ProcessKilled, Scheduler, no_endless_step
from tests.simulation.situations import Situations
from tests.simulation.store import SimStore
from tests.simulation.target import SimTarget

PATIENCE = 90.0
"""Simulated seconds in a world that is well after which a pipeline without progress stands still (I7)."""
PROCESSOR_SECONDS = 60.0
"""Processor time after which a schedule counts as an endless loop; the longest take a few seconds."""

Place = tuple[str, int]


class World:
    """Everything of one schedule. All state is in plain objects, all randomness in one generator."""

    def __init__(
        self, schedule: Schedule, make: MakeDriver, *, trace: bool = False, tweak: Callable[[World], None] | None = None
    ) -> None:
        self.schedule = schedule
        self.rng = random.Random(f"{schedule.seed}/{schedule.salt}")
        self.scheduler = Scheduler(self.rng)
        self.began = self.scheduler.now
        self.trace = trace
        self.notes: list[tuple[float, str]] = []
        self.process = Process("world")
        self.processes = [self.process]
        self.network = Network(self.scheduler)
        self.situations = Situations()
        self.models: dict[str, PipelineModel] = {model.name: model for model in schedule.pipelines}
        self.model_slowness = schedule.slowness
        self.log = Log(self.scheduler)
        self.groups: dict[str, Group] = {}
        self.store = SimStore(self)
        self.target = SimTarget(self)
        self.judge = Judge(self)
        self.faults = Faults(self, schedule.faults, schedule.rates)
        self.attempts: Counter[tuple[str, str, int, int]] = Counter()
        self.retrying: dict[tuple[str, str, int], bool] = {}
        """By pipeline, topic id, partition: an event waits for a retry, as the last outcome says."""
        self.deferring: dict[tuple[str, str, int], bool] = {}
        self.instances = [SimInstance(self, number, make) for number in range(len(schedule.instances))]
        for name, partitions in schedule.topics:
            self.log.create(name, partitions)
        if tweak is not None:
            tweak(self)

    # -- services for the parts ------------------------------------------------------------

    @property
    def now(self) -> float:
        return self.scheduler.now

    def model(self, pipeline: str) -> PipelineModel:
        return self.models[pipeline]

    def group(self, name: str) -> Group:
        if name not in self.groups:
            self.groups[name] = Group(self, name)
        return self.groups[name]

    def note(self, text: str) -> None:
        """One line of the trace."""
        if self.trace:
            self.notes.append((self.now, text))

    def spawn(self, label: str, target: Callable[[], None]) -> None:
        self.scheduler.spawn(self.process, label, target)

    def spawn_in(self, process: Process, label: str, target: Callable[[], None]) -> None:
        self.scheduler.spawn(process, f"{process}/{label}", target)

    def hook(self, moment: str, process: Process) -> None:
        self.faults.hook(moment, process)

    def revoking(self, group: str, places: list[Place], process: Process) -> None:
        """A member is about to serve a revocation."""
        for name, partition in places:
            topic = self.log.topics.get(name)
            key = (group, topic.id if topic is not None else "", partition)
            if self.retrying.get(key):
                self.situations.reach("revoke while a retry is pending")
            if self.deferring.get(key):
                self.situations.reach("deferral pending at revoke")
        self.hook("revoke", process)

    # -- one schedule ----------------------------------------------------------------------

    def run(self) -> None:
        """Run the schedule to its end; findings are in `judge.findings`."""
        try:
            with no_endless_step(PROCESSOR_SECONDS):
                self._start()
                self.scheduler.run(self.began + self.schedule.horizon)
                self._wait_for_faults()
                self._heal()
                caught_up = self._catch_up()
                self.judge.at_the_end(caught_up=caught_up)
        except BusyLoop as error:
            self.judge.find("I7", f"busy loop: {error}")
        finally:
            self.scheduler.close(self.processes)
        # First: what else was found may follow from them.
        rules = [Finding("driver rule", complaint, self.now) for complaint in self.scheduler.complaints]
        self.judge.findings[:0] = rules

    def _start(self) -> None:
        self.spawn("coordinator", coordinate(self, SESSION_TIMEOUT))
        self.spawn("producer", self._produce)
        for instance, at in zip(self.instances, self.schedule.instances, strict=True):
            self.spawn(f"start {instance.number}", lambda instance=instance, at=at: self._start_later(instance, at))
        self.faults.start()

    def _start_later(self, instance: SimInstance, at: float) -> None:
        self.scheduler.block(at)
        instance.start()

    def _produce(self) -> None:
        for event in self.schedule.events:
            wait = self.began + event.at - self.now
            if wait > 0:
                self.scheduler.block(wait)
            partitions = len(self.log.topics[event.topic].partitions)
            number = int(event.partition * partitions)
            self.log.append(event.topic, number, event.key, event.nature, failures=event.failures)

    def _wait_for_faults(self) -> None:
        end = self.now + 120.0
        while self.faults.pending and self.now < end:
            self.scheduler.run(self.now + 1.0)

    def _heal(self) -> None:
        """From now on the world is well."""
        self.faults.over = True
        self.note("healed")
        self._end_outages(broker=True)
        self.store.away = self.target.away = False
        self.network.cut.clear()
        for instance in self.instances:
            instance.thaw()
        for name in self.models:
            self.store.want(name, state="running", held=False)
        for instance in self.instances:
            self.spawn("heal", instance.start)

    def _catch_up(self) -> bool:
        """I7: everything is finished in the end; nothing stands still for longer than `PATIENCE` before."""
        progress, at = None, self.now
        while self.now < at + PATIENCE:
            self.scheduler.run(self.now + 1.0)
            if not any(instance.stopping for instance in self.instances) and not any(self.judge.unfinished()):
                self.scheduler.run(self.now + 1.0)
                if not any(self.judge.unfinished()):
                    return True
            if self.judge.findings:
                return False
            if progress != (progress := self.judge.progress()):
                at = self.now
        return False

    # -- faults ----------------------------------------------------------------------------

    def instances_by_process(self, process: Process, fault: Fault) -> None:
        """A fault that waited for a moment in this process; called in the thread in which the moment came."""
        for instance in self.instances:
            if instance.process is process:
                self.note(f"fault: {fault}")
                if fault.kind == "freeze":
                    instance.freeze(fault.seconds, workers=fault.also < 0.5)
                    self.scheduler.pause()  # a frozen process stays here
                else:
                    self._crash(instance, fault)
                    raise ProcessKilled

    def _pick(self, fault: Fault) -> SimInstance:
        return self.instances[int(fault.pick * len(self.instances))]

    def _pipeline(self, fault: Fault) -> PipelineModel:
        return list(self.models.values())[int(fault.pick * len(self.models))]

    def _place(self, fault: Fault) -> Place:
        places = [(name, p) for name, topic in self.log.topics.items() for p in range(len(topic.partitions))]
        return places[int(fault.pick * len(places))]

    def _crash(self, instance: SimInstance, fault: Fault) -> None:
        instance.crash(linger=fault.also if fault.also > 0.5 else 0.0)

        def restart() -> None:
            self.scheduler.block(fault.seconds)
            instance.start()

        self.spawn(f"restart {instance.number}", restart)

    def fault_crash(self, fault: Fault) -> None:
        self._crash(self._pick(fault), fault)

    def fault_freeze(self, fault: Fault) -> None:
        self._pick(fault).freeze(fault.seconds, workers=fault.also < 0.5)
        self.scheduler.block(fault.seconds)

    def fault_cut(self, fault: Fault) -> None:
        """One instance reaches no broker; its workers, on the same machine, neither."""
        process = self._pick(fault).process
        self.network.cut.add(process)
        self.scheduler.block(fault.seconds)
        self.network.cut.discard(process)

    def fault_restart(self, fault: Fault) -> None:
        """A rolling restart."""
        instance = self._pick(fault)
        process = instance.process
        instance.stop()
        end = self.now + 60.0
        while process.alive and self.now < end:
            self.scheduler.block(0.5)
        if process.alive:
            instance.crash(0.0)
        self.scheduler.block(fault.seconds / 4)
        instance.start()

    def fault_reload(self, fault: Fault) -> None:
        """The file of a pipeline has changed: every instance replaces it."""
        model = self._pipeline(fault)
        for instance in self.instances:
            if instance.process.alive and instance.driver is not None and not instance.stopping:
                driver, backend = instance.driver, instance.backend
                assert backend is not None
                if any(u.model is model for w in backend.all if w.alive for u in w.units.values()):
                    self.situations.reach("reload while the old runner drains")
                self.spawn_in(instance.process, f"reload {model.name}", lambda d=driver: d.reload(model.name))

    def fault_pause(self, fault: Fault) -> None:
        self._want_for(fault, "paused")

    def fault_stop(self, fault: Fault) -> None:
        self._want_for(fault, "stopped")

    def _want_for(self, fault: Fault, state: str) -> None:
        name = self._pipeline(fault).name
        self.store.want(name, state=state)
        self.scheduler.block(fault.seconds)
        if state == "stopped":
            self.judge.begins_anew(self.models[name])
        self.store.want(name, state="running")

    def fault_reset(self, fault: Fault) -> None:
        """`penstock offsets reset`: hold the pipeline, wait until its group is empty, move the offsets, let it go."""
        model = self._pipeline(fault)
        group = self.group(model.name)
        self.store.want(model.name, held=True)
        end = self.now + 40.0
        while group.members and self.now < end:
            self.scheduler.block(0.5)
        quiet = not any(
            unit.model is model
            for instance in self.instances
            for worker in (instance.backend.all if instance.backend else ())
            if worker.alive
            for unit in worker.units.values()
        )
        if not group.members and quiet and not self.log.away:
            for name in model.topics:
                for number in range(len(self.log.topics[name].partitions)):
                    self._reset(model, (name, number), fault.also)
        self.judge.begins_anew(model)
        self.store.want(model.name, held=False)

    def _reset(self, model: PipelineModel, place: Place, share: float) -> None:
        topic = self.log.topics[place[0]]
        part, group = topic.partitions[place[1]], self.group(model.name)
        if place not in group.offsets:
            return
        offset = part.start + int(share * (part.stable_end - part.start + 1))
        offset = min(max(offset, part.start), part.stable_end)
        commit = Commit(offset, encode(topic.id, offset, offset, ()))
        self.note(f"{model.name} {place}: reset to {offset}")
        self.judge.reset(model.name, topic.id, place[1], offset)
        group.offsets[place] = commit
        self.judge.courses[model.name, topic.id, place[1]].committed = offset
        self.store.mirror[model.name, place] = (topic.id, commit)
        if model.kind in WITH_CURSOR:
            self.target.cursors[model.name, topic.id, place[1]] = offset
            self.target.failures.pop((model.name, topic.id, place[1]), None)

    def fault_add_partition(self, fault: Fault) -> None:
        name = self._place(fault)[0]
        self.situations.reach("partitions added")
        self.log.add_partition(name)
        self._refresh_groups(fault)

    def _refresh_groups(self, fault: Fault) -> None:
        self.scheduler.block(fault.also * 8)
        for group in self.groups.values():
            group.refresh()

    def fault_recreate_topic(self, fault: Fault) -> None:
        name = self._place(fault)[0]
        topic = self.log.topics[name]
        if any(waits and key[1] == topic.id for key, waits in self.retrying.items()):
            self.situations.reach("topic re-created with pending retries")
        for group in self.groups.values():
            group.drop_topic(name)
        self.log.create(name, len(topic.partitions))
        for n in range(int(fault.also * 6)):
            self.log.append(name, n % len(topic.partitions), b"a", "plain")
        self._refresh_groups(fault)

    def fault_delete_records(self, fault: Fault) -> None:
        name, number = self._place(fault)
        part = self.log.topics[name].partitions[number]
        self.log.delete_before(name, number, part.start + int((part.end - part.start) * fault.also))

    def fault_compact(self, fault: Fault) -> None:
        self.log.compact(*self._place(fault))

    def fault_transaction(self, fault: Fault) -> None:
        """A transaction that stays open for a while, then is committed or aborted."""
        name, number = self._place(fault)
        topic = self.log.topics[name]
        self.log.begin_transaction(name, number)
        for _ in range(2):
            self.log.append(name, number, b"b", "plain")
        self.scheduler.block(min(fault.seconds, 6.0))
        if self.log.topics[name] is topic:
            self.log.end_transaction(name, number, commit=fault.also < 0.5)

    def fault_broker_away(self, fault: Fault) -> None:
        self.judge.deaths("brokers away")
        self.log.away = True
        self.log.interrupt()
        self.scheduler.block(fault.seconds)
        self._end_outages(broker=True)
        if any(model.stateless for model in self.models.values()):
            self.situations.reach("stateless after an outage")

    def _end_outages(self, *, broker: bool) -> None:
        if broker and self.log.away:
            self.log.away = False
            self.log.interrupt()
            for group in self.groups.values():
                for member in group.members.values():
                    member.last_seen = self.now

    def fault_store_away(self, fault: Fault) -> None:
        self.judge.deaths("store away")
        self.store.away = True
        self.scheduler.block(fault.seconds)
        self.store.away = False

    def fault_target_away(self, fault: Fault) -> None:
        self.target.away = True
        self.scheduler.block(fault.seconds)
        self.target.away = False

    def fault_clock_jump(self, fault: Fault) -> None:
        """The wall clock of one machine is set, a day back or forth."""
        self._pick(fault).process.wall_offset += 86_400.0 if fault.also < 0.5 else -86_400.0

    def fault_kill_worker(self, fault: Fault) -> None:
        backend = self._pick(fault).backend
        alive = (
            [worker for worker in backend.all if worker.alive and not worker.isolates] if backend is not None else []
        )
        if alive:
            worker = alive[int(fault.also * len(alive))]
            if worker.units:
                self.situations.reach("worker died at work")
            worker.end("killed by the operating system")
