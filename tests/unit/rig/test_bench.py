"""The benchmarks' arithmetic: figures are only as good as the way they are counted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bench.engine.producer import payload
from bench.engine.seen import Seen
from bench.engine.sink import PAIR, SAMPLE
from bench.report import Bar, Result, write


def test_latencies_and_repeats(tmp_path: Path) -> None:
    pairs = [(n * 1_000_000, (n + 1) * 1_000_000, n * 1_000_000 + (n + 1) * 1_000_000, n) for n in range(100)]
    (tmp_path / "1.pairs").write_bytes(b"".join(PAIR.pack(*pair) for pair in pairs) + b"half")
    (tmp_path / "2.pairs").write_bytes(PAIR.pack(*pairs[3]))
    seen = Seen(tmp_path)
    assert seen.count() == 101
    assert seen.twice() == 1
    figures = seen.latencies(first=50).figures()
    assert (figures["events"], figures["p50_ms"], figures["max_ms"]) == (50, 76.0, 100.0)
    assert seen.latencies_in_broker(first=50).figures()["max_ms"] == 99.0


def test_the_rate_is_taken_over_all_processes(tmp_path: Path) -> None:
    second = 1_000_000_000
    one = [(10 * second, 100), (11 * second, 600)]
    two = [(10 * second + 1, 100), (12 * second, 1_200)]
    for name, samples in (("1", one), ("2", two)):
        (tmp_path / f"{name}.samples").write_bytes(b"".join(SAMPLE.pack(*sample) for sample in samples))
    count, seconds = Seen(tmp_path).span()
    assert (count, seconds) == (1_800, pytest.approx(2.025))
    count, seconds = Seen(tmp_path).span(before=200)
    assert (count, seconds) == (1_600, pytest.approx(2.0))
    # 200 is passed by the sample at 11 s: what it saw is not counted, nor the time before it.
    count, seconds = Seen(tmp_path).span(before=201)
    assert (count, seconds) == (1_100, pytest.approx(1.0))


def test_payloads_have_300_bytes() -> None:
    assert {len(payload(number, 1_790_000_000_000_000_000)) for number in (0, 99, 10_000_000)} == {300}


def test_results_are_written_with_their_bars(tmp_path: Path) -> None:
    bars = [Bar(figure="p50_ms", at_most=15), Bar(figure="rate", at_least=100)]
    result = Result(name="busy", what="One pipeline.", figures={"p50_ms": 6.0, "rate": 90}, bars=bars)
    table = write([result], {"commit": "abc"}, tmp_path)
    assert "| p50_ms | 6.0 | ≤ 15 met |" in table.read_text()
    assert "| rate | 90 | ≥ 100 **missed** |" in table.read_text()
    assert json.loads(table.with_suffix(".json").read_text())["results"][0]["figures"]["rate"] == 90
