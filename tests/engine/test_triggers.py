"""Triggers in a running instance: what is saved takes effect at once, and nothing is taken in twice."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.config.loading import load
from penstock.config.settings import Settings
from penstock.service.resuming import OffsetsGone, enable
from penstock.service.secrets import SecretBox
from penstock.service.triggers import find_trigger, trigger_spec
from penstock.service.workflows import Applied, apply_workflow, delete_workflow
from penstock.store import Store
from penstock.store.work.history_model import WorkOrderFilter
from tests.support.instance import PenstockProcess
from tests.support.kafka import KafkaBroker
from tests.support.waiting import until

WORKFLOW = """\
kind: workflow
project: lab
name: results
triggers:
  - {{name: k, hosts: ["{bootstrap}"], topics: [{topic}], initial_offset_reset_policy: earliest}}
steps:
  - {{name: keep, command: ["true"]}}
"""
OBEYED_WITHIN = 10.0
"""Two seconds on a quiet machine; what is shown here is that nobody has to restart anything."""
JOINED_WITHIN = 120.0


class Scene:
    """A running instance, its store, and a workflow in it."""

    def __init__(self, instance: PenstockProcess, store: Store, kafka: KafkaBroker) -> None:
        self.instance, self.store, self.kafka = instance, store, kafka
        self.box = SecretBox(store, instance.home, {})
        self.settings = Settings.load({"PENSTOCK_HOME": str(instance.home)}, instance.folder)

    def save(self, topic: str) -> Applied:
        file = self.instance.folder / "results.yaml"
        file.write_text(WORKFLOW.format(bootstrap=self.kafka.bootstrap, topic=topic))
        return apply_workflow(self.store, self.box, load([file]).workflows[0])

    @property
    def group(self) -> str:
        return str(find_trigger(self.store, "k").kafka_configuration["group_id"])

    def orders(self) -> int:
        return self.store.history.count(WorkOrderFilter()).number

    def await_orders(self, number: int) -> None:
        until(
            lambda: self.orders() >= number,
            JOINED_WITHIN,
            lambda: f"{self.orders()} of {number} work orders; {self._story()}",
        )
        assert self.orders() == number

    def _story(self) -> str:
        states = [f"{row.pipeline} is {row.state}: {row.reason}" for row in self.store.pipelines.states()]
        return f"{'; '.join(states)}\n{self.instance.log[-4000:]}"

    def await_left(self, group: str) -> float:
        """Seconds until nobody is in the group."""
        began = time.monotonic()
        until(lambda: not self.kafka.members(group), JOINED_WITHIN, "the group is empty")
        return time.monotonic() - began


@pytest.fixture
def scene(tmp_path: Path, kafka: KafkaBroker) -> Iterator[Scene]:
    with PenstockProcess(["run"], folder=tmp_path) as instance:
        instance.wait_log("ready: no pipeline yet", 180.0)
        with Store.open(f"sqlite:///{instance.home / 'penstock.db'}") as store:
            yield Scene(instance, store, kafka)
        assert instance.stop() == 0


@pytest.mark.spark
def test_a_trigger_is_saved_disabled_enabled_changed_and_deleted_while_an_instance_runs(
    scene: Scene, kafka: KafkaBroker, topic: Callable[..., str]
) -> None:
    one, other = topic(partitions=2), topic(partitions=1)
    kafka.produce(one, [b'{"n": 1}', b'{"n": 2}', b'{"n": 3}'])

    scene.save(one)
    scene.await_orders(3)
    trigger, group = find_trigger(scene.store, "k"), scene.group
    until(lambda: kafka.lag(group, one) == 0, JOINED_WITHIN, "all is committed")

    scene.store.triggers.set_enabled(trigger.id, False)
    left = scene.await_left(group)
    kafka.produce(one, [b'{"n": 4}', b'{"n": 5}'])

    # The broker forgets the group, as it does with one that is away for long.
    kafka.delete_group(group)
    spec = trigger_spec(scene.store, scene.settings, trigger)
    with pytest.raises(OffsetsGone) as gone:
        enable(scene.store, spec, trigger)
    assert "committed: goes on where the store remembers, 2 messages before the end" in str(gone.value.allowed)
    enable(scene.store, spec, trigger, "committed")
    scene.await_orders(5)

    # Back to the beginning: what is there already is not taken in again.
    scene.store.triggers.set_enabled(trigger.id, False)
    scene.await_left(group)
    enable(scene.store, spec, trigger, "earliest")
    kafka.produce(one, [b'{"n": 6}'])
    scene.await_orders(6)

    kafka.produce(other, [b'{"n": 7}'])
    scene.save(other)
    scene.await_orders(7)
    assert scene.group == group

    delete_workflow(scene.store, "lab/results")
    scene.await_left(group)
    assert left < OBEYED_WITHIN
