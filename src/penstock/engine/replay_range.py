"""Replaying ranges of the log: failures become dead letters, as in any run; the group's position is not touched."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence

from penstock.config.spec import PipelineSpec
from penstock.core.dead_letter import Stage
from penstock.engine import autopsy
from penstock.engine.replay_work import Work
from penstock.engine.settling import dead_letters
from penstock.engine.stretch import Stretch
from penstock.kafka.client import KafkaClientConfig
from penstock.store import Store
from penstock.worker.protocol import FailedEvent, Partition

_PIECES_PER_LANE = 4
_LEAST_PIECE = 10_000
"""Offsets: smaller pieces cost more in windows than they gain by being spread."""


class RangeWork(Work):
    """Ranges of one pipeline's topics. Lanes share it."""

    def __init__(
        self,
        store: Store,
        spec: PipelineSpec,
        ranges: Mapping[Partition, tuple[int, int]],
        *,
        topic_ids: Mapping[str, str],
        lanes: int,
    ) -> None:
        self._store, self._spec, self._topic_ids, self._lanes = store, spec, topic_ids, lanes
        self._lock = threading.Lock()
        self._waiting = [
            Stretch(topic, partition, 0, topic_ids.get(topic, ""), first, end=end)
            for (topic, partition), whole in ranges.items()
            for first, end in self._pieces(*whole, ranges)
        ]

    def _pieces(self, first: int, end: int, ranges: Mapping[Partition, tuple[int, int]]) -> Sequence[tuple[int, int]]:
        """The range itself, or its parts where no order has to be kept between them."""
        if self._spec.ordering != "none" or self._lanes == 1:
            return [(first, end)]
        total = sum(last - start for start, last in ranges.values())
        size = max(_LEAST_PIECE, -(-total // (self._lanes * _PIECES_PER_LANE)))
        return [(at, min(at + size, end)) for at in range(first, end, size)]

    def take(self) -> list[Stretch] | None:
        with self._lock:
            if not self._waiting:
                return None
            share = -(-len(self._waiting) // self._lanes)
            taken: dict[Partition, Stretch] = {}
            for stretch in self._waiting:
                if len(taken) < share and stretch.key not in taken:
                    taken[stretch.key] = stretch
            chosen = list(taken.values())
            self._waiting = [stretch for stretch in self._waiting if stretch not in chosen]
            return chosen

    def settle(
        self,
        done: list[tuple[Stretch, set[int]]],  # noqa: ARG002 - ranges have no marks
        failures: list[tuple[Stretch, FailedEvent]],
    ) -> None:
        if failures:
            self._store.dead_letters.record(
                dead_letters(self._spec, [failed for _, failed in failures], self._topic_ids)
            )

    def give_back(self, stretches: Iterable[Stretch]) -> None:
        """Ranges are held by nobody else."""

    def failure_of(self, stretch: Stretch, offset: int, stage: Stage, reason: str) -> FailedEvent | None:
        client = KafkaClientConfig.of(self._spec.source.config.connection)
        failed = autopsy.failure_of(client, self._spec.group, stretch.key, offset, stage=stage, reason=reason)
        return failed if failed is not None and failed.record.offset() < stretch.end else None
