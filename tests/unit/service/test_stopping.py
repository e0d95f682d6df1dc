"""Being told to stop: by signals, and at the moment in which Spark's JVM ends for the same reason."""

from __future__ import annotations

import os
import signal
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.engine.spark.cluster import SparkStartError
from penstock.engine.spark.context import SparkDied
from penstock.service.run import _start, _wait
from penstock.service.stopping import Stop


class Dying:
    """A JVM that is seen dead while `asked` is set, which nobody had looked at yet."""

    def __init__(self, asked: threading.Event | None) -> None:
        self._asked = asked

    @property
    def died(self) -> bool:
        if self._asked:
            self._asked.set()
        return True


def instance_on(spark: Dying) -> Any:
    return SimpleNamespace(spark=spark, runners=[])


class Failing:
    """An instance whose Spark does not start, for the signal that `asked` stands for went to it, too."""

    def __init__(self, asked: threading.Event | None) -> None:
        self._asked = asked

    def start(self) -> None:
        if self._asked:
            self._asked.set()
        raise SparkStartError("the JVM has ended")


def test_a_jvm_that_ends_by_itself_is_an_error() -> None:
    with pytest.raises(SparkDied):
        _wait(instance_on(Dying(None)), threading.Event(), None)


def test_a_jvm_that_ends_by_the_signal_that_stops_us_is_none() -> None:
    asked = threading.Event()
    _wait(instance_on(Dying(asked)), asked, None)


def test_spark_that_does_not_start_is_an_error_unless_it_should_stop() -> None:
    asked = threading.Event()
    failing: Any = Failing(None)
    with pytest.raises(SparkStartError):
        _start(failing, asked)
    stopped: Any = Failing(asked)
    assert not _start(stopped, asked)
    assert not _start(failing, asked), "told to stop before: it is not even tried"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_are_taken_inside_and_given_back(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with Stop() as stop:
        os.kill(os.getpid(), number)
        assert stop.asked.wait(60)
    assert signal.getsignal(number) is before


@pytest.mark.parametrize("inside", [True, False], ids=["inside", "before"])
def test_whoever_calls_and_who_is_called_are_told_the_same(*, inside: bool) -> None:
    with Stop() as outer:
        if not inside:
            os.kill(os.getpid(), signal.SIGTERM)
            assert outer.asked.wait(60)
        with Stop(outer.asked) as inner:
            if inside:
                os.kill(os.getpid(), signal.SIGTERM)
            assert inner.asked.wait(60)
        assert outer.asked.is_set()
        os.kill(os.getpid(), signal.SIGTERM)
