"""I3: a dead letter holds the record's original bytes, key, headers, coordinates and timestamp, bit for bit."""

from __future__ import annotations

import random
import time
from pathlib import Path

from tests.faults.scene import EFFECTS, WAIT_S, Scene
from tests.support.engine import Engine
from tests.support.kafka import KafkaBroker
from tests.support.kafka_client import Sent
from tests.support.waiting import until

STAGES = {"raise": "act", "transform": "transform", "filter": "filter"}


def record(dice: random.Random, seq: int) -> Sent:
    """Anything a producer may send; some are JSON that fails at a later stage, the rest cannot be decoded."""
    value: bytes | None = b"\xff" + dice.randbytes(dice.choice([0, 10, 70_000]))
    if seq % 2:
        value = f' {{"seq":{seq},\t"do": "{dice.choice(list(STAGES))}", "text": "\\u00e9é\U0001f600"}}\n'.encode()
    names = ["a", "a", "b", "é", "", "A"]
    headers = [(dice.choice(names), dice.choice([None, b"", dice.randbytes(9)])) for _ in range(dice.randint(0, 7))]
    key = dice.choice([None, b"", b"\x00", "k\u00e9y".encode(), dice.randbytes(300)])
    # Not older than a day: the broker would soon drop them.
    return Sent(value, key, headers or None, timestamp=int(time.time() * 1000) - dice.randrange(86_400_000))


def test_i03_poison_of_any_bytes_is_kept_bit_for_bit(engine: Engine, kafka: KafkaBroker, tmp_path: Path) -> None:
    steps = {
        "filters": [{"type": f"{EFFECTS}:Choosy"}],
        "transform": [{"type": "python", "config": {"callable": f"{EFFECTS}:change"}}],
    }
    dice = random.Random(7)
    options = {"breaker": {"enabled": False}}
    with Scene(kafka, tmp_path, "i03", partitions=2, options=options, **steps) as scene:
        kafka.produce(scene.topic, [record(dice, seq) for seq in range(60)])
        flow = scene.run_in(engine)
        scene.caught_up()
        until(lambda: len(scene.letters()) == 60, WAIT_S, lambda: f"{len(scene.letters())} of 60 letters")
        topic_id = kafka.topic_id(scene.topic)
        originals = {(m.partition(), m.offset()): m for m in kafka.read(scene.topic, 60)}
        for row in scene.letters():
            stored = engine.store.dead_letters.get(row.id)
            assert stored is not None
            letter, original = stored.letter, originals.pop((row.partition, row.offset))
            assert letter.value == original.value()
            assert letter.key == original.key()
            assert letter.headers == (original.headers() or [])
            assert (letter.timestamp_type, letter.timestamp) == original.timestamp()
            assert (letter.topic, letter.topic_id, letter.group) == (scene.topic, topic_id, scene.name)
        assert not originals
        assert {row.stage for row in scene.letters()} == {"decode", "act", "transform", "filter"}
        engine.stop(flow)
