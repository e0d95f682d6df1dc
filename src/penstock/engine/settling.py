"""Settling: failures of a unit become durable dead letters before anything is committed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.config.spec import PipelineSpec
from penstock.core.dead_letter import DeadLetter
from penstock.worker.protocol import FailedEvent


def dead_letters(spec: PipelineSpec, failures: Iterable[FailedEvent], topic_ids: Mapping[str, str]) -> list[DeadLetter]:
    """I3: the record as it was, with its failure beside it."""
    return [
        DeadLetter(
            pipeline=spec.name,
            spec_version=spec.version,
            group=spec.group,
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
