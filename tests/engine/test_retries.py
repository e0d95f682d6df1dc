"""Retries: what failed is tried again as configured, in order, without holding up anyone else."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.engine.pipelines.runner import PipelineRunner
from tests.support.engine import Engine, pipeline
from tests.support.kafka import KafkaBroker
from tests.support.kafka_client import Sent
from tests.support.waiting import until

WAIT_S = 60.0

FLAKY = """
    import json, time
    from pathlib import Path

    def act(event, config):
        place = event.meta["kafka"]
        with open(config["log"], "a") as log:
            log.write(json.dumps([place["partition"], place["offset"], time.time()]) + "\\n")
        if event.value["id"] in config["bad"] and not Path(config["cure"]).exists():
            raise ValueError(f"no {event.value['id']}")
"""


def python(path: str, **config: Any) -> dict[str, Any]:
    return {"type": "python", "config": {"callable": path, "config": config}}


def attempts(log: Path) -> list[tuple[int, int, float]]:
    return [tuple(json.loads(line)) for line in log.read_text().splitlines()] if log.exists() else []


def numbered(count: int) -> list[bytes]:
    return [json.dumps({"id": i}).encode() for i in range(count)]


def test_attempts_are_spaced_and_used_up_then_there_is_one_dead_letter(
    engine: Engine, kafka: KafkaBroker, topic: Callable[..., str], tmp_path: Path
) -> None:
    engine.module("flaky.py", FLAKY)
    name, log = topic(), tmp_path / "log"
    kafka.produce(name, numbered(6))
    action = python("./flaky.py:act", log=str(log), bad=[2], cure=str(tmp_path / "cure"))
    retry = {"attempts": 3, "backoff": "200ms", "factor": 3, "jitter": 0}
    flow = engine.run(pipeline("spaced", kafka.bootstrap, [name], action=action, options={"retry": retry}))
    until(lambda: kafka.offsets("spaced").get((name, 0)) == 6, WAIT_S, lambda: f"{flow.reason} {attempts(log)}")
    engine.stop(flow)

    assert [offset for _, offset, _ in attempts(log)] == [0, 1, 2, 2, 2, 3, 4, 5], "in order, retries included"
    first, second, third = [at for _, offset, at in attempts(log) if offset == 2]
    assert second - first >= 0.2
    assert third - second >= 0.6
    (letter,) = engine.dead_letters("spaced")
    assert (letter.offset, letter.attempts, letter.stage) == (2, 3, "act")
    assert letter.last_failed_at - letter.first_failed_at >= 800


def test_a_long_back_off_holds_its_partition_only_and_survives_a_restart(
    engine: Engine, kafka: KafkaBroker, topic: Callable[..., str], tmp_path: Path
) -> None:
    engine.module("flaky.py", FLAKY)
    name, log, cure = topic(partitions=2), tmp_path / "log", tmp_path / "cure"
    kafka.produce(name, [Sent(value, partition=1) for value in numbered(4)])
    kafka.produce(name, [Sent(json.dumps({"id": 100 + i}).encode(), partition=0) for i in range(4)])
    action = python("./flaky.py:act", log=str(log), bad=[1], cure=str(cure))
    retry = {"attempts": 20, "backoff": "3s", "factor": 1, "jitter": 0}
    document = pipeline("patient", kafka.bootstrap, [name], action=action, options={"retry": retry})
    flow = engine.run(document)
    until(lambda: kafka.offsets("patient").get((name, 0)) == 4, WAIT_S, "the other partition to go on")
    assert kafka.offsets("patient").get((name, 1)) == 1
    until(lambda: len([a for a in attempts(log) if a[:2] == (1, 1)]) >= 2, WAIT_S, "a second attempt")
    until(lambda: flow.partitions.get((name, 1)).unit is None, WAIT_S, "no slot to be held by a wait")
    engine.stop(flow)
    before = len([a for a in attempts(log) if a[:2] == (1, 1)])
    first = attempts(log)[0][2]

    retry["attempts"] = before + 1
    again = engine.run(document)
    until(lambda: kafka.offsets("patient").get((name, 1)) == 4, WAIT_S, lambda: f"{again.reason} {attempts(log)}")
    engine.stop(again)
    (letter,) = engine.dead_letters("patient")
    assert letter.attempts == before + 1, "attempts made before the restart count"
    assert letter.first_failed_at <= first * 1000 + 3000, "the first failure was before the restart"


def test_a_failing_key_blocks_only_its_key(
    engine: Engine, kafka: KafkaBroker, topic: Callable[..., str], tmp_path: Path
) -> None:
    engine.module("flaky.py", FLAKY)
    name, log, cure = topic(), tmp_path / "log", tmp_path / "cure"
    kafka.produce(name, [Sent(value, key=str(i % 10).encode()) for i, value in enumerate(numbered(2_000))])
    action = python("./flaky.py:act", log=str(log), bad=[3], cure=str(cure))
    options = {"concurrency": 8, "retry": {"attempts": 1000, "backoff": "500ms", "factor": 1}}
    document = pipeline("keyed", kafka.bootstrap, [name], action=action, options=options)
    flow = engine.run(document)

    def done() -> set[int]:
        return {offset for _, offset, _ in attempts(log)}

    others = {offset for offset in range(2_000) if offset % 10 != 3}
    until(lambda: others <= done(), WAIT_S, lambda: f"{len(done())} acted on, {flow.reason}")
    until(lambda: kafka.offsets("keyed").get((name, 0)) == 3, WAIT_S, "the commit before the failing key")
    engine.stop(flow)
    at_stop = len(attempts(log))

    cure.touch()
    again = engine.run(document)
    until(lambda: kafka.offsets("keyed")[name, 0] == 2_000, WAIT_S, lambda: f"{again.reason}")
    engine.stop(again)
    later = [offset for _, offset, _ in attempts(log)[at_stop:]]
    assert sorted(later) == [offset for offset in range(2_000) if offset % 10 == 3], "nothing else was repeated"
    assert later == sorted(later), "and the key stayed in order"
    assert engine.dead_letters("keyed") == []


def _repeats(engine: Engine, kafka: KafkaBroker, name: str, scope: str, log: Path) -> PipelineRunner:
    kafka.produce(name, numbered(1))
    return engine.run(
        pipeline(
            f"scope-{scope}",
            kafka.bootstrap,
            [name],
            transform=[python("./stages.py:change", log=str(log))],
            action=python("./stages.py:act", log=str(log)),
            options={"retry": {"attempts": 5, "backoff": "10ms", "scope": scope, "on": ["OSError"]}},
        )
    )


def test_only_the_failed_stage_is_repeated(
    engine: Engine, kafka: KafkaBroker, topic: Callable[..., str], tmp_path: Path
) -> None:
    engine.module(
        "stages.py",
        """
        from pathlib import Path

        def _note(config, what):
            with open(config["log"], "a") as log:
                log.write(what + "\\n")

        def change(event, config):
            _note(config, "transform")
            return event

        def act(event, config):
            _note(config, "act")
            if Path(config["log"]).read_text().count("act") < 3:
                raise OSError("not yet")
        """,
    )
    logs = {scope: tmp_path / scope for scope in ("stage", "chain")}
    flows = [_repeats(engine, kafka, topic(), scope, log) for scope, log in logs.items()]
    until(lambda: all(log.exists() and log.read_text().count("act") == 3 for log in logs.values()), WAIT_S, str(logs))
    for flow in flows:
        engine.stop(flow)
    assert logs["stage"].read_text().split() == ["transform", "act", "act", "act"]
    assert logs["chain"].read_text().split() == ["transform", "act"] * 3


def test_a_rate_limit_is_kept_over_windows(
    engine: Engine, kafka: KafkaBroker, topic: Callable[..., str], tmp_path: Path
) -> None:
    engine.module("flaky.py", FLAKY)
    name, log = topic(), tmp_path / "log"
    kafka.produce(name, numbered(200))
    action = python("./flaky.py:act", log=str(log), bad=[], cure=str(tmp_path / "cure"))
    flow = engine.run(pipeline("paced", kafka.bootstrap, [name], action=action, options={"rate_limit": "50/s"}))
    until(lambda: kafka.offsets("paced").get((name, 0)) == 200, WAIT_S, lambda: f"{flow.reason}")
    engine.stop(flow)
    times = [at for _, _, at in attempts(log)]
    assert len(times) == 200
    assert 3.7 < times[-1] - times[0] < 8
    # No burst: in any half second at most what the rate gives, with what one step lets through.
    assert max(sum(1 for t in times if at <= t < at + 0.5) for at in times) <= 32


def test_too_many_failures_pause_the_pipeline_and_a_trial_resumes_it(
    engine: Engine, kafka: KafkaBroker, topic: Callable[..., str], tmp_path: Path
) -> None:
    engine.module("flaky.py", FLAKY)
    name, log, cure = topic(), tmp_path / "log", tmp_path / "cure"
    kafka.produce(name, numbered(1_000))
    action = python("./flaky.py:act", log=str(log), bad=list(range(1_000)), cure=str(cure))
    breaker = {"ratio": 0.5, "window": 20, "resume_after": "2s"}
    flow = engine.run(pipeline("breaks", kafka.bootstrap, [name], action=action, options={"breaker": breaker}))
    until(lambda: flow.state == "paused", WAIT_S, lambda: f"{flow.state} {flow.reason}")
    assert "of the last 20 events failed" in (flow.reason or "")
    assert len(engine.dead_letters("breaks")) == 20
    until(lambda: len(engine.dead_letters("breaks")) == 40, WAIT_S, "a trial that fails")
    until(lambda: flow.state == "paused", WAIT_S, "the pause after it")
    cure.touch()
    until(lambda: kafka.offsets("breaks").get((name, 0)) == 1_000, WAIT_S, lambda: f"{flow.state} {flow.reason}")
    until(lambda: flow.desired.state == "running", WAIT_S, "the breaker to let go")
    engine.stop(flow)
    assert 40 <= len(engine.dead_letters("breaks")) <= 60


def test_an_event_that_is_never_acknowledged_fails_and_the_others_are_committed(
    engine: Engine, kafka: KafkaBroker, topic: Callable[..., str]
) -> None:
    engine.module(
        "defers.py",
        """
        import threading
        from penstock import Action

        class Defers(Action):
            @classmethod
            def create(cls, config, ctx):
                made = cls()
                made.ctx = ctx
                return made

            def act(self, event):
                if event.event.value["id"] != 1:
                    threading.Timer(0.2 * (5 - event.event.value["id"]), self.ctx.event_source.ack, (event,)).start()
                return False

            def close(self):
                pass
        """,
    )
    name = topic()
    kafka.produce(name, numbered(5))
    document = pipeline(
        "defers", kafka.bootstrap, [name], action={"type": "./defers.py:Defers"}, options={"deferral_timeout": "4s"}
    )
    began = time.monotonic()
    flow = engine.run(document)
    until(lambda: kafka.offsets("defers").get((name, 0)) == 5, WAIT_S, lambda: f"{flow.reason}")
    assert time.monotonic() - began >= 4
    engine.stop(flow)
    (letter,) = engine.dead_letters("defers")
    assert (letter.offset, letter.stage, letter.error_code) == (1, "timeout", "timeout")
