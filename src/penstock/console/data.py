"""What all pages share: who opens them, and the look at all pipelines that however many tabs cost once."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, Final

import structlog
from fastapi import Request

from penstock.console.answers import Shared
from penstock.console.overview import Line, Verdict, line_of, most_urgent_first, verdict
from penstock.console.rates import Pace, Rates, Totals
from penstock.core.errors import PenstockError
from penstock.service.access import Actor, allows, allows_somewhere, require_somewhere, system_actor
from penstock.service.authentication import Authentication, LogInFirst
from penstock.service.operations.desk import Desk
from penstock.service.operations.work_order_models import WorkOrderQuery
from penstock.service.operations.work_orders import count_work_orders

log = structlog.get_logger("penstock.console")

_FRESH: Final = 1.9
"""Seconds; a little less than between two looks of a page, so that all tabs together cost one question each time."""
_LOOK_EVERY: Final = 10.0
_ORDERS_FRESH: Final = 10.0
"""Seconds; they are counted less often than pipelines are looked at, for there may be millions of them."""
_ORDERS_COUNTED: Final = 1_000
_SCOPES: Final = 1_000
"""Sets of roles for which they are remembered."""
FAILED_ORDERS: Final[dict[str, Any]] = {
    "state": ["failed", "crashed", "killed", "exception", "lost"],
    "active_after": "1h",
}
"""The work orders that the banner counts."""


@dataclass(frozen=True, slots=True)
class Overview:
    """All pipelines, the most urgent first."""

    lines: list[Line]
    verdict: Verdict


class Data:
    """Threads may share it."""

    def __init__(self, desk: Desk, authentication: Authentication) -> None:
        self.desk, self.authentication = desk, authentication
        self._rates = Rates()
        self._overview = Shared(self._look, _FRESH)
        self._orders: dict[frozenset[tuple[str, str]], Shared[str]] = {}
        """Failed work orders as those see them whose roles in projects these are; without any, all of them."""
        self._over = threading.Event()
        self._looker = threading.Thread(target=self._keep_looking, name="console-rates", daemon=True)

    def start(self) -> None:
        """Begin to look at totals, so that a page that is opened has a curve to show."""
        self._looker.start()

    def close(self) -> None:
        self._over.set()
        if self._looker.is_alive():
            self._looker.join(5)

    def actor(self, request: Request) -> Actor:
        """Who opens a page; `LogInFirst` where nobody has logged in."""
        address = request.client.host if request.client else None
        found = self.authentication.actor_of(request.headers, request.cookies, address)
        if found is None:
            raise LogInFirst("nobody has logged in")
        return found

    def overview(self, _: Desk, actor: Actor) -> Overview:
        """The same object until something new is known, for those who may see all."""
        require_somewhere(actor, "pipelines.view")
        found = self._overview()
        if allows(actor, "pipelines.view"):
            return found
        mine = [line for line in found.lines if allows(actor, "pipelines.view", self.desk.project_of(line.pipeline))]
        return Overview(mine, verdict(mine, self._failed_orders(actor)))

    def titles(self, _: Desk, actor: Actor) -> dict[str, str]:
        """What people call pipelines whose names were made for them, of those that the actor may see."""
        require_somewhere(actor, "pipelines.view")
        now = self.desk.snapshot()
        return {
            name: title for name, title in now.titles.items() if allows(actor, "pipelines.view", now.projects.get(name))
        }

    def pace(self, pipeline: str) -> Pace:
        """How one pipeline does."""
        return self._rates.of(pipeline)

    def forget(self) -> None:
        """Something was changed: look again."""
        self._overview.forget()

    def _look(self) -> Overview:
        now = self.desk.snapshot()
        statuses = [now.status(name) for name in now.names]
        self._rates.look([Totals(each.pipeline, each.events, each.failures) for each in statuses])
        lines = most_urgent_first(
            line_of(each, self._rates.of(each.pipeline), now.titles.get(each.pipeline)) for each in statuses
        )
        return Overview(lines, verdict(lines, self._failed_orders(system_actor("console"))))

    def _failed_orders(self, actor: Actor) -> str:
        """How many failed within the hour; empty for none."""
        roles = frozenset[tuple[str, str]]() if allows(actor, "work_orders.view") else frozenset(actor.projects.items())
        if len(self._orders) > _SCOPES and roles not in self._orders:
            self._orders = {}
        return self._orders.setdefault(roles, Shared(lambda: self._count_failed_orders(actor), _ORDERS_FRESH))()

    def _count_failed_orders(self, actor: Actor) -> str:
        if not allows_somewhere(actor, "work_orders.view"):
            return ""
        found = count_work_orders(self.desk, actor, WorkOrderQuery.model_validate(FAILED_ORDERS), cap=_ORDERS_COUNTED)
        return f"{found.number:,}{'+' if found.capped else ''}" if found.number else ""

    def _keep_looking(self) -> None:
        while not self._over.wait(_LOOK_EVERY):
            try:
                self._overview()
            except PenstockError as error:
                log.debug("the store cannot be read", reason=str(error))
