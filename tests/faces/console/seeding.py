"""A store as an operator may find it: pipelines in every state, dead letters of many kinds, some of them hostile."""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import dataclass

import orjson

from penstock.core.dead_letter import DeadLetter, Failure, Stage
from penstock.core.event import Headers
from penstock.core.status import State
from penstock.store import InstanceRow, OwnedPartition, StateRow, Store, StoreUnavailable

INSTANCE = "plant-1-4711-a1b2c3"
MARKUP = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>'
BIDI = "safe\u202etxt.exe\u2066 \x1b[31mred"
PASSWORD = "a long sentence"
USERS = {"ada@example.org": "admin", "otto@example.org": "operator", "vera@example.org": "viewer"}
FORMULA = '=HYPERLINK("http://evil.example","click")'


@dataclass(frozen=True)
class Seeded:
    name: str
    state: State
    reason: str | None
    events: int
    failures: int
    rate: int
    lag: int


PIPELINES = (
    Seeded("large-orders", "running", None, 4_812_230, 0, 212, 34),
    Seeded("page-views", "running", None, 19_330_118, 12, 1480, 902),
    Seeded("payments", "failed", "ValueError: amount is not a number", 88_210, 41, 0, 1_204),
    Seeded("catalogue-sync", "waiting", "registry at http://registry:8081 does not answer", 120_400, 0, 0, 51_200),
    Seeded("shipments", "running", None, 740_110, 3, 4, 88_112),
    Seeded("returns", "paused", "by ops@plant: warehouse is counting", 10_022, 1, 0, 220),
    Seeded("invoices-to-sql", "idle", None, 40_118, 0, 0, 0),
)

CROWD = 60
"""Further pipelines, at rest, where there shall be many."""

_STACK = 'Traceback (most recent call last):\n  File "booking.py", line 12, in book\n    total = float(amount)\n'
_SPEC = {
    "name": "payments",
    "filters": [{"type": "match", "config": {"event": {"status": ["paid", "shipped"]}}}],
    "transform": [{"type": "map", "config": {"fields": {"id": "event.id"}}}],
    "action": {"type": "file", "config": {"path": "out.jsonl"}},
}


def seed(store: Store, *, letters: bool = True) -> None:
    """Fill the store."""
    beat(store)
    put_states(store, 0)
    for each in PIPELINES:
        half, topic = each.lag // 2, each.name.split("-")[0]
        rows = [OwnedPartition(topic, n, 50_000, 50_000 + (half if n else each.lag - half)) for n in (0, 1)]
        store.partitions.put(each.name, INSTANCE, rows)
        config = {"connection": {"bootstrap": "127.0.0.1:1"}, "topics": [topic], "format": "json"}
        spec = _SPEC | {"name": each.name, "source": {"type": "kafka", "config": config}}
        store.pipelines.save_spec(each.name, "v2", orjson.dumps({"file": "pipelines.yaml", "spec": spec}).decode())
        store.pipelines.note(each.name, INSTANCE, "started", "joined the group")
    store.desired.set("returns", "paused", by="ops@plant", reason="warehouse is counting")
    store.desired.fail("payments", by=INSTANCE, reason="ValueError: amount is not a number", events=[])
    if letters:
        store.dead_letters.record(list(_letters()))


def crowd(store: Store) -> None:
    """Many more that have nothing to do."""
    states = [StateRow(pipeline=f"crowd-{n}", instance=INSTANCE, state="idle", reason=None) for n in range(CROWD)]
    store.pipelines.put_states(states)


def beat(store: Store) -> None:
    now = int(time.time() * 1000) - 3_600_000
    row = InstanceRow(id=INSTANCE, host="plant-1", pid=4711, version="0.1.0", started_at=now)
    store.instances.heartbeat(row)


def put_states(store: Store, seconds: float) -> None:
    """What the instance says after so many seconds."""
    wave = 1 + 0.35 * ((int(seconds) * 7919) % 13 - 6) / 6
    store.pipelines.put_states(
        [
            StateRow(
                pipeline=p.name,
                instance=INSTANCE,
                state=p.state,
                reason=p.reason,
                events=p.events + int(p.rate * (seconds + wave)),
                failures=p.failures + (int(seconds) if p.name == "shipments" else 0),
                acted=int((p.events + p.rate * seconds) * 0.8),
                filtered=int((p.events + p.rate * seconds) * 0.2),
                p50_ms=6.2,
                p99_ms=84.0,
            )
            for p in PIPELINES
        ]
    )


class Pulse(threading.Thread):
    """The instance goes on: heartbeats and, where it works, totals that grow."""

    def __init__(self, store: Store, *, works: bool) -> None:
        super().__init__(name="pulse", daemon=True)
        self._store, self._works = store, works
        self._over = threading.Event()

    def run(self) -> None:
        began = time.monotonic()
        while not self._over.wait(1.0):
            with contextlib.suppress(StoreUnavailable):  # as an instance's publisher, it goes on later
                beat(self._store)
                if self._works:
                    put_states(self._store, time.monotonic() - began)

    def stop(self) -> None:
        self._over.set()
        self.join(5)


def letter(
    offset: int,
    *,
    value: bytes | None,
    pipeline: str = "payments",
    topic: str = "payments",
    stage: Stage = "act",
    error: str = "ValueError: amount is not a number",
    fingerprint: str = "f-amount",
    key: bytes | None = b"customer-7",
    headers: Headers | None = None,
) -> DeadLetter:
    now = int(time.time() * 1000)
    failure = Failure(
        stage=stage,
        error_code=error.partition(":")[0],
        error_class=f"builtins.{error.partition(':')[0]}",
        error=error,
        traceback=f"{_STACK}{error}",
        fingerprint=fingerprint,
        attempts=3,
        first_failed_at=now - 90_000 - offset * 1000,
        last_failed_at=now - offset * 1000,
        value_seen=value if stage == "act" else None,
    )
    return DeadLetter(
        pipeline=pipeline,
        spec_version="v2",
        group=pipeline,
        topic=topic,
        topic_id=f"id-{topic}",
        partition=offset % 4,
        offset=offset,
        key=key,
        value=value,
        headers=headers or [("source", b"shop"), ("trace", b"\x00\x01\xfe"), ("source", None)],
        timestamp=now - 100_000,
        timestamp_type=1,
        failure=failure,
    )


def _letters() -> list[DeadLetter]:
    found = [
        letter(n, value=b'{"id": "p%d", "customer": "ada", "amount": "twelve", "currency": "EUR"}' % n)
        for n in range(1, 31)
    ]
    found += [
        letter(n, value=b"not json at all", stage="decode", error="DecodeError: not JSON", fingerprint="f-json")
        for n in range(40, 46)
    ]
    hostile = {"note": MARKUP, "name": BIDI, "cell": FORMULA}
    found.append(
        letter(
            50,
            value=orjson.dumps(hostile),
            error=f"ValueError: {MARKUP}",
            fingerprint="f-markup",
            key=BIDI.encode(),
            headers=[(MARKUP, MARKUP.encode())],
        )
    )
    found.append(
        letter(60, value=bytes(range(256)), stage="decode", error="DecodeError: not UTF-8", fingerprint="f-binary")
    )
    found.append(letter(61, value=None, error="TypeError: a tombstone", fingerprint="f-null"))
    found += [
        letter(n, value=b"{}", pipeline="shipments", topic="shipments", error="KeyError: 'address'", fingerprint="f-k")
        for n in range(70, 73)
    ]
    return found
