"""What pipelines are doing: put together from what their instances tell the store and, where asked, the cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from penstock.config.spec import PipelineSpec
from penstock.core.errors import PenstockError
from penstock.core.status import PartitionStatus, PipelineStatus, State
from penstock.kafka.admin import ClusterView
from penstock.kafka.client import KafkaClientConfig
from penstock.store.desired import said
from penstock.store.partitions import PartitionRow
from penstock.store.pipelines import StateRow
from penstock.store.store import Store

INSTANCE_SILENCE = 30.0
"""An instance not heard of for so many seconds counts as gone: several heartbeats were missed."""

# Of the states that instances report, the one that most needs to be seen wins.
_LOUDEST_FIRST: tuple[State, ...] = (
    *("failed", "invalid", "waiting", "paused", "running", "starting", "idle", "stopping", "stopped"),
)


def pipeline_statuses(
    store: Store, pipeline: str | None = None, *, letters: Mapping[str, int] | None = None
) -> list[PipelineStatus]:
    """All pipelines that the store knows of, by name; `letters`: how many dead letters each has, if that is known."""
    alive = {instance.id for instance in store.instances.alive(INSTANCE_SILENCE)}
    states: dict[str, list[StateRow]] = {}
    for row in store.pipelines.states():
        states.setdefault(row.pipeline, []).append(row)
    partitions: dict[str, list[PartitionRow]] = {}
    for place in store.partitions.all(pipeline):
        partitions.setdefault(place.pipeline, []).append(place)
    letters = store.dead_letters.counts_by_pipeline() if letters is None else letters
    desired = store.desired.all()
    names = sorted({*states, *partitions, *letters, *desired})
    statuses = []
    for name in names if pipeline is None else [name for name in names if name == pipeline]:
        state, reason = _state(states.get(name, []), alive)
        wanted = desired.get(name)
        if state == "stopped" and wanted is not None and wanted.state != "running":
            state, reason = wanted.state, said(wanted.set_by, wanted.reason)
        statuses.append(
            PipelineStatus(
                pipeline=name,
                state=state,
                reason=reason,
                partitions=_partitions(partitions.get(name, []), alive),
                events=sum(row.events for row in states.get(name, [])),
                failures=sum(row.failures for row in states.get(name, [])),
                dead_letters=letters.get(name, 0),
            )
        )
    return statuses


def _state(rows: Iterable[StateRow], alive: set[str]) -> tuple[State, str | None]:
    live = [row for row in rows if row.instance in alive]
    if not live:
        return "stopped", "no instance runs it"
    loudest = min(live, key=lambda row: _LOUDEST_FIRST.index(row.state))
    return loudest.state, loudest.reason


def _partitions(rows: Iterable[PartitionRow], alive: set[str]) -> list[PartitionStatus]:
    seen: dict[tuple[str, int], PartitionStatus] = {}
    for row in rows:
        lag = None if row.end is None or row.committed is None else max(0, row.end - row.committed)
        owner = row.instance if row.instance in alive else None
        place = PartitionStatus(
            topic=row.topic, partition=row.partition, committed=row.committed, end=row.end, lag=lag, owner=owner
        )
        # The store gives the owner heard of last first; another row of the partition is an older one.
        seen.setdefault((row.topic, row.partition), place)
    return list(seen.values())


def with_lag(statuses: Sequence[PipelineStatus], specs: Iterable[PipelineSpec], timeout: float = 5.0) -> list[str]:
    """Ask each pipeline's cluster for committed offsets and ends now; returns a sentence for each that is away."""
    complaints = []
    by_name = {status.pipeline: status for status in statuses}
    for spec in specs:
        status = by_name.get(spec.name)
        if status is None or spec.source.is_foreign:
            continue
        try:
            status.partitions = _measured(spec, status.partitions, timeout)
        except PenstockError as error:
            complaints.append(f"{spec.name}: {error}")
    return complaints


def _measured(spec: PipelineSpec, known: list[PartitionStatus], timeout: float) -> list[PartitionStatus]:
    cluster = ClusterView(KafkaClientConfig.of(spec.source.config.connection), timeout)
    owners = {(p.topic, p.partition): p.owner for p in known}
    places = list(owners)
    if spec.source.config.topics:
        counts = cluster.topics()
        places = [(topic, n) for topic in spec.source.config.topics for n in range(counts.get(topic, 0))]
    ends = cluster.watermarks(places)
    committed = {} if spec.source.config.stateless else cluster.committed(spec.group, places)
    measured = []
    for place in places:
        first, end = ends.get(place, (None, None))
        offset = committed.get(place, (None, None))[0]
        start = first if offset is None else offset
        lag = None if end is None or start is None else max(0, end - start)
        measured.append(
            PartitionStatus(
                topic=place[0], partition=place[1], committed=offset, end=end, lag=lag, owner=owners.get(place)
            )
        )
    return measured
