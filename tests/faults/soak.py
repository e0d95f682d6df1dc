"""A bounded soak: two instances on three brokers under faults at random, from a printed seed.

The instances run a mix of pipelines: plain, batch, keyed and deferring actions, a table, and work orders with runs.
Each fault is judged by itself: what is repeated must lie around a fault that allows it. Ends with nothing lost, and
flat memory, threads and file descriptors of an instance that lived through all of it.
`python -m tests.faults.soak --minutes 10 --seed 7`.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bench.machine import facts
from confluent_kafka import KafkaException

from tests.faults.checker import NOTHING, Allowance, Fault
from tests.faults.order_scene import OrderScene
from tests.faults.outcome import RESULTS
from tests.faults.scene import SESSION_S, WAIT_S, WINDOW, Scene
from tests.faults.table_scene import TableScene
from tests.faults.vitals import MEASURES, Vitals
from tests.support.children import CHILDREN
from tests.support.freezing import frozen
from tests.support.group import OtherMember
from tests.support.instance import PenstockProcess
from tests.support.kafka import KafkaCluster
from tests.support.postgres import PostgresServer
from tests.support.waiting import until

ACTING = {"plain": 1, "batch": 1, "keyed": 8, "deferred": 1}
"""Ways of acting in the mix, and how many acts of a partition may be in flight when a session is lost."""
MOVES, DEFERRED = 6, 20
"""How often a fault moves a partition at most, and how many events of it may be deferred at those moments."""
RETRY = {"retry": {"attempts": 3, "backoff": "50ms"}}
STEPS = "def keep(state):\n    return {}\n"
KEEP = {"name": "keep", "kind": "python", "config": {"callable": "./steps.py:keep", "config": {}}}
RUN_ENDS = {"success", "lost"}
"""How runs may end; those in flight on an instance that is killed are lost."""


def value(seq: int) -> bytes:
    """One in fifty fails for good, spread over all partitions; one in three hundred fails at its first attempt."""
    return json.dumps({"seq": seq, "do": "raise" if seq % 51 == 7 else None, "fails": int(seq % 331 == 23)}).encode()


def never_retried(seq: int) -> bytes:
    """For batches: events behind one that fails have taken effect with it, so a retry comes out of order."""
    return json.dumps({"seq": seq, "do": "raise" if seq % 51 == 7 else None}).encode()


class Mix:
    """The pipelines, in one folder that every instance runs."""

    def __init__(self, cluster: KafkaCluster, server: PostgresServer, folder: Path, rate: float) -> None:
        store, target = server.create_database(), server.create_database()
        self.acting = {
            way: Scene(
                cluster,
                folder / way,
                f"soak-{way}",
                values=never_retried if way == "batch" else value,
                way=way,
                options=RETRY,
                replication=3,
                rate=rate,
            )
            for way in ACTING
        }
        self.table = TableScene(cluster, folder / "table", "soak-table", target, replication=3, rate=rate)
        (folder / "orders").mkdir()
        (folder / "orders" / "steps.py").write_text(STEPS)
        self.orders = OrderScene(cluster, folder / "orders", store, rate=5, replication=3, steps=[KEEP])
        self.scenes: list[Scene] = [*self.acting.values(), self.table, self.orders]
        self.host = self.scenes[0]
        """Starts the instances."""
        self.host.file = folder / "pipelines"
        self.host.file.mkdir()
        for scene in self.scenes:
            scene.env["PENSTOCK_STORE_URL"] = store
            (self.host.file / f"{scene.folder.name}.yaml").write_text(json.dumps(scene.document))

    def goes_on(self, count: int) -> None:
        """Wait until every pipeline has so many further effects, and every partition an owner."""
        before = [scene.count() for scene in self.scenes]
        for scene, seen in zip(self.scenes, before, strict=True):
            least = seen + (count if scene is not self.orders else 1)
            until(
                lambda scene=scene, least=least: scene.count() >= least, WAIT_S, lambda scene=scene: self.story(scene)
            )
        for scene in self.scenes:
            until(lambda scene=scene: _all_owned(scene), WAIT_S, lambda scene=scene: self.story(scene))

    def story(self, scene: Scene) -> str:
        try:
            group = scene.kafka.members(scene.name)
        except KafkaException as error:
            group = {"unknown": [str(error)]}
        return f"{scene.name}: {scene.count()} effects, group {group}; {self.host.story()}"

    def caught_up(self) -> None:
        for scene in self.scenes:
            scene.caught_up(WAIT_S * 2)
        until(lambda: set(self.orders.run_states()) <= RUN_ENDS, WAIT_S, lambda: f"{self.orders.run_states()}")


def _all_owned(scene: Scene) -> bool:
    with suppress(KafkaException):  # a coordinator may be on the move
        return sum(scene.owners()) == len(scene.kafka.end_offsets(scene.topic))
    return False


@dataclass
class Soak:
    """The run: its faults, and what each of them allows."""

    mix: Mix
    cluster: KafkaCluster
    server: PostgresServer
    dice: random.Random
    faults: list[Fault] = field(default_factory=list)
    log: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.survivor = self.mix.host.start(ready=False)
        """Frozen and bereft of its workers, but never killed: what it holds after all that is what leaks."""
        self.other = self.mix.host.start()
        self.survivor.wait_ready(WAIT_S)
        self.kinds: list[Callable[[], Allowance]] = [
            self.kill_instance,
            self.stop_instance,
            self.freeze_shortly,
            self.freeze_beyond_the_session,
            self.kill_workers,
            self.freeze_broker,
            self.kill_broker,
            self.members_come_and_go,
            self.restart_store,
            self.freeze_store,
            self.target_away,
        ]

    def say(self, text: str) -> None:
        self.log.append(text)
        sys.stdout.write(f"{time.monotonic() - self.mix.host.begun:7.1f} s  {text}\n")
        sys.stdout.flush()

    def one(self) -> None:
        kind = self.dice.choice(self.kinds)
        name = kind.__name__.replace("_", " ")
        self.say(name)
        began = time.monotonic()
        allowed = kind()
        self.mix.goes_on(20)
        time.sleep(self.dice.uniform(0.5, 3.0))
        # Its consequences end where the next fault begins; what comes later needs a fault of its own.
        self.faults.append(Fault(f"{name} ({len(self.faults) + 1})", began, time.monotonic(), allowed))

    def judge(self) -> list[str]:
        """Fail unless every pipeline kept its promises, fault by fault; returns a line about each."""
        told = []
        for way, scene in self.mix.acting.items():
            report = scene.verdict(faults=[replace(f, allowed=_allowed(f.allowed, way)) for f in self.faults])
            assert report.dead_letters == sum(record.seq % 51 == 7 for record in scene.feed.produced), scene.name
            told.append(f"{way}: {report.summary()}")
        runs = self.mix.orders.run_states()
        self.mix.table.assert_equal()
        told.append(f"table: {len(self.mix.table.feed.produced)} produced, each one row or one dead letter")
        self.mix.orders.assert_equal()
        told.append(f"work orders: {len(self.mix.orders.feed.produced)} produced, runs {runs}")
        assert set(runs) <= RUN_ENDS, runs
        return told

    # -- faults ----------------------------------------------------------------------------

    def kill_instance(self) -> Allowance:
        self.other.kill()
        self.other = self.mix.host.start()
        return Allowance.kill(WINDOW)

    def stop_instance(self) -> Allowance:
        assert self.other.stop() == 0, self.other.log[-2000:]
        self.other = self.mix.host.start()
        return NOTHING

    def _either(self) -> PenstockProcess:
        return self.dice.choice([self.survivor, self.other])

    def freeze_shortly(self) -> Allowance:
        self._frozen(self._either(), SESSION_S / 2)
        return Allowance.lost_session(WINDOW)  # on a busy machine it may be too long after all

    def freeze_beyond_the_session(self) -> Allowance:
        self._frozen(self._either(), SESSION_S * 2)
        return Allowance.lost_session(WINDOW)

    def _frozen(self, instance: PenstockProcess, seconds: float) -> None:
        instance.pause()
        time.sleep(seconds)
        instance.unpause()

    def kill_workers(self) -> Allowance:
        for worker in self._either().workers():
            worker.kill()
        return Allowance.kill(WINDOW)

    def freeze_broker(self) -> Allowance:
        broker = self.dice.choice(self.cluster.brokers)
        broker.pause()
        time.sleep(self.dice.choice([1.0, SESSION_S * 2]))
        broker.unpause()
        return Allowance.lost_session(WINDOW)

    def kill_broker(self) -> Allowance:
        broker = self.dice.choice(self.cluster.brokers)
        broker.kill()
        time.sleep(self.dice.uniform(0.5, 6.0))
        broker.start()
        return Allowance.lost_session(WINDOW)

    def members_come_and_go(self) -> Allowance:
        scene = self.dice.choice(self.mix.scenes)
        for _ in range(3):
            member = OtherMember(self.cluster, scene.name, scene.topic, session_s=SESSION_S)
            time.sleep(1.5)
            member.leave()
        return NOTHING

    def restart_store(self) -> Allowance:
        """The database of the table, too."""
        self.server.stop()
        time.sleep(self.dice.uniform(1.0, 5.0))
        self.server.start()
        return NOTHING

    def freeze_store(self) -> Allowance:
        with frozen(self.server.pid):
            time.sleep(self.dice.uniform(1.0, 5.0))
        return NOTHING

    def target_away(self) -> Allowance:
        away = [scene.folder / "away" for scene in self.mix.acting.values()]
        for file in away:
            file.touch()
        time.sleep(self.dice.uniform(0.5, 4.0))
        for file in away:
            file.unlink()
        return NOTHING


def _allowed(allowed: Allowance, way: str) -> Allowance:
    """What a fault allows in this way of acting: more acts may be in flight, and what a process that dies, or loses its
    session, has deferred comes again. A fault that allows no repeats allows none of these either."""
    if not allowed.repeats:
        return allowed
    if way == "deferred":
        return Allowance(allowed.repeats + DEFERRED, allowed.rewinds + MOVES)
    more = ACTING[way] - 1
    return Allowance(allowed.repeats + more, allowed.rewinds + more)


def run(minutes: float, seed: int, rate: float) -> dict[str, Any]:
    """The soak from start to verdict; raises AssertionError on a breach."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-soak-"))
    with ExitStack() as stack:
        cluster = stack.enter_context(KafkaCluster(3))
        server = stack.enter_context(PostgresServer())
        mix = Mix(cluster, server, folder, rate)
        for scene in mix.scenes:
            stack.enter_context(scene)
        soak = Soak(mix, cluster, server, random.Random(seed))
        vitals = Vitals(soak.survivor.pid).start()
        end = time.monotonic() + minutes * 60
        with ExitStack() as feeding:
            for scene in mix.scenes:
                feeding.enter_context(scene.feed)
            mix.goes_on(20)
            while time.monotonic() < end:
                soak.one()
        mix.caught_up()
        vitals.end()
        mix.host.stop_all_living()
        for scene in mix.scenes:
            scene.commits.finish()
        outcome = soak.judge()
    for line in outcome:
        soak.say(line)
    shutil.rmtree(folder)  # kept where the run failed
    return {
        "seed": seed,
        "minutes": minutes,
        "faults": [fault.name for fault in soak.faults],
        "outcome": outcome,
        "vitals": {
            measure: dict(zip(("before", "after"), vitals.thirds(measure), strict=True)) for measure in MEASURES
        },
        "growing": vitals.growing(),
    }


def write(outcome: dict[str, Any], folder: Path = RESULTS) -> Path:
    now = dt.datetime.now(dt.UTC)
    content = {"date": f"{now:%Y-%m-%d %H:%M} UTC", "machine": facts()} | outcome
    stem = folder / f"soak-{now:%Y-%m-%d-%H%M}"
    stem.with_suffix(".json").write_text(json.dumps(content, indent=1) + "\n")
    rows = [f"| {name} | {v['before']:g} | {v['after']:g} |" for name, v in outcome["vitals"].items()]
    page = stem.with_suffix(".md")
    page.write_text(
        "\n".join(
            [
                f"# Soak, {content['date']}",
                "",
                f"{outcome['minutes']:g} minutes, seed {outcome['seed']}, {len(outcome['faults'])} faults.",
                "",
                *(f"- {line}" for line in outcome["outcome"]),
                "",
                "| an instance that lived through it | second third | last third |",
                "| --- | --- | --- |",
                *rows,
                "",
            ]
        )
    )
    return page


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    parser.add_argument("--rate", type=float, default=40.0, help="events per second and pipeline")
    parser.add_argument("--dry", action="store_true", help="keep no results")
    given = parser.parse_args()
    sys.stdout.write(f"soak of {given.minutes:g} minutes, seed {given.seed}\n")
    try:
        outcome = run(given.minutes, given.seed, given.rate)
    except AssertionError as error:
        sys.stdout.write(f"FAILED (seed {given.seed})\n{error}\n")
        return 1
    finally:
        CHILDREN.close()
    if not given.dry:
        sys.stdout.write(f"kept in {write(outcome)}\n")
    if outcome["growing"]:
        sys.stdout.write(f"FAILED (seed {given.seed}): {', '.join(outcome['growing'])}\n")
        return 1
    sys.stdout.write("nothing lost, nothing grew\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
