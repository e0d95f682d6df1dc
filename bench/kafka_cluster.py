"""`make kafka-cluster`: three Apache Kafka nodes from their jars, with topics to try triggers on, until Ctrl-C."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import Sequence

from tests.support.kafka import KafkaCluster, classpath
from tests.support.ports import accepts

PORTS = (9094, 9095, 9096)
TOPICS = ("foo_topic", "bar_topic", "baz_topic", "boz_topic")
PARTITIONS = 3
_SHOWN = """
Three Kafka nodes run at {bootstrap}
Topics, with three partitions and three copies each: {topics}
Logs of the nodes: {logs}

Try, in another terminal:
  penstock topics produce {first} --bootstrap {bootstrap} --key p-88 '{{"patient": "p-88"}}'
  penstock topics tail {first} --bootstrap {bootstrap}
Kafka's own tools are in the jars too; docs/guides/kafka-cluster.md shows them:
  export CLASSPATH='{jars}'

Ctrl-C ends the nodes and removes what they hold.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make kafka-cluster", description=__doc__)
    parser.add_argument(
        "--ports", type=int, nargs=3, default=PORTS, metavar="PORT", help="other ports than 9094 to 9096"
    )
    ports: Sequence[int] = parser.parse_args(arguments).ports
    if taken := [port for port in ports if accepts(port)]:
        say(
            f"ports in use already: {', '.join(map(str, taken))}. "
            'Stop what listens there, or choose others: make kafka-cluster ARGS="--ports 19094 19095 19096"'
        )
        return 2
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    say("starting three nodes; the first time Kafka's jars are fetched")
    with KafkaCluster(len(ports), ports=ports) as cluster:
        for topic in TOPICS:
            if stop.is_set():
                break
            cluster.create_topic(topic, PARTITIONS, replication=len(ports))
        logs = ", ".join(str(broker.log) for broker in cluster.brokers)
        jars = f"{classpath().partition(':')[0].rpartition('/')[0]}/*"
        said = {"bootstrap": cluster.bootstrap, "topics": ", ".join(TOPICS), "first": TOPICS[0]}
        say(_SHOWN.format(**said, logs=logs, jars=jars))
        known = list(cluster.brokers)
        while not stop.wait(1.0):
            for broker in [broker for broker in known if not broker.is_running]:
                # To end one of them is a way to see what the other two do then.
                say(f"node {broker.node_id} at {broker.bootstrap} has ended, the others go on; its log: {broker.log}")
                known.remove(broker)
    say("the nodes have ended")
    return 0


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
