"""Two instances, thirty triggers, and people who save, disable, enable and delete them at random."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import orjson
import pytest

from penstock.config.loading import load
from penstock.config.settings import Settings
from penstock.service.resuming import enable
from penstock.service.secrets import SecretBox
from penstock.service.triggers import trigger_spec
from penstock.service.workflows import apply_workflow, delete_workflow
from penstock.store import Store
from penstock.store.work.history_model import WorkOrderFilter
from penstock.store.work.model import TriggerRow
from tests.faults.outcome import Row
from tests.support.instance import PenstockProcess
from tests.support.kafka import KafkaBroker
from tests.support.postgres import PostgresServer
from tests.support.waiting import until

pytestmark = [pytest.mark.faults, pytest.mark.kafka, pytest.mark.spark, pytest.mark.postgres]

TRIGGERS = 30
SECONDS = 120.0
SETTLED_S = 180.0
SEED = 20261116


class Lab:
    """Workflows of one trigger each, in a store that two instances share."""

    def __init__(self, store: Store, kafka: KafkaBroker, folder: Path, topics: list[str]) -> None:
        self.store, self.kafka, self.folder, self.topics = store, kafka, folder, topics
        self.box = SecretBox(store, folder, {})
        self.settings = Settings.load({"PENSTOCK_HOME": str(folder)}, folder)

    def save(self, number: int, rate: int) -> None:
        kafka = {"hosts": [self.kafka.bootstrap], "topics": [self.topics[number]]}
        trigger = {"name": f"t{number}", **kafka, "initial_offset_reset_policy": "earliest", "rate": f"{rate}/s"}
        document = {
            "kind": "workflow",
            "project": "lab",
            "name": f"w{number}",
            "triggers": [trigger],
            "steps": [{"name": "keep", "command": ["true"]}],
        }
        file = self.folder / f"w{number}.yaml"
        file.write_bytes(orjson.dumps(document))
        apply_workflow(self.store, self.box, load([file]).workflows[0])

    def there(self) -> dict[int, TriggerRow]:
        """Triggers that are not deleted, by number."""
        return {int(row.name.removeprefix("t")): row for row in self.store.triggers.list()}

    def step(self, chance: random.Random) -> None:
        number = chance.randrange(TRIGGERS)
        row = self.there().get(number)
        if row is None or chance.random() < 0.4:
            self.save(number, chance.choice([500, 1_000]))
        elif chance.random() < 0.3:
            delete_workflow(self.store, f"lab/w{number}")
        elif row.enabled:
            self.store.triggers.set_enabled(row.id, False)
        else:
            enable(self.store, trigger_spec(self.store, self.settings, row), row)

    def group_of(self, row: TriggerRow) -> str:
        return str(row.kafka_configuration["group_id"])

    def orders(self, row: TriggerRow) -> int:
        return self.store.history.count(WorkOrderFilter(trigger_id=row.id)).number


@pytest.fixture
def lab(tmp_path: Path, kafka: KafkaBroker) -> Iterator[Lab]:
    topics = [kafka.create_topic(f"churn-{number}", 2) for number in range(TRIGGERS)]
    with ExitStack() as stack:
        url = stack.enter_context(PostgresServer()).create_database()
        store = stack.enter_context(Store.open(url))
        env = {"PENSTOCK_STORE_URL": url}
        for name in ("a", "b"):
            instance = stack.enter_context(PenstockProcess(["run"], folder=tmp_path / name, env=env))
            instance.wait_log("ready: no pipeline yet", 180.0)
        yield Lab(store, kafka, tmp_path, topics)


def test_exactly_the_enabled_triggers_run_whatever_people_do(lab: Lab, row: Row) -> None:
    chance = random.Random(SEED)
    for number in range(TRIGGERS):
        lab.save(number, 500)
    end, steps, groups = time.monotonic() + SECONDS, 0, set[str]()
    while time.monotonic() < end:
        groups |= {lab.group_of(each) for each in lab.there().values()}
        lab.step(chance)
        steps += 1
    there = lab.there()
    enabled = {number: each for number, each in there.items() if each.enabled}
    wanted = {lab.group_of(each) for each in enabled.values()}
    groups |= {lab.group_of(each) for each in there.values()}

    def running() -> set[str]:
        return {group for group in groups if lab.kafka.members(group)}

    until(lambda: running() == wanted, SETTLED_S, lambda: f"more: {running() - wanted}, fewer: {wanted - running()}")
    before = {number: lab.orders(each) for number, each in there.items()}
    for topic in lab.topics:
        lab.kafka.produce(topic, [b'{"n": 1}', b'{"n": 2}'])
    after = {number: count + (2 if number in enabled else 0) for number, count in before.items()}

    def found() -> dict[int, int]:
        return {number: lab.orders(each) for number, each in there.items()}

    until(lambda: found() == after, SETTLED_S, lambda: f"{found()} instead of {after}")
    row.verdict, row.produced = "kept", 2 * len(lab.topics)
    row.fault += f" ({steps} changes, {len(enabled)} of {len(there)} enabled at the end)"
