"""A pipeline without a group: every instance reads every partition from the start policy on; nothing is committed."""

from __future__ import annotations

import time

from penstock.engine.pipelines.group import GroupMembership
from penstock.engine.pipelines.partitions import PartitionState
from penstock.engine.pipelines.positions import Position, Remembered
from penstock.pipeline.messages import Partition
from penstock.store import MirrorRow

_LOOK_EVERY = 6.0
"""Seconds between looks for new partitions."""


class StatelessMembership(GroupMembership):
    """Takes the place of a group member."""

    commits = False

    def join(self) -> None:
        self._take_new_partitions()

    def poll(self, timeout: float) -> None:
        if timeout:
            time.sleep(min(timeout, 0.2))
        if time.monotonic() >= self._looked_at + _LOOK_EVERY:
            self._take_new_partitions()

    def _take_new_partitions(self) -> None:
        counts = self._cluster.topics(timeout=10.0)
        names = self.spec.source.config.subscribed(counts)
        known = set(self.owned) | self._fresh | set(self._blocked)
        new = [(name, p) for name in names for p in range(counts[name]) if (name, p) not in known]
        if new:
            self.assigned(new)
        self._looked_at = time.monotonic()

    def leave(self) -> None:
        self.lost(list(self.owned) + list(self._fresh))

    def commit(self, parts: list[PartitionState]) -> None:
        """Nothing to commit."""

    def _committed(self, partitions: list[Partition]) -> dict[Partition, Remembered]:  # noqa: ARG002 - inherited
        return {}

    def _mirrored(self) -> dict[Partition, Remembered]:
        return {}

    def _start(self, *_: object) -> int | str:
        # Partitions that appear while it runs are read from their beginning.
        return "earliest" if self.settled else self.spec.source.config.start_position

    def _commit_new(self, found: dict[Partition, Position]) -> None:
        """Nothing to commit."""

    def mirror_rows(self) -> list[MirrorRow]:
        return []
