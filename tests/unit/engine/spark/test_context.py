"""What Spark must not do, and what its errors say about a window."""

from __future__ import annotations

import os
import pickle
import re
from pathlib import Path
from typing import Any

import pytest
import structlog

from penstock.engine.lanes.lane_worker import LaneWorker
from penstock.engine.spark import context
from penstock.engine.spark.cluster import SparkStartError
from penstock.engine.spark.context import (
    EventCrashed,
    GarbledOutcome,
    Spark,
    WindowLost,
    WindowRepeated,
    refuse_repeats,
)
from penstock.pipeline.crash_note import EVENT_BEGUN, note_event_begun
from penstock.pipeline.messages import UnitRequest
from penstock.worker.protocol import REPEATED, WindowOutcome, WindowRequest, packed

DIED = "SparkException: Python worker exited unexpectedly (crashed): "


@pytest.mark.parametrize(
    ("name", "value"),
    [("spark.speculation", "true"), ("spark.speculation", "TRUE"), ("spark.task.maxFailures", "4")],
)
def test_settings_by_which_spark_repeats_windows_are_refused_with_the_remedy(
    tmp_path: Path, name: str, value: str
) -> None:
    spark = Spark(master="local", conf={name: value}, home=tmp_path)
    try:
        with pytest.raises(SparkStartError) as refused:
            spark.start()
    finally:
        spark.stop()
    assert refused.value.received == f"{name}={value.lower()}"
    assert name in str(refused.value.hint)


def test_the_same_settings_with_our_values_are_allowed() -> None:
    refuse_repeats({"spark.speculation": "false", "spark.task.maxFailures": "1", "spark.ui.enabled": "true"})


@pytest.mark.parametrize(
    ("text", "blames"),
    [
        (f"{DIED}{EVENT_BEGUN}", True),
        (f"{DIED}Fatal Python error: Segmentation fault", False),
        ("PythonException: ImportError: No module named 'confluent_kafka'", False),
        (f"ExecutorLostFailure (executor 3 exited): {DIED}{EVENT_BEGUN}", False),
        (f"java.io.IOException: No space left on device {EVENT_BEGUN}", False),
        ("", False),
    ],
)
def test_f09_only_a_worker_that_died_by_itself_and_had_begun_an_event_may_have_died_of_it(
    text: str, *, blames: bool
) -> None:
    assert context._died_at_event(text) == blames


def test_the_note_that_an_event_was_begun_is_left_once_where_spark_looks_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / str(os.getpid())
    monkeypatch.delenv("PYTHON_FAULTHANDLER_DIR", raising=False)
    note_event_begun()
    monkeypatch.setenv("PYTHON_FAULTHANDLER_DIR", str(tmp_path))
    note_event_begun()
    assert not file.exists(), "it is Spark's file, which tells whether there is a task"
    file.touch()
    note_event_begun()
    note_event_begun()
    assert file.read_text() == f"{EVENT_BEGUN}\n"


class Job:
    """A Spark job that answers this."""

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def collect(self) -> list[object]:
        if isinstance(self.answer, Exception):
            raise self.answer
        return [self.answer]


def answered(answer: object, folder: Path, patch: pytest.MonkeyPatch) -> WindowOutcome:
    spark = Spark(master="local", conf={}, home=folder)
    patch.setattr(spark, "_job", lambda *_: Job(answer))
    return spark.run(WindowRequest("shared-0", 0.0, [], detach=True))


def test_an_answer_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = WindowOutcome("shared-0", 7, [], [], 0.0)
    assert answered(packed(outcome), tmp_path, monkeypatch) == outcome


class Payload:
    """Makes a folder where it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.folder),)


@pytest.mark.parametrize("answer", [b"", b"garbage", pickle.dumps([b"garbage"]), b"m\x07", b"m\x95\xa1", b"z\x00"])
def test_an_answer_that_cannot_be_read_is_a_lost_window_that_blames_no_event(
    answer: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(GarbledOutcome, match="cannot be read"):
        answered(answer, tmp_path, monkeypatch)


def test_a_pickled_answer_is_refused_with_a_log_line_and_its_window_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    harm = tmp_path / "harm"
    spark = Spark(master="spark://127.0.0.1:1", conf={}, home=tmp_path)
    monkeypatch.setattr(spark, "_job", lambda *_: Job(pickle.dumps([pickle.dumps(Payload(harm))])))
    monkeypatch.setattr("penstock.engine.lanes.lane_worker._CLUSTER_GRACE", 0.0)
    worker = LaneWorker("shared-0", spark)
    unit = UnitRequest(3, "p", 1, b"", [], 0.0, 1)
    with structlog.testing.capture_logs() as logged:
        result = worker.run(worker.request(0.0, [unit]))
    assert result.outcome is None
    assert result.lost is not None
    assert (result.lost.units, result.lost.stage) == (frozenset({3}), None), "lost, and no event is to blame"
    (line,) = logged
    assert (line["event"], line["lane"], line["log_level"]) == ("window lost", "shared-0", "warning")
    assert "is refused" in line["reason"]
    assert not harm.exists()


def test_the_driver_imports_no_way_to_unpickle() -> None:
    """Outcomes are decoded by type. What unpickles are workers: requests and blueprints of their driver."""
    package = Path(context.__file__).parents[2]
    pattern = re.compile(r"\b(pickle|cloudpickle|marshal|shelve|dill|jsonpickle)\.(loads?|Unpickler)\b|Unpickler\(")
    found = {str(f.relative_to(package)) for f in package.rglob("*.py") if pattern.search(f.read_text())}
    assert found == {"worker/window.py", "pipeline/built_pipeline.py"}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (f"{DIED}{EVENT_BEGUN}", EventCrashed),
        (f"RuntimeError: {REPEATED}; once is enough", WindowRepeated),
        ("ExecutorLostFailure", WindowLost),
    ],
)
def test_a_failed_job_says_what_kind_of_loss_it_is(
    text: str, kind: type[WindowLost], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(WindowLost) as lost:
        answered(RuntimeError(f"Py4JJavaError\n{text}"), tmp_path, monkeypatch)
    assert type(lost.value) is kind
