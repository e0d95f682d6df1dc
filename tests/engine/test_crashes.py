"""Actions that hang, die or take their process with them: one dead letter, and nobody else notices."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.engine import Engine, pipeline
from tests.support.kafka import KafkaBroker
from tests.support.kafka_client import Sent
from tests.support.waiting import until

WAIT_S = 90.0


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """Workers with little memory: to fill what the machine has would take a minute."""
    folder = tmp_path_factory.mktemp("crashes")
    with Engine(folder, environ={"PENSTOCK_ENGINE_WORKER_MEMORY": "1GB"}) as running:
        yield running


DEADLY = """
    import ctypes, os, re, signal, time
    from penstock import Action

    def act(event, config):
        if event.value["id"] == config["bad"]:
            how = config["how"]
            if how == "exit":
                os._exit(3)
            if how == "segfault":
                ctypes.string_at(0)
            if how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if how == "memory":
                hog = [bytearray(1 << 26) for _ in range(10_000)]
            if how == "hang":
                time.sleep(600)
            if how == "lock":
                re.match(r"(a+)+$", "a" * 60 + "b")  # holds the interpreter's lock for years
        with open(config["log"], "a") as log:
            log.write(f"{event.value['id']}\\n")

    class Batch(Action):
        parallel_safe = True

        @classmethod
        def create(cls, config, ctx):
            made = cls()
            made.config = config
            return made

        def act_batch(self, events):
            for event in events:
                act(event, self.config)
            return [None] * len(events)

        def close(self):
            pass

    def change(event, config):
        if event.value["id"] == config["bad"]:
            os._exit(3)
        return event
"""


def acted(log: Path) -> list[int]:
    return [int(line) for line in log.read_text().split()] if log.exists() else []


def numbered(count: int) -> list[Sent]:
    return [Sent(json.dumps({"id": i}).encode(), key=str(i % 7).encode()) for i in range(count)]


@pytest.fixture
def neighbour(
    engine: Engine, kafka: KafkaBroker, topic: Callable[..., str], tmp_path: Path
) -> Iterator[Callable[[], None]]:
    """A pipeline beside: called, it proves that everything sent to it has been acted on, once."""
    name, out = topic(), tmp_path / "neighbour.jsonl"
    document = pipeline(
        f"beside-{name}", kafka.bootstrap, [name], action={"type": "file", "config": {"path": str(out)}}
    )
    flow = engine.run(document)
    kafka.produce(name, numbered(50))

    def check() -> None:
        kafka.produce(name, numbered(50))
        until(lambda: kafka.offsets(flow.name).get((name, 0)) == 100, WAIT_S, lambda: f"{flow.state} {flow.reason}")
        offsets = [json.loads(line)["meta"]["kafka"]["offset"] for line in out.read_text().splitlines()]
        # At most the one event that was in flight when the process died is repeated.
        assert set(offsets) == set(range(100))
        assert len(offsets) <= 101

    yield check
    engine.stop(flow)
    assert engine.dead_letters(flow.name) == []


@pytest.mark.parametrize(
    ("how", "stage", "options"),
    [
        ("exit", "crash", {}),
        ("segfault", "crash", {"concurrency": 4}),
        ("memory", "crash", {}),
        ("hang", "timeout", {"timeout": "2s"}),
        ("hang", "timeout", {"timeout": "2s", "concurrency": 4}),
        ("lock", "timeout", {"timeout": "2s"}),
    ],
)
def test_one_deadly_event_is_one_dead_letter(  # noqa: PLR0917 - fixtures and parameters
    engine: Engine,
    kafka: KafkaBroker,
    topic: Callable[..., str],
    tmp_path: Path,
    neighbour: Callable[[], None],
    how: str,
    stage: str,
    options: dict[str, Any],
) -> None:
    engine.module("deadly.py", DEADLY)
    name, log = topic(), tmp_path / "log"
    kafka.produce(name, numbered(60))
    config = {"how": how, "bad": 33, "log": str(log)}
    action = {"type": "python", "config": {"callable": "./deadly.py:act", "config": config}}
    flow = engine.run(pipeline(f"deadly-{name}", kafka.bootstrap, [name], action=action, options=options))
    until(lambda: kafka.offsets(flow.name).get((name, 0)) == 60, WAIT_S, lambda: f"{flow.state} {flow.reason}")
    neighbour()
    engine.stop(flow)
    (letter,) = engine.dead_letters(flow.name)
    assert (letter.offset, letter.stage) == (33, stage), letter
    stored = engine.store.dead_letters.get(letter.id)
    assert stored is not None
    assert (stored.letter.value, stored.letter.key) == numbered(34)[33][:2]
    assert set(acted(log)) == set(range(60)) - {33}
    # L1: each of the two deaths repeats at most what its window had done; an event that only hangs repeats nothing.
    deaths = 2 if how in ("exit", "segfault", "lock") else 0
    assert len(acted(log)) <= 59 + deaths * (33 + options.get("concurrency", 1) - 1)


@pytest.mark.parametrize("kind", ["batch", "hanging batch", "transform"])
def test_a_deadly_event_among_many_is_found(
    engine: Engine, kafka: KafkaBroker, topic: Callable[..., str], tmp_path: Path, kind: str
) -> None:
    engine.module("deadly.py", DEADLY)
    name, log = topic(), tmp_path / "log"
    kafka.produce(name, numbered(300))
    hangs = kind.startswith("hanging")
    config = {"how": "hang" if hangs else "exit", "bad": 170, "log": str(log)}
    harmless = config | {"bad": -1}
    more: dict[str, Any] = (
        {"action": {"type": "./deadly.py:Batch", "config": config}}
        if kind.endswith("batch")
        else {
            "transform": [{"type": "python", "config": {"callable": "./deadly.py:change", "config": config}}],
            "action": {"type": "python", "config": {"callable": "./deadly.py:act", "config": harmless}},
        }
    )
    options = {"timeout": "2s"} if hangs else {}
    flow = engine.run(pipeline(f"found-{kind}", kafka.bootstrap, [name], options=options, **more))
    until(lambda: kafka.offsets(flow.name).get((name, 0)) == 300, WAIT_S, lambda: f"{flow.state} {flow.reason}")
    engine.stop(flow)
    (letter,) = engine.dead_letters(flow.name)
    assert (letter.offset, letter.stage) == (170, "timeout" if hangs else "crash")
    assert set(acted(log)) == set(range(300)) - {170}


SLOW = """
    import os, time
    from pathlib import Path
    from penstock import Action

    class Slow(Action):
        @classmethod
        def create(cls, config, ctx):
            with open(config["log"], "a") as log:
                log.write(f"{os.getpid()}\\n")
            while not Path(config["go"]).exists():
                time.sleep(0.05)
            return cls()

        def close(self):
            pass
"""


def test_an_action_that_is_slow_to_make_is_not_blamed_for_a_slow_machine(
    engine: Engine, kafka: KafkaBroker, topic: Callable[..., str], tmp_path: Path
) -> None:
    name, log, go = topic(), tmp_path / "made", tmp_path / "go"
    file = engine.module("slow.py", SLOW)
    config = {"log": str(log), "go": str(go)}
    kafka.produce(name, numbered(1))
    flow = engine.run(
        pipeline(f"slow-{name}", kafka.bootstrap, [name], action={"type": f"{file}:Slow", "config": config})
    )
    until(lambda: acted(log), WAIT_S, lambda: f"the action is being made: {flow.state} {flow.reason}")
    lanes = engine.instance.dispatcher.lanes.values()
    until(lambda: any(lane.detached and lane.busy_until for lane in lanes), WAIT_S, "a window that waits for it")
    java = engine.instance.spark._process
    assert java is not None
    java.send_signal(signal.SIGSTOP)
    frozen_until = time.monotonic() + 9.0  # longer than the window and what it may be late by itself
    until(lambda: time.monotonic() > frozen_until, 20, "the time of the fault")
    java.send_signal(signal.SIGCONT)
    go.touch()
    until(lambda: kafka.lag(flow.name, name) == 0, WAIT_S, lambda: f"{flow.state} {flow.reason}")
    assert len(acted(log)) == 1, "its process was killed while nothing was wrong with it"
    engine.stop(flow)
