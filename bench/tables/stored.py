"""What an event costs where few rows are stored, and where many are."""

from __future__ import annotations

import statistics
from argparse import Namespace

from tests.support.postgres import PostgresServer

from bench.engine.rig import Rig
from bench.report import Bar, Result
from bench.tables.rows import PARTITIONS, rate

FEW, MANY = 10_000, 10_000_000
EVENTS = 300_000
_FILL = (
    "INSERT INTO {table} SELECT n, n, 'order-' || n, 'paid', n / 100.0, 'EUR', 'Customer ' || n,"
    " 'customer' || n || '@example.com' FROM generate_series(1, {count}) AS n"
)


def stored(rig: Rig, options: Namespace) -> list[Result]:
    """Rows per second into a table that holds ten thousand rows, and into one that holds ten million."""
    (topic,) = rig.topics("stored", 1, PARTITIONS)
    rig.produce("preload", [topic], partitions=PARTITIONS, count=EVENTS)
    rates: dict[int, list[float]] = {FEW: [], MANY: []}
    problems: list[str] = []
    with PostgresServer(fsync="on", synchronous_commit="on") as server:
        url = server.create_database()
        for number in range(options.rounds):
            for count, found in rates.items():
                fill = _FILL.format(table="{table}", count=count)
                name = f"stored-{count}-{number}"
                found.append(rate(rig, url, topic, name, problems, events=EVENTS, fill=fill, there=count))
    few, many = (statistics.median(found) for found in rates.values())
    figures = {
        "rows_per_s_with_10k_stored": round(few),
        "rows_per_s_with_10m_stored": round(many),
        "cost_ratio": round(few / many, 2),
    }
    what = (
        f"{EVENTS:,} JSON events of 300 B, eight columns, appended to a table with {FEW:,} and with {MANY:,} rows in "
        f"it; medians of {options.rounds} alternating runs. Their spread is the measurement's own: 10 % is allowed."
    )
    bars = [Bar(figure="cost_ratio", at_most=1.1)]
    return [Result(name="stored", what=what, figures=figures, bars=bars, problems=problems)]
