"""A run under test: a topic that is fed, instances that come and go, and everything that is needed to judge it."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from penstock.core.commit_metadata import decode
from penstock.engine.pipelines.runner import PipelineRunner
from penstock.store import DeadLetterFilter, DeadLetterRow, Store
from tests.faults import effects
from tests.faults.checker import NOTHING, Allowance, At, Committed, Effect, History, Produced, Report, assert_kept
from tests.support.commit_log import CommitLog, LoggedCommit
from tests.support.engine import Engine, pipeline
from tests.support.instance import PenstockProcess
from tests.support.kafka_client import KafkaClient
from tests.support.waiting import until

WAIT_S = 120.0
WINDOW = 200
"""Events that a window under test acts on at most (`window.max_records`): what a kill may repeat per partition."""
SESSION_S = 4.0
EFFECTS = str(Path(effects.__file__ or "").resolve())


@dataclass(frozen=True)
class Way:
    """A way of acting: the plug-in (a function, where it has no name), its options, and the order that it keeps."""

    plugin: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    ordering: Literal["partition", "key", "none"] = "partition"

    def action(self, config: dict[str, Any]) -> dict[str, Any]:
        if self.plugin is not None:
            return {"type": f"{EFFECTS}:{self.plugin}", "config": config}
        return {"type": "python", "config": {"callable": f"{EFFECTS}:act", "config": config}}


WAYS: dict[str, Way] = {
    "plain": Way(),
    "batch": Way("Batched"),
    "keyed": Way(options={"ordering": "key", "concurrency": 8}, ordering="key"),
    "unordered": Way(options={"ordering": "none", "concurrency": 8}, ordering="none"),
    "deferred": Way("Deferring"),
}

Values = Callable[[int], bytes | None]
"""The value of the event with this number."""


def plain(seq: int) -> bytes:
    return json.dumps({"seq": seq}).encode()


class Feed:
    """Produces numbered events evenly to all partitions until told to stop, and remembers where each went."""

    def __init__(
        self,
        kafka: KafkaClient,
        topic: str,
        partitions: int,
        *,
        rate: float = 200.0,
        keys: int = 8,
        values: Values = plain,
    ) -> None:
        self.produced: list[Produced] = []
        self._topic, self._partitions, self._keys, self._values = topic, partitions, keys, values
        self._pause = 4 / rate
        self._failed: list[str] = []
        self._stop = threading.Event()
        self._seq = 0
        # A record is never given up: one that was written although the client gave it up would look like a phantom.
        settings = {"linger.ms": 5, "acks": "all", "enable.idempotence": True, "message.timeout.ms": 0}
        self._producer = Producer(
            {"bootstrap.servers": kafka.bootstrap, "reconnect.backoff.max.ms": 500, "log_level": 0, **settings}
        )
        self._thread = threading.Thread(target=self._run, name=f"feed-{topic}", daemon=True)

    def send(self, count: int) -> None:
        """Some events at once; returns when they are written."""
        for _ in range(count):
            self._one()
        self._producer.flush(WAIT_S)

    def _one(self) -> None:
        seq, self._seq = self._seq, self._seq + 1
        key = f"k{seq % self._keys}"

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self._failed.append(error.str())
            else:
                at = At(self._topic, message.partition() or 0, message.offset() or 0)
                self.produced.append(Produced(at, key, seq))

        # A key belongs to one partition, as a partitioner would have it.
        partition = seq % self._keys % self._partitions
        while True:
            try:
                self._producer.produce(
                    self._topic, self._values(seq), key.encode(), partition=partition, on_delivery=delivered
                )
            except BufferError:
                self._producer.poll(0.1)
            else:
                return

    def _run(self) -> None:
        while not self._stop.wait(self._pause):
            for _ in range(4):
                self._one()
            self._producer.poll(0)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(30)
        left = self._producer.flush(WAIT_S)
        assert not left, f"{left} events could not be produced"
        assert not self._failed, f"events could not be produced: {self._failed[:3]}"


class CommitWatch:
    """Every commit of a group, in the broker's order and with the broker's time: also one that another follows at once,
    and one that is ahead of its events by a millisecond."""

    def __init__(self, kafka: KafkaClient, group: str) -> None:
        self.seen: list[Committed] = []
        """Each change."""
        self._latest: dict[tuple[str, int], tuple[int | None, str]] = {}
        self._log = CommitLog(kafka, group)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"commits-{group}", daemon=True)

    def _take(self, commits: Iterable[LoggedCommit]) -> None:
        shift = time.monotonic() - time.time()
        for commit in commits:
            place = commit.topic, commit.partition
            if self._latest.get(place) == (commit.offset, commit.metadata):
                continue
            self._latest[place] = (commit.offset, commit.metadata)
            if commit.offset is not None:
                note = decode(commit.offset, commit.metadata)
                # The broker's time is cut to milliseconds: what happened within this one happened before.
                at = (commit.at_ms + 1) / 1000 + shift
                self.seen.append(Committed(place, commit.offset, at, note.next_offset, note.pending))

    def _run(self) -> None:
        while not self._stop.wait(0.02):
            with contextlib.suppress(KafkaException):  # the broker may be the one that is under test
                self._take(self._log.read(0.2))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def finish(self) -> None:
        """Read to the end of the log as it is now, and no further."""
        if self._stop.is_set():
            return
        self._stop.set()
        self._thread.join(60)
        until(self._last_look, WAIT_S, "the broker to tell its commits")
        self._log.close()

    def __exit__(self, *_: object) -> None:
        self.finish()

    def _last_look(self) -> bool:
        with contextlib.suppress(KafkaException):
            self._take(self._log.rest())
            return True
        return False


class Scene:
    """One pipeline on one topic, from the first event to the verdict."""

    def __init__(
        self,
        kafka: KafkaClient,
        folder: Path,
        name: str,
        *,
        partitions: int = 4,
        replication: int = 1,
        work_s: float = 0.0,
        rate: float = 200.0,
        values: Values = plain,
        way: str = "plain",
        env: Mapping[str, str] | None = None,
        options: Mapping[str, Any] | None = None,
        source: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> None:
        self.kafka, self.folder, self.name, self.way = kafka, folder, name, WAYS[way]
        self.topic = kafka.create_topic(f"{name}-{os.getpid()}", partitions, replication=replication)
        folder.mkdir(parents=True, exist_ok=True)
        self.log = folder / "effects.jsonl"
        self.failpoints = folder / "failpoints"
        self.failpoints.mkdir(exist_ok=True)
        self.file = folder / "pipeline.json"
        self.document = pipeline(
            name,
            kafka.bootstrap,
            [self.topic],
            source=dict(source or {}),
            action=self.way.action({"log": str(self.log), "work_s": work_s}),
            options={"window": {"max_records": WINDOW}} | dict(self.way.options) | dict(options or {}),
        )
        self.document |= more
        self.file.write_text(json.dumps(self.document))
        self.env = {
            "PENSTOCK_HOME": str(folder / "home"),
            "PENSTOCK_FAILPOINTS": str(self.failpoints),
            "PENSTOCK_ENGINE_SESSION_TIMEOUT": f"{SESSION_S:g}s",
            "PENSTOCK_ENGINE_HOT_LANES": "1",
            "PENSTOCK_ENGINE_CARPOOL_LANES": "1",
        } | dict(env or {})
        self.feed = Feed(kafka, self.topic, partitions, rate=rate, values=values)
        self.commits = CommitWatch(kafka, name)
        self.instances: list[PenstockProcess] = []
        self.begun = time.monotonic()

    # -- instances -------------------------------------------------------------------------

    def run_in(self, engine: Engine) -> PipelineRunner:
        """The pipeline in an instance of the test's own process."""
        self.env["PENSTOCK_STORE_URL"] = engine.settings.store_url
        return engine.run(self.document)

    def start(self, *, ready: bool = True, **env: str) -> PenstockProcess:
        """One more instance of the pipeline."""
        folder = self.folder / f"instance-{len(self.instances) + 1}"
        named = {"PENSTOCK_TEST_INSTANCE": folder.name}
        process = PenstockProcess(["run", self.file], folder=folder, env=self.env | named | env)
        self.instances.append(process.start())
        return process.wait_ready(WAIT_S) if ready else process

    def set(self, failpoint: str, what: str) -> None:
        # Appears whole: the instance must not read half a word.
        half = self.failpoints / f".{failpoint}"
        half.write_text(what)
        half.rename(self.failpoints / failpoint)

    def clear(self, failpoint: str) -> None:
        (self.failpoints / failpoint).unlink(missing_ok=True)
        (self.failpoints / f"{failpoint}.held").unlink(missing_ok=True)

    def held(self, failpoint: str) -> None:
        """Wait until a process is held at this place, where `wait` was set."""
        held = self.failpoints / f"{failpoint}.held"
        until(held.exists, WAIT_S, lambda: f"a process to be held at {failpoint}; {self.story()}")

    # -- what has happened -----------------------------------------------------------------

    def effects(self) -> list[Effect]:
        if not self.log.exists():
            return []
        # The last line may be half written.
        lines = self.log.read_bytes().rpartition(b"\n")[0].splitlines()
        return [
            Effect(At(t, p, o), key, seq, time_, pid, began, instance)
            for t, p, o, key, seq, time_, pid, began, instance in map(json.loads, lines)
        ]

    def count(self) -> int:
        return self.log.read_bytes().count(b"\n") if self.log.exists() else 0

    def more(self, count: int, deadline_s: float = WAIT_S) -> None:
        """Wait for so many further effects."""
        before = self.count()
        until(lambda: self.count() >= before + count, deadline_s, lambda: f"{count} effects more; {self.story()}")

    def letters(self) -> list[DeadLetterRow]:
        url = self.env.get("PENSTOCK_STORE_URL") or f"sqlite:///{self.folder / 'home' / 'penstock.db'}"
        with Store.open(url, create=False) as store:
            return store.dead_letters.list(DeadLetterFilter(pipeline=self.name), limit=1_000_000)

    def lag(self) -> int:
        return self.kafka.lag(self.name, self.topic)

    def owners(self) -> list[int]:
        """How many partitions each member of the group has."""
        return sorted(map(len, self.kafka.members(self.name).values()))

    def story(self) -> str:
        logs = "\n".join(f"-- {p.folder.name}\n{p.log[-2500:]}" for p in self.instances)
        with contextlib.suppress(KafkaException):
            return f"{self.count()} effects, lag {self.lag()}, owners {self.owners()}\n{logs}"
        return f"{self.count()} effects\n{logs}"

    # -- the end ---------------------------------------------------------------------------

    def caught_up(self, deadline_s: float = WAIT_S) -> None:
        def done() -> bool:
            with contextlib.suppress(KafkaException):
                return self.lag() == 0
            return False

        until(done, deadline_s, lambda: f"the pipeline to catch up; {self.story()}", every_s=0.2)

    def history(self) -> History:
        return History(
            produced=self.feed.produced,
            effects=self.effects(),
            commits=self.commits.seen,
            dead_letters={At(row.topic, row.partition, row.offset) for row in self.letters()},
        )

    def verdict(self, allowed: Allowance = NOTHING, **how: Any) -> Report:
        """Once everything has stopped: fail with a readable report unless everything was kept."""
        filtered = how.pop("filtered", None)
        how.setdefault("ordering", self.way.ordering)
        history = self.history()
        if filtered is not None:
            history.filtered = filtered
        report = assert_kept(history, allowed=allowed, **how)
        assert report.took_effect, "nothing took effect: the run proves nothing"
        return report

    def stop_all(self) -> None:
        """Graceful stop; every instance must have lived until now, and end with 0."""
        assert all(process.running for process in self.instances), self.story()
        self.stop_all_living()

    def stop_all_living(self) -> None:
        """Graceful stop of those that still run; each must end with 0."""
        running = [process for process in self.instances if process.running]
        for process in running:
            process.terminate()
        codes = [process.wait(60) for process in running]
        assert codes == [0] * len(running), f"instances ended with {codes}; {self.story()}"

    def __enter__(self) -> Self:
        self.commits.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.feed._stop.set()
        for process in self.instances:
            process.close()
        self.commits.__exit__()


@contextlib.contextmanager
def fed(scene: Scene) -> Iterator[Feed]:
    """The scene's feed while the block runs, then everything written and worked on."""
    with scene.feed as feed:
        yield feed
    scene.caught_up()
