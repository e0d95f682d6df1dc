"""Ending work in good order: before a rebalance takes partitions away, and before the group is left."""

from __future__ import annotations

from abc import abstractmethod

import structlog

from penstock.core.deadline import Deadline
from penstock.core.failpoints import reach
from penstock.engine.pipelines.status import Shown
from penstock.pipeline.messages import Partition

log = structlog.get_logger("penstock.pipeline")

SHORT = 0.25
"""How often a member with units under way looks for rebalances; outcomes wake it at once."""


class Ending(Shown):
    """What a flow does so that nothing is repeated which could be finished."""

    @abstractmethod
    def _read_mail(self, timeout: float) -> None:
        """Take what lanes have told, waiting for the first word."""

    def drain(self, partitions: list[Partition]) -> None:
        """Called inside a rebalance: finish what is under way there, settle and commit it, within `drain_timeout`."""
        self.around.metrics.rebalances.labels(self.name, "revoked").inc()
        self.around.doorbell.leave(self)
        with self.lock:
            for tp in partitions:
                if own := self.membership.owned.get(tp):
                    own.fenced = True
        reach("mid-rebalance")
        deadline = Deadline.after(self.spec.options.drain_timeout)
        while (units := self.units.on(partitions)) or self.units.uncommitted & set(partitions):
            if deadline.expired:
                self._abandon(units)
                return
            self._read_mail(SHORT)
            self.units.settle_waiting()
            self.units.commit()
        if self.warmth.is_cold:
            # The bell must not go on watching for partitions that are no longer ours.
            self._rung()

    def _abandon(self, units: set[int]) -> None:
        """Their partitions that stay ours are planned again once the lane tells that its worker is gone."""
        log.warning("work abandoned: it did not end within drain_timeout", pipeline=self.name, units=len(units))
        self.around.dispatcher.cancel(units)

    def dropped(self, partitions: list[Partition]) -> None:
        """These partitions are no longer ours."""
        self.units.uncommitted.difference_update(partitions)

    def _finish_units(self, deadline: Deadline) -> None:
        if self.units.none_open:
            return
        if self.state != "failed":
            self.say("stopping")
        while not (self.units.none_open or deadline.expired):
            self._read_mail(SHORT)
            self.units.settle_waiting()
            self.units.commit()
        if self.units.under:
            self._abandon(set(self.units.under))
            self.units.forget(set(self.units.under))

    def _say_goodbye(self, deadline: Deadline) -> None:
        """An action that has deferred events may acknowledge them when it is closed: that happens while their offsets
        can still be committed."""
        lanes = self.lanes
        with self.lock:
            owned = self.membership.owned.values()
            ends = self.leaves and self.pinned and not self.alone and self.units.none_open
            if not (ends and any(own.pending for own in owned)):
                return
            self.farewells = set(lanes)
        self.around.dispatcher.ready(self)
        while self.farewells and not deadline.expired:
            self._read_mail(SHORT)
        self.farewells = set()
        self._finish_units(deadline)
