"""The desired state of each pipeline, for every instance: set by people, by the breaker, or by a pipeline that has
failed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal

import orjson
import sqlalchemy as sa

from penstock.store.database import Database
from penstock.store.errors import StoreRowUnreadable
from penstock.store.tables import desired_states, pipeline_history
from penstock.store.upsert import insert

Desired = Literal["running", "paused", "stopped", "failed"]

_WORDS: Final[dict[Desired, str]] = {
    "running": "resumed",
    "paused": "paused",
    "stopped": "stopped",
    "failed": "failed",
}
"""How the history calls a change to each state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredRow:
    """What is wanted of one pipeline."""

    pipeline: str
    state: Desired
    set_by: str | None = None
    reason: str | None = None
    set_at: int
    revision: int = 0
    """Counts every change: an instance that says this number has obeyed it."""
    restarts: int = 0
    """Each one more makes every instance leave the group and begin anew."""
    resume_at: int | None = None
    """A pause that ends by itself: epoch milliseconds."""
    rate_limit: float | None = None
    """Events per second instead of the spec's `rate_limit`; 0: no limit; None: as the spec says."""
    held_by: str | None = None
    held_until: int | None = None
    """Until then instances stay out of the group, for its offsets are being changed: epoch milliseconds."""
    data: dict[str, Any] = field(default_factory=dict)
    """`events`: coordinates at which THROW stopped."""
    read_at: int = 0
    """The store's clock when the row was read: the only one that its times can be compared with."""
    unreadable: StoreRowUnreadable | None = None
    """Why the row cannot be used as it is; it then says that the pipeline is paused, for this reason."""

    @property
    def held(self) -> bool:
        return self.held_until is not None and self.held_until > self.read_at

    @property
    def resume_is_due(self) -> bool:
        return self.resume_at is not None and self.resume_at <= self.read_at

    @property
    def events(self) -> list[dict[str, Any]]:
        """Coordinates (topic, topic_id, partition, offset) at which the pipeline failed."""
        return list(self.data.get("events", []))


def said(by: str | None, reason: str | None) -> str | None:
    """Who wanted it, and why, as one text."""
    if by is None or reason is None:
        return reason or (f"by {by}" if by else None)
    return f"{reason} (by {by})"


_STORED: Final = [f.name for f in fields(DesiredRow) if f.name not in ("data", "read_at", "unreadable")]
# `data` as text: what a newer version has written must be named by the error, whatever it is.
_COLUMNS: Final = [
    *(desired_states.c[name] for name in _STORED),
    sa.type_coerce(desired_states.c.data, sa.Text()).label("data"),
]
_EVENT: Final = {"topic": str, "topic_id": str, "partition": int, "offset": int}
_Change = Callable[[DesiredRow], Mapping[str, Any] | None]


class DesiredStates:
    """The repository of desired states. A pipeline without a row should run."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def all(self) -> dict[str, DesiredRow]:
        """By pipeline. A row with values that this version does not know is `unreadable` and says paused: it must
        neither count as nothing wanted nor hide what is wanted of other pipelines."""
        with self._database.read() as connection:
            now = self._database.now(connection)
            found = connection.execute(sa.select(*_COLUMNS)).mappings()
            return {row["pipeline"]: _row(row, now) for row in found}

    def get(self, pipeline: str) -> DesiredRow | None:
        """None: nothing was set, so it should run. Raises `StoreRowUnreadable`."""
        with self._database.read() as connection:
            now = self._database.now(connection)
            found = connection.execute(_one(pipeline)).mappings().one_or_none()
        row = _row(found, now) if found else None
        if row is not None and row.unreadable is not None:
            raise row.unreadable
        return row

    def set(
        self,
        pipeline: str,
        state: Desired,
        *,
        by: str | None = None,
        reason: str | None = None,
        resume_after: float | None = None,
        restart: bool = False,
    ) -> DesiredRow:
        """Say what the pipeline should do; where THROW had stopped is forgotten.

        `resume_after` seconds a pause ends by itself; `restart` makes instances begin anew.
        """

        def change(row: DesiredRow) -> Mapping[str, Any]:
            return {
                "state": state,
                "set_by": by,
                "reason": reason,
                "set_at": row.read_at,
                "restarts": row.restarts + restart,
                "resume_at": None if resume_after is None else row.read_at + int(resume_after * 1000),
                "data": {},
            }

        return self._change(pipeline, change, "restarted" if restart and state == "running" else _WORDS[state])

    def fail(self, pipeline: str, *, by: str, reason: str, events: Sequence[Mapping[str, Any]]) -> DesiredRow:
        """The pipeline has failed at these events; the ones that another instance has failed at stay."""

        def change(row: DesiredRow) -> Mapping[str, Any]:
            before = row.events if row.state == "failed" else []
            new = [dict(event) for event in events if dict(event) not in before]
            return {
                "state": "failed",
                "set_by": by,
                "reason": reason,
                "set_at": row.read_at,
                "resume_at": None,
                "data": {"events": before + new},
            }

        return self._change(pipeline, change, "failed")

    def limit(self, pipeline: str, rate: float | None, *, by: str | None = None) -> DesiredRow:
        """Events per second over all instances; 0: no limit; None: as the spec says."""
        text = "as the spec says" if rate is None else f"{rate:g}/s" if rate else "none"
        return self._change(pipeline, lambda _: {"rate_limit": rate}, "rate-limit", f"{text}, by {by or 'unknown'}")

    def hold(self, pipeline: str, *, by: str, seconds: float) -> DesiredRow:
        """Keep instances out of the group for so long, or longer than before; the answer says who holds it.

        A lease: should its taker die, the pipeline comes back when it ends.
        """

        def change(row: DesiredRow) -> Mapping[str, Any] | None:
            if row.held and row.held_by != by:
                return None
            return {"held_by": by, "held_until": row.read_at + int(seconds * 1000)}

        return self._change(pipeline, change)

    def release(self, pipeline: str, *, by: str) -> DesiredRow:
        """End the hold, if it is still this one's."""

        def change(row: DesiredRow) -> Mapping[str, Any] | None:
            return {"held_by": None, "held_until": None} if row.held_by == by else None

        return self._change(pipeline, change)

    def _change(self, pipeline: str, change: _Change, kind: str | None = None, text: str | None = None) -> DesiredRow:
        with self._database.write() as connection:
            now = self._database.now(connection)
            first = {"pipeline": pipeline, "state": "running", "set_at": now}
            connection.execute(insert(self._database, desired_states).values(first).on_conflict_do_nothing())
            # The row is there now and can be locked: changes by two people happen one after the other.
            found = connection.execute(_one(pipeline).with_for_update()).mappings().one()
            values = change(_row(found, now))
            if values is not None:
                c = desired_states.c
                update = sa.update(desired_states).where(c.pipeline == pipeline)
                connection.execute(update.values(**values, revision=c.revision + 1))
                if kind is not None:
                    connection.execute(sa.insert(pipeline_history), _note(pipeline, now, kind, text, values))
            found = connection.execute(_one(pipeline)).mappings().one()
        return _row(found, now)


def _one(pipeline: str) -> sa.Select[Any]:
    return sa.select(*_COLUMNS).where(desired_states.c.pipeline == pipeline)


def _row(found: sa.RowMapping, now: int) -> DesiredRow:
    plain = {name: found[name] for name in _STORED}
    try:
        return DesiredRow(**plain | {"state": _state(found), "data": _data(found)}, read_at=now)
    except StoreRowUnreadable as error:
        # Nothing of it may end the pause by itself.
        paused = {"state": "paused", "set_by": None, "reason": str(error), "resume_at": None}
        return DesiredRow(**plain | paused, read_at=now, unreadable=error)


def _state(found: sa.RowMapping) -> str:
    state: str = found["state"]
    if state not in _WORDS:
        raise _unreadable(found, "state", list(_WORDS))
    return state


def _data(found: sa.RowMapping) -> dict[str, Any]:
    try:
        data = orjson.loads(found["data"] or "{}")
    except orjson.JSONDecodeError:
        raise _unreadable(found, "data", "a JSON object") from None
    events = data.get("events", []) if isinstance(data, dict) else None
    if not isinstance(events, list) or not all(_is_event(event) for event in events):
        raise _unreadable(found, "data", f"events with {', '.join(_EVENT)}")
    return dict(data)


def _is_event(event: Any) -> bool:
    return isinstance(event, dict) and all(isinstance(event.get(name), kind) for name, kind in _EVENT.items())


def _unreadable(found: sa.RowMapping, column: str, allowed: object) -> StoreRowUnreadable:
    hint = "run the version that has written it, or overwrite it with `penstock pipelines restart`"
    return StoreRowUnreadable(desired_states.name, found["pipeline"], column, found[column], allowed=allowed, hint=hint)


def _note(pipeline: str, now: int, kind: str, text: str | None, values: Mapping[str, Any]) -> dict[str, Any]:
    said = text or f"by {values.get('set_by') or 'unknown'}" + (f": {why}" if (why := values.get("reason")) else "")
    return {
        "pipeline": pipeline,
        "instance": None,
        "at": now,
        "kind": kind,
        "text": said,
        "data": dict(values.get("data") or {}),
    }
