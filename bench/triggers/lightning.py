"""Lightning's way, as little of it as is fair: `python -m bench.triggers.lightning …` writes tracking row, dataclip,
work order and run of each message in one transaction, then takes the next. Without Lightning's look-ups, limits and
foreign keys, and with prepared statements; offsets are committed every five seconds, as there."""

from __future__ import annotations

import argparse
import json
import time
import uuid
from typing import Final

import orjson
import psycopg
from confluent_kafka import Consumer, Message
from psycopg.types.json import Jsonb

TABLES: Final = """
CREATE TABLE trigger_kafka_message_records (
    trigger_id uuid NOT NULL, topic_partition_offset text NOT NULL, inserted_at timestamp NOT NULL DEFAULT now(),
    PRIMARY KEY (trigger_id, topic_partition_offset));
CREATE TABLE dataclips (
    id uuid PRIMARY KEY, body jsonb, request jsonb, type text NOT NULL, project_id uuid NOT NULL,
    inserted_at timestamp NOT NULL DEFAULT now(), updated_at timestamp NOT NULL DEFAULT now());
CREATE TABLE work_orders (
    id uuid PRIMARY KEY, state text NOT NULL, last_activity timestamp NOT NULL DEFAULT now(), workflow_id uuid NOT NULL,
    snapshot_id uuid NOT NULL, trigger_id uuid NOT NULL, dataclip_id uuid NOT NULL,
    inserted_at timestamp NOT NULL DEFAULT now(), updated_at timestamp NOT NULL DEFAULT now());
CREATE INDEX ON work_orders (workflow_id);
CREATE TABLE runs (
    id uuid PRIMARY KEY, work_order_id uuid NOT NULL, starting_trigger_id uuid NOT NULL, dataclip_id uuid NOT NULL,
    snapshot_id uuid NOT NULL, state text NOT NULL, priority smallint NOT NULL, queue text NOT NULL,
    options jsonb, inserted_at timestamp NOT NULL DEFAULT now(), updated_at timestamp NOT NULL DEFAULT now());
CREATE INDEX ON runs (work_order_id);
CREATE INDEX ON runs (state);
"""
_TRACK: Final = "INSERT INTO trigger_kafka_message_records (trigger_id, topic_partition_offset) VALUES (%s, %s)"
_CLIP: Final = "INSERT INTO dataclips (id, body, request, type, project_id) VALUES (%s, %s, %s, 'kafka', %s)"
_ORDER: Final = (
    "INSERT INTO work_orders (id, state, workflow_id, snapshot_id, trigger_id, dataclip_id)"
    " VALUES (%s, 'pending', %s, %s, %s, %s)"
)
_RUN: Final = (
    "INSERT INTO runs (id, work_order_id, starting_trigger_id, dataclip_id, snapshot_id, state, priority, queue)"
    " VALUES (%s, %s, %s, %s, %s, 'available', 1, 'default')"
)


class Taker:
    """One trigger's messages into one connection."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection
        self._project, self._workflow, self._snapshot, self._trigger = (uuid.uuid4() for _ in range(4))

    def take(self, message: Message) -> None:
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        body = orjson.loads(message.value() or b"")
        request = {"topic": topic, "partition": partition, "offset": offset, "key": "", "ts": message.timestamp()[1]}
        clip, order, run = uuid.uuid4(), uuid.uuid4(), uuid.uuid4()
        with self._connection.transaction(), self._connection.cursor() as cursor:
            cursor.execute(_TRACK, (self._trigger, f"{topic}_{partition}_{offset}"))
            cursor.execute(_CLIP, (clip, Jsonb(body), Jsonb({**request, "headers": []}), self._project))
            cursor.execute(_ORDER, (order, self._workflow, self._snapshot, self._trigger, clip))
            cursor.execute(_RUN, (run, order, self._trigger, clip, self._snapshot))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--bootstrap", "--topic", "--group", "--url"):
        parser.add_argument(name, required=True)
    parser.add_argument("--count", type=int, required=True)
    given = parser.parse_args()
    consumer = Consumer(
        {
            "bootstrap.servers": given.bootstrap,
            "group.id": given.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": True,
            "auto.commit.interval.ms": 5_000,
            "fetch.queue.backoff.ms": 5,
        }
    )
    consumer.subscribe([given.topic])
    done, began = 0, 0.0
    with psycopg.connect(given.url, autocommit=True, prepare_threshold=1) as connection:
        connection.execute(TABLES.encode())
        taker = Taker(connection)
        while done < given.count:
            for message in consumer.consume(min(500, given.count - done), 1.0):
                began = began or time.perf_counter()
                taker.take(message)
                done += 1
    seconds = time.perf_counter() - began
    consumer.close()
    print(json.dumps({"messages": done, "seconds": seconds}))


if __name__ == "__main__":
    main()
