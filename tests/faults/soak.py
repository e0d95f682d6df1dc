"""A bounded soak: two instances on three brokers under faults at random, from a printed seed.

Ends with nothing lost, repeated only what the faults allow, and flat memory, threads and file descriptors of an
instance that lived through all of it. `python -m tests.faults.soak --minutes 10 --seed 7`.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import random
import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.machine import facts

from tests.faults.checker import NOTHING, Allowance
from tests.faults.outcome import RESULTS
from tests.faults.scene import SESSION_S, WAIT_S, WINDOW, Scene
from tests.faults.vitals import MEASURES, Vitals
from tests.support.children import CHILDREN
from tests.support.group import OtherMember
from tests.support.instance import PenstockProcess
from tests.support.kafka import KafkaCluster
from tests.support.waiting import until


def value(seq: int) -> bytes:
    """One in fifty fails for good, spread over all partitions; one in three hundred fails at its first attempt."""
    return json.dumps({"seq": seq, "do": "raise" if seq % 51 == 7 else None, "fails": int(seq % 331 == 23)}).encode()


@dataclass
class Soak:
    """The run: its faults, and what each of them allows."""

    scene: Scene
    cluster: KafkaCluster
    dice: random.Random
    allowed: Allowance = NOTHING
    log: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.survivor = self.scene.start(ready=False)
        """Frozen and bereft of its workers, but never killed: what it holds after all that is what leaks."""
        self.other = self.scene.start()
        self.survivor.wait_ready(WAIT_S)
        self.faults: list[Callable[[], Allowance]] = [
            self.kill_instance,
            self.stop_instance,
            self.freeze_shortly,
            self.freeze_beyond_the_session,
            self.kill_workers,
            self.freeze_broker,
            self.kill_broker,
            self.members_come_and_go,
            self.lock_store,
            self.target_away,
        ]

    def say(self, text: str) -> None:
        self.log.append(text)
        sys.stdout.write(f"{time.monotonic() - self.scene.begun:7.1f} s  {text}\n")
        sys.stdout.flush()

    def one(self) -> None:
        fault = self.dice.choice(self.faults)
        self.say(fault.__name__.replace("_", " "))
        self.allowed += fault()
        self.scene.more(50)
        time.sleep(self.dice.uniform(0.5, 5.0))

    # -- faults ----------------------------------------------------------------------------

    def kill_instance(self) -> Allowance:
        self.other.kill()
        self.other = self.scene.start()
        return Allowance.kill(WINDOW)

    def stop_instance(self) -> Allowance:
        assert self.other.stop() == 0, self.other.log[-2000:]
        self.other = self.scene.start()
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
        for _ in range(3):
            member = OtherMember(self.cluster, self.scene.name, self.scene.topic, session_s=SESSION_S)
            time.sleep(1.5)
            member.leave()
        return NOTHING

    def lock_store(self) -> Allowance:
        store = sqlite3.connect(self.scene.folder / "home" / "penstock.db", isolation_level=None, timeout=30)
        store.execute("BEGIN IMMEDIATE")
        time.sleep(self.dice.uniform(1.0, 5.0))
        store.execute("ROLLBACK")
        store.close()
        return NOTHING

    def target_away(self) -> Allowance:
        away = self.scene.folder / "away"
        away.touch()
        time.sleep(self.dice.uniform(0.5, 4.0))
        away.unlink()
        return NOTHING


def run(minutes: float, seed: int, rate: float) -> dict[str, Any]:
    """The soak from start to verdict; raises AssertionError on a breach."""
    dice = random.Random(seed)
    options = {"retry": {"attempts": 3, "backoff": "50ms"}}
    folder = Path(tempfile.mkdtemp(prefix="penstock-soak-"))
    with (
        KafkaCluster(3) as cluster,
        Scene(cluster, folder, "soak", replication=3, values=value, rate=rate, options=options) as scene,
    ):
        soak = Soak(scene, cluster, dice)
        vitals = Vitals(soak.survivor.pid).start()
        end = time.monotonic() + minutes * 60
        with scene.feed:
            scene.more(100)
            while time.monotonic() < end:
                soak.one()
        scene.caught_up(WAIT_S * 2)
        vitals.end()
        until(lambda: sum(scene.owners()) == 4, WAIT_S, scene.story)
        scene.stop_all_living()
    report = scene.verdict(soak.allowed)
    soak.say(report.summary())
    shutil.rmtree(folder)  # kept where the run failed
    return {
        "seed": seed,
        "minutes": minutes,
        "faults": soak.log,
        "outcome": report.summary(),
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
                f"{outcome['minutes']:g} minutes, seed {outcome['seed']}, {len(outcome['faults']) - 1} faults.",
                "",
                f"{outcome['outcome']}.",
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
    parser.add_argument("--rate", type=float, default=200.0, help="events per second")
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
