"""Steps over the events at which THROW stopped a pipeline."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.config.spec import PipelineSpec
from penstock.core.commit_metadata import decode, encode
from penstock.core.errors import ConfigError
from penstock.kafka.admin import ClusterView, Place
from penstock.service.vacating import LEAVE_SECONDS, vacated, with_group
from penstock.store import MirrorRow, Store

_FARTHEST = 10_000
"""Unfinished events below the skipped one that a commit can name; no pipeline leaves more open."""


def failed_events(store: Store, name: str) -> list[dict[str, Any]]:
    """Where THROW stopped the pipeline; an error where it did not."""
    row = store.desired.get(name)
    if row is None or row.state != "failed" or not row.events:
        raise ConfigError(
            f"{name} did not stop at an event, so there is none to skip",
            received="running" if row is None else row.state,
            allowed="failed",
            hint="`penstock pipelines resume` without --skip goes on",
        )
    return row.events


def skip_failed(
    store: Store, cluster: ClusterView, spec: PipelineSpec, *, by: str, timeout: float = LEAVE_SECONDS
) -> list[dict[str, Any]]:
    """Commit the failed events as finished, and nothing else; their dead letters remain. What was skipped."""
    with_group(spec)
    failed_events(store, spec.name)
    with vacated(store, cluster, spec, timeout):
        # Read again: an instance may have failed at one more on its way out.
        events = failed_events(store, spec.name)
        by_place: dict[Place, list[dict[str, Any]]] = {}
        for event in events:
            by_place.setdefault((event["topic"], event["partition"]), []).append(event)
        committed = cluster.committed(spec.group, list(by_place))
        ids = cluster.topic_ids({topic for topic, _ in by_place})
        commits = {}
        for place, failed in by_place.items():
            offset, text = committed.get(place, (None, None))
            if offset is None or any(event["topic_id"] != ids.get(place[0]) for event in failed):
                raise ConfigError(
                    f"{place[0]}/{place[1]} is not what it was when the pipeline failed",
                    received=failed,
                    hint="`penstock pipelines resume` without --skip goes on",
                )
            commits[place] = without(offset, text or "", ids[place[0]], (event["offset"] for event in failed))
        cluster.alter_offsets(spec.group, commits)
        store.offsets.mirror(
            [
                MirrorRow(group=spec.group, topic=t, topic_id=ids[t], partition=n, offset=offset, metadata=text)
                for (t, n), (offset, text) in commits.items()
            ]
        )
        where = ", ".join(f"{event['topic']}/{event['partition']}@{event['offset']}" for event in events)
        store.pipelines.note(spec.name, None, "skipped", f"{where} by {by}", {"events": events})
    return events


def without(position: int, metadata: str, topic_id: str, finished: Iterable[int]) -> tuple[int, str]:
    """The commit that calls these offsets finished too: offset and metadata. What was finished stays so."""
    note = decode(position, metadata)
    next_offset, pending = note.next_offset, set(note.pending)
    for offset in sorted(finished):
        if offset >= next_offset:
            if offset - next_offset > _FARTHEST:
                raise ConfigError(
                    "the event is too far ahead of what is finished", received=offset, allowed=next_offset
                )
            pending.update(range(next_offset, offset))
            next_offset = offset + 1
        pending.discard(offset)
    left = sorted(pending)
    new = min(left, default=next_offset)
    retries = [retry for retry in note.retries if retry.offset in pending or retry.offset >= next_offset]
    return new, encode(topic_id, new, next_offset, left, retries)
