"""Settling: failures of a unit become durable dead letters before anything is committed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from penstock.config.spec import PipelineSpec
from penstock.core.dead_letter import DeadLetter
from penstock.engine.pipelines.dead_letter_sinks import sinks_of
from penstock.pipeline.messages import Blueprint, FailedEvent
from penstock.store import Store


class DeadLetterWriter:
    """One pipeline's way of making failures durable."""

    def __init__(self, blueprint: Blueprint, store: Store) -> None:
        self._spec = blueprint.spec
        self._store = store
        self._sinks = sinks_of(blueprint.spec, blueprint.client, blueprint.folder)

    def settle(self, failures: Sequence[FailedEvent], topic_ids: Mapping[str, str], by: str | None = None) -> None:
        """I1: when this returns, the failures are dead letters in the store and in every other home.

        `Unavailable` where one of them is away; the whole may be settled again.
        """
        letters = dead_letters(self._spec, failures, topic_ids)
        self._store.dead_letters.record(letters, by)
        for sink in self._sinks:
            sink.write(list(zip(failures, letters, strict=True)))

    def close(self) -> None:
        for sink in self._sinks:
            sink.close()


def dead_letters(spec: PipelineSpec, failures: Iterable[FailedEvent], topic_ids: Mapping[str, str]) -> list[DeadLetter]:
    """I3: the record as it was, with its failure beside it."""
    name, version, group = spec.name, spec.version, spec.group  # the version is worked out each time it is asked for
    return [
        DeadLetter(
            pipeline=name,
            spec_version=version,
            group=group,
            topic=failed.record.topic(),
            topic_id=topic_ids.get(failed.record.topic(), ""),
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
