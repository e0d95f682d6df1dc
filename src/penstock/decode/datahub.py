"""`format: datahub`: DataHub's change logs and platform events, by the route of their topic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Self

from penstock.config.spec import KafkaSourceConfig
from penstock.core.event import RecordLike
from penstock.core.plugin import Decoder, Dropped, PipelineContext, Wanted
from penstock.decode.datahub_routes import ChangeLogs, PlatformEvents, Result, Route
from penstock.decode.schemas import Schemas, Unusable

CHANGE_LOGS: Final = ("mcl", "mcl_timeseries")
PLATFORM_EVENTS: Final = "pe"


class DataHubDecoder(Decoder):
    """Makes light events. Records of routes and platform events that DataHub has no event for are dropped, and counted
    as unrouted."""

    dropped: Dropped

    def __init__(self, schemas: Schemas, routes: dict[str, str], *, early: bool = True) -> None:
        self.dropped = Dropped()
        self._schemas = schemas
        self._topics = routes
        self._early = early
        self._routes: dict[str, Route] = {}
        self.push_down(())

    @classmethod
    def create(cls, source: KafkaSourceConfig, ctx: PipelineContext) -> Self:
        return cls(Schemas.of(source, ctx), source.routes, early=source.enable_mcl_pre_deserialization_filter)

    def push_down(self, steps: Sequence[Wanted]) -> None:
        steps = steps if self._early else ()
        logs = ChangeLogs(self._schemas, steps, self.dropped)
        platform = PlatformEvents(self._schemas, steps, self.dropped)
        by_name: dict[str, Route] = dict.fromkeys(CHANGE_LOGS, logs) | {PLATFORM_EVENTS: platform}
        self._routes = {}
        for name, route in by_name.items():
            if name in self._topics:
                # A topic under two names is read once, as its first.
                self._routes.setdefault(self._topics[name], route)

    def decode(self, records: Sequence[RecordLike]) -> list[Result]:
        unusable: Unusable = {}
        routes = self._routes
        results: list[Result] = []
        for record in records:
            route = routes.get(record.topic())
            if route is None:
                self.dropped.unrouted += 1
                results.append(None)
            else:
                results.append(route.decode(record, unusable))
        return results

    def close(self) -> None:
        self._schemas.close()
