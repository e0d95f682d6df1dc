"""A console over a store with a pipeline kept in it, notices, and as much of an instance as taps and Spark's figures
need: `python -m tests.faces.console.steering FOLDER`. It ends when its standard input does."""

from __future__ import annotations

import json
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from fastapi import FastAPI

from penstock.api.app import mount_api
from penstock.api.server import HttpServer
from penstock.config.http_settings import HttpSettings, MaskRule
from penstock.config.settings import Settings, StoreSettings
from penstock.config.spec import PipelineSpec
from penstock.console.app import mount
from penstock.console.data import Data
from penstock.core.ids import new_id
from penstock.engine.pipelines.stats import PipelineStats
from penstock.engine.spark.job_stats import SparkJobStats
from penstock.engine.taps import Taps
from penstock.pipeline.samples import Sample
from penstock.service.authentication import Authentication
from penstock.service.health import STARTING
from penstock.service.logs import configure_logs
from penstock.service.masking import Masking
from penstock.service.operations.desk import Desk
from penstock.store import Store
from penstock.store.workflow_tables import projects, triggers, workflows
from penstock.workflows.notices import gather
from tests.faces.console.seeding import BIDI, INSTANCE, MARKUP, Pulse, letter, seed

LARGE = 10_000_000
"""Bytes of a dead letter's value."""

KEPT = """\
name: kept-orders
source:
  type: kafka
  config:
    connection: {bootstrap: "localhost:9092"}
    topics: [orders]
    format: json
action: {type: hello_world}
"""


@dataclass
class Spark:
    master: str = "local[128]"
    cores: int = 2
    book: SparkJobStats = field(default_factory=SparkJobStats)

    @property
    def jobs(self) -> int:
        return self.book.jobs


@dataclass
class Flow:
    name: str
    spec: PipelineSpec
    stats: PipelineStats = field(default_factory=PipelineStats)


class Instance:
    """Hands samples to whoever looks at `large-orders`, as its units would."""

    def __init__(self) -> None:
        self.id, self.taps, self.spark = INSTANCE, Taps(), Spark()
        config = {"connection": {"bootstrap": "127.0.0.1:1"}, "topics": ["large"], "format": "json"}
        document: dict[str, Any] = {
            "source": {"type": "kafka", "config": config},
            "filters": [{"type": "cel", "config": {"expression": "event.total > 100.0"}}],
            "transform": [{"type": "drop", "config": {"fields": ["internal"]}}],
            "action": {"type": "hello_world"},
        }
        self.runners = [
            Flow(name, PipelineSpec.model_validate(document | {"name": name}))
            for name in ("large-orders", "kept-orders")
        ]
        with self.spark.book.job("shared-0", ["large-orders", "kept-orders"]):
            pass
        self.over = threading.Event()
        self._feeding = threading.Thread(target=self._feed, daemon=True)
        self._feeding.start()

    def snapshot(self) -> list[Any]:
        return []

    def stop(self) -> None:
        self.over.set()
        self._feeding.join(5)

    def _feed(self) -> None:
        offset = 0
        while not self.over.wait(0.2):
            wish = self.taps.wish("large-orders", 1)
            for stage in wish or ():
                offset += 1
                made = Sample(stage, 0, "large", 0, offset, 1_700_000_000_000, BIDI)
                made.value = json.dumps({"id": offset, "card": "4111-1111-1111", "note": MARKUP})
                if stage == "filter":
                    made.became = "dropped"
                if stage == "act":
                    made.became, made.why = "failed", f"ValueError: {MARKUP}"
                self.taps.give("large-orders", [made])


def tell(store: Store) -> None:
    """A trigger whose admins were told of a failure, with another one waiting."""
    project, workflow, trigger = new_id(), new_id(), new_id()
    times = {"inserted_at": 1, "updated_at": 1}
    with store.database.write() as connection:
        connection.execute(sa.insert(projects), {"id": project, "name": "health", **times})
        row = {"id": workflow, "project_id": project, "name": MARKUP, **times}
        connection.execute(sa.insert(workflows), row)
        connection.execute(sa.insert(triggers), {"id": trigger, "workflow_id": workflow, "name": "kafka", **times})
        connection.execute(sa.update(triggers).values(notified_at=4_000_000_000_000_000))
        gather(connection, trigger, [("lab", 0, offset) for offset in range(7)], 1_700_000_000_000_000)
    data = {"count": 31, "since": 1, "until": 2, "messages": ["lab/0@1"], "recipients": ["ada@example.org"]}
    store.pipelines.note(f"trigger-{trigger}", None, "notified", "31 messages", data | {"services": ["slack"]})


def main(folder: Path) -> None:
    url = f"sqlite:///{folder / 'penstock.db'}"
    settings = Settings(home=folder, store=StoreSettings(url=url), http=HttpSettings(auth="off"))
    settings.api.networks.append("localhost")
    with Store.open(url) as store:
        seed(store, letters=False)
        store.dead_letters.record([letter(70, value=json.dumps({"blob": "x" * LARGE, "note": MARKUP}).encode())])
        tell(store)
        store.managed.create("kept-orders", KEPT, by="ada")
        instance = Instance()
        desk = Desk(store, settings, lambda: instance)  # type: ignore[arg-type, return-value]  # a part of one
        desk.masking = Masking([MaskRule(topic="large", fields=["card"])])
        authentication = Authentication(store, settings)

        def extend(app: FastAPI) -> None:
            mount_api(app, desk, authentication)
            mount(app, Data(desk, authentication))

        server = HttpServer(health=lambda: STARTING, metrics=lambda: b"", port=0, extend=extend)
        pulse = Pulse(store, works=False)
        pulse.start()
        print(server.start(), flush=True)  # noqa: T201 - whoever started this reads it
        sys.stdin.read()
        server.stop()
        pulse.stop()
        instance.stop()


if __name__ == "__main__":
    configure_logs()  # to where `served` looks for tracebacks
    main(Path(sys.argv[1]))
