"""An instance in the test's own process: pipelines come and go while Spark and its lanes stay."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any, Self

from penstock.config.loading import load
from penstock.config.settings import Settings
from penstock.config.spec import PipelineSpec
from penstock.core.metrics import Metrics
from penstock.engine.instance import Instance
from penstock.engine.pipelines.runner import PipelineRunner
from penstock.service.warm_up import begin_spark
from penstock.store import DeadLetterFilter, Store
from tests.support.home import prepared_home
from tests.support.waiting import until

START_S = 90.0


class Engine:
    """One long-lived instance for a module's tests."""

    def __init__(self, folder: Path, *, environ: dict[str, str] | None = None) -> None:
        self.folder = folder
        home = prepared_home(folder / "home")
        self.settings = Settings.load({"PENSTOCK_HOME": str(home)} | (environ or {}), cwd=folder)
        self.store = Store.open(self.settings.store_url)
        self.instance = Instance(self.settings, self.store, Metrics(), begin_spark(self.settings), version="test")

    def __enter__(self) -> Self:
        self.instance.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.instance.stop()
        self.store.close()

    def spec(self, document: dict[str, Any]) -> PipelineSpec:
        """A spec as a user's file would give it."""
        file = self.folder / f"{document['name']}.json"
        file.write_text(json.dumps(document))
        loaded = load([file])
        assert not loaded.problems, [str(p) for p in loaded.problems]
        return loaded.specs[0]

    def run(self, document: dict[str, Any], *, assigned: bool = True) -> PipelineRunner:
        """Start a pipeline; returns when it has its partitions."""
        flow = self.instance.add(self.spec(document))
        if assigned:
            until(
                lambda: flow.membership.settled,
                START_S,
                lambda: f"{flow.name} has no partitions: {flow.state} {flow.reason}",
            )
        return flow

    def stop(self, flow: PipelineRunner) -> None:
        self.instance.remove(flow.name)

    def module(self, name: str, source: str) -> Path:
        """A Python file beside the pipelines."""
        file = self.folder / name
        file.write_text(textwrap.dedent(source))
        return file

    def dead_letters(self, pipeline: str) -> list[Any]:
        return self.store.dead_letters.list(DeadLetterFilter(pipeline=pipeline), limit=10_000)


def pipeline(name: str, bootstrap: str, topics: list[str] | str, **more: Any) -> dict[str, Any]:
    """A pipeline document; `source` keys and others may be given by name."""
    config: dict[str, Any] = {"connection": {"bootstrap": bootstrap}, "format": "json", "start": "earliest"}
    config |= {"topic_pattern": topics} if isinstance(topics, str) else {"topics": topics}
    config |= more.pop("source", {})
    return {
        "name": name,
        "source": {"type": "kafka", "config": {k: v for k, v in config.items() if v is not None}},
    } | more


def lines(path: Path) -> list[Any]:
    """The JSON lines of a file so far; its last one counts when it is whole, for its writer may be at it, or dead."""
    if not path.exists():
        return []
    return [
        json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n") and line.strip()
    ]


def coordinates(path: Path) -> list[tuple[str, int, int]]:
    """Topic, partition and offset of each event that the `file` action wrote, in order."""
    return [(k["topic"], k["partition"], k["offset"]) for k in (line["meta"]["kafka"] for line in lines(path))]
