"""Consumers as people write them: `python -m bench.tables.reference {row,many} …`.

`row` inserts and commits each event, database and offset, before the next; `many` collects 500 for one `executemany`
and one commit."""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import orjson
import psycopg
from confluent_kafka import Consumer

MANY = 500
INSERT = (
    "INSERT INTO {table} (number, made_at, id, status, total, currency, customer, email)"
    " VALUES (%s, %s, %s, %s, %s, %s, %s, %s)"
)


def row_of(value: bytes) -> tuple[Any, ...]:
    event = orjson.loads(value)
    order, customer = event["order"], event["customer"]
    return (
        event["n"],
        event["t"],
        order["id"],
        order["status"],
        order["total"],
        order["currency"],
        customer["name"],
        customer["email"],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("way", choices=["row", "many"])
    for name in ("--bootstrap", "--topic", "--group", "--url", "--table"):
        parser.add_argument(name, required=True)
    parser.add_argument("--count", type=int, required=True)
    given = parser.parse_args()
    consumer = Consumer(
        {
            "bootstrap.servers": given.bootstrap,
            "group.id": given.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "fetch.queue.backoff.ms": 5,
        }
    )
    consumer.subscribe([given.topic])
    at_once = 1 if given.way == "row" else MANY
    statement = INSERT.format(table=given.table)
    done, began = 0, 0.0
    with psycopg.connect(given.url) as connection, connection.cursor() as cursor:
        while done < given.count:
            messages = consumer.consume(at_once, 1.0)
            if not messages:
                continue
            began = began or time.perf_counter()
            rows = [row_of(message.value() or b"") for message in messages]
            if len(rows) == 1:
                cursor.execute(statement, rows[0])  # type: ignore[arg-type]  # a text of ours
            else:
                cursor.executemany(statement, rows)  # type: ignore[arg-type]  # as above
            connection.commit()
            consumer.commit(asynchronous=False)
            done += len(rows)
    seconds = time.perf_counter() - began
    consumer.close()
    print(json.dumps({"rows": done, "seconds": seconds}))


if __name__ == "__main__":
    main()
