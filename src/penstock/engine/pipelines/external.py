"""A pipeline whose events come from a source of the user's own: one partition that is not Kafka's, numbered here, and
acknowledged by the worker that holds the source."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Sequence
from typing import Final

from penstock.config.spec import PipelineSpec
from penstock.core.clock import SYSTEM
from penstock.core.status import PartitionStatus
from penstock.engine.pipelines.group import GroupMembership, Neighbours, Owner, new_epoch
from penstock.engine.pipelines.partitions import PartitionState
from penstock.kafka.admin import ClusterView, Watermarks
from penstock.kafka.client import KafkaClientConfig
from penstock.pipeline.messages import Assignment, Partition
from penstock.store import MirrorRow

_PER_MILLISECOND: Final = 1_000
"""Numbers begin at the time of the start: so many events per millisecond, and those of different starts never meet."""
_POLL: Final = 0.2


class ExternalMembership(GroupMembership):
    """Takes the place of a group member; every instance has a source of its own."""

    commits = False
    has_log = False

    def __init__(self, spec: PipelineSpec, client: KafkaClientConfig, around: Neighbours, owner: Owner) -> None:
        super().__init__(spec, client, around, owner)
        self._left: list[Assignment] = []
        """Where everything stood when it was left."""

    def join(self) -> None:
        key = (self.spec.source.type, 0)
        self.topic_ids = {key[0]: uuid.uuid4().hex}
        self._fresh.add(key)
        self.total = 1

    def resolve(self) -> bool:
        if not self._fresh:
            return False
        with self._owner.lock:
            for topic, partition in self._fresh:
                first = SYSTEM.now_ms() * _PER_MILLISECOND
                own = PartitionState(topic, partition, new_epoch(), self.topic_ids[topic], first)
                self.owned[own.key] = own
            self._fresh = set()
        self.settled = True
        return True

    def poll(self, timeout: float) -> None:
        if timeout:
            time.sleep(min(timeout, _POLL))

    def leave(self) -> None:
        with self._owner.lock:
            self._left = [own.assignment() for own in self.owned.values()]
        self.lost(list(self.owned) + list(self._fresh))

    def last_positions(self) -> list[Assignment]:
        """How far everything is settled, for the worker to acknowledge it before it lets go of the source."""
        with self._owner.lock:
            return [own.assignment() for own in self.owned.values()] or self._left

    def begin_anew(self) -> None:
        with self._owner.lock:
            for own in self.owned.values():
                own.begin_anew()

    def commit(self, parts: list[PartitionState]) -> None:
        """The worker acknowledges."""

    def lag(self) -> int:
        return 0

    def trouble(self) -> str | None:
        return None

    def remark(self) -> str | None:
        return None

    def partitions(self, instance: str) -> list[PartitionStatus]:  # noqa: ARG002 - the contract's signature
        return []

    def mirror_rows(self) -> list[MirrorRow]:
        return []


class NullCluster(ClusterView):
    """The cluster of a pipeline that has none."""

    def __init__(self) -> None:
        """Nothing is connected to."""

    def topics(self, timeout: float | None = None) -> dict[str, int]:  # noqa: ARG002 - the contract's signature
        return {}

    def topic_ids(self, names: Iterable[str]) -> dict[str, str]:  # noqa: ARG002 - as above
        return {}

    def watermarks(
        self,
        places: Sequence[Partition],  # noqa: ARG002 - as above
        *,
        committed_only: bool = True,  # noqa: ARG002 - as above
    ) -> dict[Partition, tuple[int, int]]:
        return {}

    def find_watermarks(
        self,
        places: Sequence[Partition],  # noqa: ARG002 - as above
        *,
        committed_only: bool = True,  # noqa: ARG002 - as above
    ) -> Watermarks:
        return Watermarks()

    def close(self) -> None:
        """Nothing is open."""
