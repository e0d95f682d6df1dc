"""Dead letters by the million: how fast they are recorded, listed by every filter, counted and taken for a replay."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import sqlalchemy as sa

from bench.report import Bar, Result
from penstock.core.dead_letter import DeadLetter, Failure, Stage
from penstock.store import DeadLetterFilter, Store
from penstock.store.tables import dead_letters

START = 1_760_000_000_000
CHUNK = 5_000
ROUNDS = 7
STAGES: tuple[Stage, ...] = ("act", "act", "act", "act", "act", "decode", "transform", "write", "timeout", "filter")
NAMES = ("Ann", "Björn", "Chen", "Dalia", "Eve", "Fatou", "Goran", "Hana")
REASONS = (
    "order {n} is not known in region {region}",
    "HTTP 503 from https://hooks.example.org/{region}/{n}: upstream timed out after 30 s",
    "duplicate key value violates unique constraint orders_pkey: Key (id)=({n}) already exists",
    "field total: a number is wanted, not '{n},00 EUR'",
)


def made(number: int, count: int, random_: random.Random) -> DeadLetter:
    """A letter as production makes them: few kinds of errors, texts with ids that never repeat."""
    skewed = int(40 * random_.random() ** 2)
    kind = int(200 * random_.random() ** 2)
    region = f"{random_.choice(('eu', 'us', 'ap'))}-{random_.randrange(9)}"
    old = number < count // 2
    error = REASONS[kind % len(REASONS)].format(n=number * 7919, region=region)
    if old and kind % 5 == 0:
        error = f"quota of tenant {number} used up (legacy gateway)"  # frequent, but only long ago
    customer = f"{random_.choice(NAMES)} {number:x}"
    value = (
        f'{{"id": {number * 7919}, "customer": "{customer}", "region": "{region}", "status": "paid", '
        f'"items": [{{"sku": "A-{random_.randrange(9999)}", "quantity": {random_.randrange(9)}}}], "total": 12.5}}'
    )
    failed_at = START + number * 10
    failure = Failure(
        stage=random_.choice(STAGES),
        error_code=("KeyError", "http", "IntegrityError", "ValueError")[kind % 4],
        error_class="builtins.ValueError",
        error=error,
        traceback="Traceback (most recent call last):\n" + '  File "actions.py", line 41, in act\n' * 8,
        fingerprint=f"{kind:016x}",
        attempts=1 + number % 5,
        first_failed_at=failed_at,
        last_failed_at=failed_at,
        value_seen=value.encode(),
    )
    return DeadLetter(
        pipeline=f"pipeline-{skewed}",
        spec_version="v1",
        group=f"pipeline-{skewed}",
        topic=f"topic-{skewed % 25}",
        topic_id=f"id-{skewed % 25}",
        partition=number % 12,
        offset=number,
        key=f"order-{number * 7919}".encode(),
        value=value.encode(),
        headers=[("trace", b"%032x" % number)],
        timestamp=failed_at,
        timestamp_type=1,
        failure=failure,
    )


def chunks(count: int) -> Iterator[list[DeadLetter]]:
    random_ = random.Random(4)
    for start in range(0, count, CHUNK):
        yield [made(number, count, random_) for number in range(start, min(start + CHUNK, count))]


def fill(store: Store, count: int, copies: int) -> tuple[float, float]:
    """Seconds spent in `record`, and the longest chunk. The rest are copies, made within the database."""
    took = []
    for chunk in chunks(count // copies):
        began = time.perf_counter()
        store.dead_letters.record(chunk)
        took.append(time.perf_counter() - began)
    if copies > 1:
        _copy(store, count // copies, copies)
    _set_statuses(store, count)
    return sum(took), max(took)


def _copy(store: Store, count: int, copies: int) -> None:
    """Each copy is a while older, or younger, than the one before, at offsets of its own."""
    later, first = count * 10, "penstock_dead_letters"
    columns = {column.name: f'"{column.name}"' for column in dead_letters.columns}
    changed = columns | {
        "id": f"id + n * {count}",
        "offset": f'"offset" + n * {count}',
        "first_failed_at": f"first_failed_at + n * {later}",
        "last_failed_at": f"last_failed_at + n * {later}",
    }
    others = {
        "penstock_dead_letter_payloads": ("key", "value", "headers", "traceback", "value_seen", "value_file"),
        "penstock_dead_letter_search": ("last_failed_at", "error", "content", "grams"),
    }
    with store._database.write() as connection:  # noqa: SLF001 - recording a million takes as long as everything else
        # An index is made in one go much faster than row by row.
        connection.exec_driver_sql("DROP INDEX ix_penstock_dead_letter_search_grams")
        times = f"generate_series(1, {copies - 1}) AS n"
        connection.exec_driver_sql(_copying(first, columns, changed, times))
        for table, names in others.items():
            same = {"letter_id": "letter_id"} | {name: f'"{name}"' for name in names}
            moved = {"letter_id": f"letter_id + n * {count}"}
            if "last_failed_at" in same:
                moved["last_failed_at"] = f"last_failed_at + n * {later}"
            connection.exec_driver_sql(_copying(table, same, same | moved, times))
        connection.exec_driver_sql("SET LOCAL maintenance_work_mem = '512MB'")
        connection.exec_driver_sql(
            "CREATE INDEX ix_penstock_dead_letter_search_grams ON penstock_dead_letter_search USING gin (grams)"
        )


def _copying(table: str, columns: dict[str, str], changed: dict[str, str], times: str) -> str:
    into, values = ", ".join(columns.values()), ", ".join(changed.values())
    return f"INSERT INTO {table} ({into}) SELECT {values} FROM {table}, {times}"  # noqa: S608 - names of our own


def _set_statuses(store: Store, count: int) -> None:
    """Most of the older half is closed; a few are parked."""
    c = dead_letters.c
    with store._database.write() as connection:  # noqa: SLF001 - no other way to close half a million at once
        for status, condition in (
            ("replayed", (c.id < count // 2) & (c.id % 10 < 7)),
            ("discarded", (c.id < count // 2) & (c.id % 10 == 8)),
            ("parked", c.id % 997 == 0),
        ):
            connection.execute(sa.update(dead_letters).where(condition).values(status=status))
    if not store.is_local:
        # As the server's own housekeeping does within minutes.
        with store._database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:  # noqa: SLF001
            connection.exec_driver_sql("VACUUM ANALYZE")


def filters(count: int, fresh: int) -> dict[str, DeadLetterFilter]:
    """Every filter alone, frequent and rare, and combinations that no index has."""
    some, rare = (fresh // 3) * 7919, "pipeline-39"
    busy = DeadLetterFilter(pipeline="pipeline-0")
    return {
        "none": DeadLetterFilter(),
        "pipeline": busy,
        "pipeline (rare)": DeadLetterFilter(pipeline=rare),
        "topic": DeadLetterFilter(topic="topic-3"),
        "partition": DeadLetterFilter(partition=7),
        "topic and partition": DeadLetterFilter(topic="topic-3", partition=7),
        "stage": DeadLetterFilter(stage="decode"),
        "stage (absent)": DeadLetterFilter(stage="crash"),
        "status": DeadLetterFilter(status="new"),
        "status (rare)": DeadLetterFilter(status="parked"),
        "status (old)": DeadLetterFilter(status="discarded"),
        "fingerprint": DeadLetterFilter(fingerprint=f"{3:016x}"),
        "since": DeadLetterFilter(since=START + count * 9),
        "until": DeadLetterFilter(until=START + count),
        "error (frequent)": DeadLetterFilter(error="timed out"),
        "error (code)": DeadLetterFilter(error="IntegrityError"),
        "error (one)": DeadLetterFilter(error=f"order {some} "),
        "error (absent)": DeadLetterFilter(error="no such text anywhere"),
        "error (frequent, old)": DeadLetterFilter(error="legacy gateway"),
        "error (frequent, old), status": DeadLetterFilter(error="legacy gateway", status="new"),
        "text (frequent)": DeadLetterFilter(text="paid"),
        "text (one, in the value)": DeadLetterFilter(text=f'{fresh // 3:x}", "region'),
        "text (one, in the key)": DeadLetterFilter(text=f"ORDER-{some}"),
        "text (absent)": DeadLetterFilter(text="zebra crossing"),
        "text (two characters)": DeadLetterFilter(text="zq"),
        "pipeline and stage": replace(busy, stage="timeout"),
        "pipeline and stage (none such)": replace(busy, stage="crash"),
        "pipeline, topic (none such)": replace(busy, topic="topic-3"),
        "pipeline, status, stage, time": replace(busy, status="replayed", stage="decode", until=START + count),
        "partition and status (rare)": DeadLetterFilter(partition=7, status="parked"),
        "pipeline, error (old), stage": replace(busy, error="legacy gateway", stage="write"),
        "rare pipeline, text (frequent)": DeadLetterFilter(pipeline=rare, text="paid"),
        "everything": DeadLetterFilter(
            pipeline="pipeline-1",
            topic="topic-1",
            partition=7,
            stage="act",
            status="new",
            error="order",
            fingerprint=f"{8:016x}",
            since=START,
            until=START + count * 20,
            text="björn",
        ),
    }


def hard_filters(count: int) -> dict[str, DeadLetterFilter]:
    """What no index answers well: pages may have to go on elsewhere."""
    return {
        "error (a sign)": DeadLetterFilter(error="%"),
        "error (a sign), time": DeadLetterFilter(error="%", until=START + count * 9),
        "text (one character), status, time": DeadLetterFilter(status="discarded", since=START + count * 9, text="a"),
        "text (absent, of frequent parts)": DeadLetterFilter(text='"total": 99'),
        "stage and status (not lately)": DeadLetterFilter(stage="act", status="replayed"),
        "stage and status (few, not lately)": DeadLetterFilter(stage="decode", status="discarded"),
        "topic, stage, error (a sign)": DeadLetterFilter(topic="topic-0", stage="timeout", error="%"),
        "fingerprint, status (not lately)": DeadLetterFilter(fingerprint=f"{0:016x}", status="discarded"),
        "partition, stage, status, text": DeadLetterFilter(partition=0, stage="decode", status="replayed", text="a"),
    }


def listed(store: Store, which: DeadLetterFilter) -> tuple[float, float, int]:
    """Median and maximum in milliseconds, and how many rows."""
    took, rows = [], 0
    for _ in range(ROUNDS):
        began = time.perf_counter()
        rows = len(store.dead_letters.page(which, limit=100).rows)
        took.append((time.perf_counter() - began) * 1000)
    return statistics.median(took), max(took), rows


def measure(store: Store, name: str, count: int, copies: int) -> list[Result]:
    seconds, longest = fill(store, count, copies)
    fresh = count // copies
    recorded = Result(
        name=f"{name}: recording",
        what=f"{fresh:,} letters of about 1 kB, {CHUNK:,} per call; then copied to {count:,}.",
        figures={
            "letters per second": round(fresh / seconds),
            "longest call, ms": round(longest * 1000),
            **sizes(store),
        },
    )
    figures: dict[str, Any] = {}
    rows: dict[str, int] = {}
    for what, which in filters(count, fresh).items():
        median, most, rows[what] = listed(store, which)
        figures[f"{what}: median, ms"] = round(median, 1)
        figures[f"{what}: maximum, ms"] = round(most, 1)
    bars = [] if store.is_local else [Bar(figure=figure, at_most=200) for figure in figures]
    lists = Result(
        name=f"{name}: lists",
        what=f"A page of 100 letters, newest first, out of {count:,}; {ROUNDS} times each, the first one included.",
        figures=figures | {"rows found": rows},
        bars=bars,
    )
    return [recorded, lists, of_several(store, name, count, fresh), plans(store, name), others(store, name)]


def of_several(store: Store, name: str, count: int, fresh: int) -> Result:
    """What a member of a project asks for without naming a pipeline."""
    members = {
        "300 pipelines": tuple(f"pipeline-{number}" for number in range(300)),
        "3 rare pipelines": ("pipeline-37", "pipeline-38", "pipeline-39"),
    }
    unnamed = {
        what: which for what, which in (filters(count, fresh) | hard_filters(count)).items() if which.pipeline is None
    }
    figures: dict[str, Any] = {}
    for whose, pipelines in members.items():
        for what, which in unnamed.items():
            mine = replace(which, pipelines=pipelines)
            for kind, ask in (("page", store.dead_letters.page), ("facets", store.dead_letters.facets)):
                figures[f"{kind} of {whose}, {what}: median, ms"] = _median(partial(ask, mine))
    bars = [] if store.is_local else [Bar(figure=figure, at_most=300) for figure in figures]
    what = f"Pages of 100 letters, and facets, of some pipelines only; {ROUNDS} times each."
    return Result(name=f"{name}: letters of several pipelines", what=what, figures=figures, bars=bars)


def plans(store: Store, name: str) -> Result:
    """Dry runs of bulk work: all letters of a filter are counted."""
    figures: dict[str, Any] = {}
    for what, which in {
        "stage": DeadLetterFilter(stage="act"),
        "status": DeadLetterFilter(status="new"),
        "error (a sign)": DeadLetterFilter(error="%"),
        "text (one character)": DeadLetterFilter(text="a"),
        "text (two characters)": DeadLetterFilter(text="er"),
        "text (in all)": DeadLetterFilter(text="paid"),
        "text (absent, of frequent parts)": DeadLetterFilter(text='"total": 99'),
        "text (absent)": DeadLetterFilter(text="zebra crossing"),
    }.items():
        figures[f"replay, {what}: median, ms"] = _median(partial(store.dead_letters.claimable, which))
        figures[f"discard, {what}: median, ms"] = _median(partial(store.dead_letters.discardable, which))
    return Result(
        name=f"{name}: plans", what=f"Letters that a job would take, counted {ROUNDS} times.", figures=figures
    )


def _median(work: Callable[[], object]) -> float:
    """Milliseconds."""
    took = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        work()
        took.append((time.perf_counter() - began) * 1000)
    return round(statistics.median(took), 1)


def sizes(store: Store) -> dict[str, Any]:
    if store.is_local:
        return {}
    tables = {"letters": "dead_letters", "payloads": "dead_letter_payloads", "texts": "dead_letter_search"}
    with store._database.read() as connection:  # noqa: SLF001 - the server's own figures
        found = {
            f"{name} with indexes, MB": connection.scalar(
                sa.text("SELECT pg_total_relation_size(:table) / 1000000"), {"table": f"penstock_{table}"}
            )
            for name, table in tables.items()
        }
        index = sa.text("SELECT pg_relation_size('ix_penstock_dead_letter_search_grams') / 1000000")
        return found | {"index of texts, MB": connection.scalar(index)}


def others(store: Store, name: str) -> Result:
    figures: dict[str, Any] = {}
    for what, work in (
        ("open letters by pipeline, ms", store.dead_letters.counts_by_pipeline),
        ("count of a pipeline, ms", lambda: store.dead_letters.count(DeadLetterFilter(pipeline="pipeline-0"))),
        ("claim of 500 letters, ms", lambda: store.dead_letters.claim(DeadLetterFilter(), by="bench")),
    ):
        began = time.perf_counter()
        work()
        figures[what] = round((time.perf_counter() - began) * 1000, 1)
    return Result(name=f"{name}: counts and claims", what="Once each, on the same letters.", figures=figures)
