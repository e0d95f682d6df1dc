"""Settling: failures of a unit become durable dead letters before anything is committed."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence

from penstock.config.spec import PipelineSpec
from penstock.core.dead_letter import DeadLetter
from penstock.engine.pipelines.dead_letter_sinks import sinks_of
from penstock.pipeline.messages import Blueprint, FailedEvent, Partition
from penstock.store import Store

TopicId = Callable[[Partition], str]
"""The id of the topic that a partition's records were read from."""


class DeadLetterWriter:
    """Writes the dead letters of one pipeline."""

    def __init__(self, blueprint: Blueprint, store: Store) -> None:
        self._spec = blueprint.spec
        self._store = store
        self._sinks = sinks_of(blueprint.spec, blueprint.client, blueprint.folder)
        self._confirmed: list[set[Hashable]] = [set() for _ in self._sinks]
        """Failures that each sink has confirmed while the rest of the settling had to wait."""

    def settle(self, failures: Sequence[FailedEvent], topic_id: TopicId, by: str | None = None) -> None:
        """I1: when this returns, the failures are dead letters in the store and in every other sink.

        Raises `Unavailable` where one of them cannot be written now; the whole may be settled again.
        """
        letters = dead_letters(self._spec, failures, topic_id)
        pairs = list(zip(failures, letters, strict=True))
        for sink, confirmed in zip(self._sinks, self._confirmed, strict=True):
            if waiting := [pair for pair in pairs if _once(pair[1]) not in confirmed]:
                sink.write(waiting)
                confirmed.update(_once(letter) for _, letter in waiting)
        self._store.dead_letters.record(letters, by)
        for confirmed in self._confirmed:
            # L7: nothing waits any more; failures of partitions that were lost meanwhile go as well.
            confirmed.clear()

    def close(self) -> None:
        """End the sinks' clients and files."""
        for sink in self._sinks:
            sink.close()


def dead_letters(spec: PipelineSpec, failures: Iterable[FailedEvent], topic_id: TopicId) -> list[DeadLetter]:
    """I3: the record as it was, with its failure beside it."""
    name, version, group = spec.name, spec.version, spec.group  # the version is computed each time it is asked for
    return [
        DeadLetter(
            pipeline=name,
            spec_version=version,
            group=group,
            topic=failed.record.topic(),
            topic_id=topic_id((failed.record.topic(), failed.record.partition())),
            partition=failed.record.partition(),
            offset=failed.record.offset(),
            key=failed.record.key(),
            value=failed.record.value(),
            headers=failed.record.headers() or [],
            timestamp=failed.record.timestamp()[1],
            timestamp_type=failed.record.timestamp()[0],
            failure=failed.failure,
        )
        for failed in failures
    ]


def _once(letter: DeadLetter) -> Hashable:
    """The same for two attempts at settling one failure, and for nothing else."""
    return letter.topic, letter.topic_id, letter.partition, letter.offset, letter.failure.last_failed_at
