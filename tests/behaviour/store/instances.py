"""How instances, and the partitions they own, come and go."""

from __future__ import annotations

from dataclasses import replace

import sqlalchemy as sa

from penstock.store import InstanceRow, OwnedPartition, Store
from penstock.store.tables import instances


def instance(name: str, *, started_at: int = 1) -> InstanceRow:
    return InstanceRow(id=name, host="h", pid=7, version="0.1", started_at=started_at, http_address="127.0.0.1:8642")


def _silence(store: Store, name: str, seconds: int) -> None:
    aged = {"heartbeat_at": instances.c.heartbeat_at - seconds * 1000}
    with store._database.write() as connection:
        connection.execute(sa.update(instances).where(instances.c.id == name).values(aged))


class InstancesBehaviour:
    def test_an_instance_is_alive_while_it_is_heard_of(self, store: Store) -> None:
        store.instances.heartbeat(instance("two", started_at=2))
        store.instances.heartbeat(instance("one"))
        store.instances.heartbeat(instance("one"))
        alive = [replace(row, heartbeat_at=0) for row in store.instances.alive(within_seconds=30)]
        assert alive == [instance("one"), instance("two", started_at=2)]
        _silence(store, "one", 60)
        assert [row.id for row in store.instances.alive(within_seconds=30)] == ["two"]

    def test_a_silent_instance_expires_with_all_it_said(self, store: Store) -> None:
        for name in ("one", "two"):
            store.instances.heartbeat(instance(name))
            store.pipelines.put_state("orders", name, "running")
            store.partitions.put("orders", name, [("t", 0, 1, 2)])
        _silence(store, "one", 60)
        assert store.instances.expire(older_than=30) == ["one"]
        assert store.instances.expire(older_than=30) == []
        assert [row.id for row in store.instances.alive(within_seconds=3600)] == ["two"]
        assert [row.instance for row in store.pipelines.states()] == ["two"]
        assert [row.instance for row in store.partitions.all()] == ["two"]

    def test_a_stopped_instance_is_removed_with_all_it_said(self, store: Store) -> None:
        store.instances.heartbeat(instance("one"))
        store.pipelines.put_state("orders", "one", "running")
        store.partitions.put("orders", "one", [OwnedPartition("t", 0, None, None)])
        store.instances.remove("one")
        store.instances.remove("never seen")
        assert (store.instances.alive(3600), store.pipelines.states(), store.partitions.all()) == ([], [], [])


class PartitionsBehaviour:
    def test_partitions_are_those_owned_now(self, store: Store) -> None:
        store.partitions.put("orders", "one", [("t", 0, 5, 9), ("t", 1, None, None)])
        store.partitions.put("other", "one", [("u", 0, 1, 1)])
        store.partitions.put("orders", "one", [("t", 1, 3, 4)])
        assert [(p.pipeline, p.topic, p.partition, p.committed, p.end) for p in store.partitions.all()] == [
            ("orders", "t", 1, 3, 4),
            ("other", "u", 0, 1, 1),
        ]
        assert [p.pipeline for p in store.partitions.all("other")] == ["other"]

    def test_many_pipelines_in_one_call(self, store: Store) -> None:
        store.partitions.put_all("one", {"a": [("t", 0, 1, 1)], "b": [("t", 0, 2, 2)]})
        store.partitions.put_all("one", {"a": [], "b": [("t", 0, 3, 3)]})
        store.partitions.put_all("one", {})
        assert [(p.pipeline, p.committed) for p in store.partitions.all()] == [("b", 3)]

    def test_every_instance_may_own_a_partition_of_a_stateless_pipeline(self, store: Store) -> None:
        for name in ("one", "two"):
            store.partitions.put("orders", name, [("t", 0, 5, 9)])
        assert {p.instance for p in store.partitions.all()} == {"one", "two"}
