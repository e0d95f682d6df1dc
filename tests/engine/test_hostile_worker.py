"""Code of a worker process answers with pickles, by all the ways back that PySpark has: none of them runs here."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from penstock.engine.spark.context import GarbledOutcome, Spark
from penstock.worker import window
from penstock.worker.protocol import WindowRequest

pytestmark = pytest.mark.spark


def hostile(answered: str, accumulated: str) -> Callable[[Iterable[bytes]], Iterator[bytes]]:
    """A window function that sends itself to the worker by value and leaves a folder behind where it is unpickled."""

    def run_window(requests: Iterable[bytes]) -> Iterator[bytes]:
        import pickle  # noqa: PLC0415 - in the worker

        from pyspark import accumulators  # noqa: PLC0415 - as above

        class Payload:
            def __init__(self, folder: str) -> None:
                self.folder = folder

            def __reduce__(self) -> tuple[object, ...]:
                return os.mkdir, (self.folder,)

        list(requests)
        added = accumulators._deserialize_accumulator(7, 0, accumulators.INT_ACCUMULATOR_PARAM)
        added._value = Payload(accumulated)  # type: ignore[assignment]  # it is the harm
        yield pickle.dumps([Payload(answered)])

    return run_window


def test_neither_an_answer_nor_an_accumulator_of_a_worker_runs_code_in_the_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered, accumulated = tmp_path / "answered", tmp_path / "accumulated"
    spark = Spark(master="local", conf={}, home=tmp_path)
    try:
        spark.start()
        monkeypatch.setattr(window, "run_window", hostile(str(answered), str(accumulated)))
        with pytest.raises(GarbledOutcome, match="is refused"):
            spark.run(WindowRequest("hostile", 0.0, [], detach=True))
        assert not answered.exists()
        assert not accumulated.exists()
        monkeypatch.undo()
        assert spark.run(WindowRequest("honest", 0.0, [], detach=True)).lane == "honest", "and the next window is run"
    finally:
        spark.stop()
