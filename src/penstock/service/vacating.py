"""Empties a pipeline's consumer group for as long as its offsets are being changed, which brokers allow only then."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from penstock.config.spec import PipelineSpec
from penstock.core.deadline import Deadline
from penstock.core.errors import ConfigError
from penstock.engine.pipelines.group import CLIENT_ID
from penstock.kafka.admin import ClusterView, GroupMember
from penstock.kafka.errors import GroupBusy
from penstock.service.pipelines import disobedient, person
from penstock.store import StateRow, Store

LEAVE_SECONDS: Final = 30.0
"""How long instances may take to leave: they finish what is under way, and a dead one stays a member for a while."""
_LEASE: Final = 20.0
"""Instances come back after this should the command die; it is renewed while the command lives."""
_LOOK_EVERY: Final = 0.2


def with_group(spec: PipelineSpec) -> PipelineSpec:
    """The spec, if the pipeline has a group whose offsets could be seen or changed."""
    if spec.source.is_foreign:
        raise ConfigError(f"{spec.name} has a source of its own: there are no offsets to see", received=spec.name)
    if spec.source.config.stateless:
        raise ConfigError(f"{spec.name} is stateless: it has no group, and so no offsets", received=spec.name)
    return spec


@contextmanager
def vacated(
    store: Store | None, cluster: ClusterView, spec: PipelineSpec, timeout: float = LEAVE_SECONDS
) -> Iterator[None]:
    """While the block runs the group has no members; afterwards Penstock's own come back.

    Refused, and nobody disturbed, where another consumer is in the group.
    """
    refuse_others(cluster, spec)
    lease = _Lease(store, spec.name)
    lease.renew()
    try:
        _await_empty(lease, cluster, spec, timeout)
        yield
    finally:
        lease.end()


class _Lease:
    """Keeps Penstock's instances out of the group; without a store there are none."""

    def __init__(self, store: Store | None, pipeline: str) -> None:
        self._store, self._pipeline = store, pipeline
        self._by = f"{person()}/{os.getpid()}"
        self._revision: int | None = None
        self._renewed = 0.0

    def renew(self) -> None:
        if self._store is None or time.monotonic() < self._renewed + _LEASE / 4:
            return
        row = self._store.desired.hold(self._pipeline, by=self._by, seconds=_LEASE)
        if row.held_by != self._by:
            raise GroupBusy(f"the offsets of {self._pipeline} are being changed by {row.held_by}", received=row.held_by)
        self._revision = self._revision or row.revision
        self._renewed = time.monotonic()

    def late(self) -> list[StateRow]:
        """Instances that have not left yet."""
        if self._store is None or self._revision is None:
            return []
        return disobedient(self._store, {self._pipeline: self._revision})

    def end(self) -> None:
        if self._store is not None:
            self._store.desired.release(self._pipeline, by=self._by)


def refuse_others(cluster: ClusterView, spec: PipelineSpec) -> None:
    """Raise `GroupBusy`, naming them, where consumers that are not Penstock's are in the group."""
    others = [member for member in cluster.group_members(spec.group) if not _is_ours(member, spec)]
    if others:
        raise _busy(spec, others, "stop it first; Penstock's own instances leave by themselves")


def _is_ours(member: GroupMember, spec: PipelineSpec) -> bool:
    named = spec.source.config.connection.consumer_config.get("client.id")
    return member.client_id.startswith(CLIENT_ID) or member.client_id == named


def _await_empty(lease: _Lease, cluster: ClusterView, spec: PipelineSpec, timeout: float) -> None:
    deadline = Deadline.after(timeout)
    while True:
        # Asked in this order: who has said that it left writes nothing of its own about these offsets any more.
        late = lease.late()
        members = cluster.group_members(spec.group)
        if not late and not members:
            return
        if deadline.expired:
            if members:
                raise _busy(spec, members, "an instance that was killed stays a member until its session ends")
            raise GroupBusy(f"{late[0].instance} did not leave the group within {timeout:g} s", received=spec.group)
        refuse_others(cluster, spec)
        lease.renew()
        time.sleep(_LOOK_EVERY)


def _busy(spec: PipelineSpec, members: list[GroupMember] | tuple[GroupMember, ...], hint: str) -> GroupBusy:
    named = [f"{member.client_id} on {member.host.lstrip('/')}" for member in members]
    return GroupBusy(f"another consumer is in the group {spec.group}: {', '.join(named)}", received=named, hint=hint)
