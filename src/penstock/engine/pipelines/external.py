"""A pipeline whose events come from a source of the user's own: one partition that is not Kafka's, numbered here, and
acknowledged by the worker that holds the source."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from typing import Final

from penstock.engine.pipelines.group import Membership, new_epoch
from penstock.engine.pipelines.partitions import PartitionState
from penstock.kafka.admin import ClusterView, Watermarks
from penstock.pipeline.messages import Assignment, Partition

_PER_MILLISECOND: Final = 1_000
"""Numbers begin at the time of the start, this many per millisecond: those of different starts never meet."""
_POLL: Final = 0.2


class ExternalMembership(Membership):
    """Every instance has a source of its own."""

    commits = False
    has_log = False
    _left: Sequence[Assignment] = ()
    """Where everything stood when it was left."""

    def join(self) -> None:
        self._unlocated.add((self.spec.source.type, 0))
        self._partitions.total = 1

    def resolve(self) -> bool:
        if not self._unlocated:
            return False
        for topic, partition in self._unlocated:
            first = self._clock.now_ms() * _PER_MILLISECOND
            state = PartitionState(topic, partition, new_epoch(), uuid.uuid4().hex, first, clock=self._clock)
            state.committed_as(None, state.progress)
            self._partitions.add(state)
        self._unlocated = set()
        self.settled = True
        return True

    def poll(self, timeout: float) -> bool:
        if timeout:
            self._clock.sleep(min(timeout, _POLL))
        return True

    def leave(self) -> None:
        with self._partitions.lock:
            self._left = [state.assignment() for state in self._partitions]
        super().leave()

    def last_positions(self) -> list[Assignment]:
        """How far everything is settled, for the worker to acknowledge it before it closes the source."""
        with self._partitions.lock:
            return [state.assignment() for state in self._partitions] or list(self._left)

    def start_over(self) -> None:
        with self._partitions.lock:
            for state in self._partitions:
                state.start_over()
                state.committed_as(None, state.progress)

    def commit(self, states: Iterable[PartitionState]) -> None:
        """The worker acknowledges: what is settled counts as committed."""
        with self._partitions.lock:
            for state in states:
                state.committed_as(None, state.progress)


class NullCluster(ClusterView):
    """The cluster of a pipeline that has none."""

    def __init__(self) -> None:
        """Nothing is connected to."""

    def close(self) -> None:
        """Nothing to close."""

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
