"""What Spark must not do, and what its errors say about a window."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.engine.spark import context
from penstock.engine.spark.cluster import SparkStartError
from penstock.engine.spark.context import Spark, refuse_repeats
from penstock.pipeline.crash_note import EVENT_BEGUN, note_event_begun

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
    text: str, blames: bool
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
