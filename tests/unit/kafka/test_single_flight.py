"""Questions of many askers to one cluster."""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.kafka.single_flight import SingleFlight
from tests.support.waiting import until


def test_who_comes_while_it_is_asked_gets_the_next_answer_with_all_others() -> None:
    numbers, asked, go_on = itertools.count(1), threading.Semaphore(0), threading.Semaphore(0)

    def ask() -> int:
        number = next(numbers)
        asked.release()
        assert go_on.acquire(timeout=30)
        return number

    flight = SingleFlight(ask)
    with ThreadPoolExecutor(50) as askers:
        first = askers.submit(flight)
        assert asked.acquire(timeout=30)
        rest = [askers.submit(flight) for _ in range(40)]
        until(lambda: all(one.running() for one in rest), 30, "all have asked")
        go_on.release(42)
        assert first.result(30) == 1
        answers = [one.result(30) for one in rest]
    assert min(answers) == 2, "an answer that was on its way when they asked is not for them"
    assert max(answers) < 20


def test_what_goes_wrong_is_raised_and_not_remembered() -> None:
    answers = iter([OSError("away"), None])

    def ask() -> str:
        if (found := next(answers)) is not None:
            raise found
        return "here"

    flight = SingleFlight(ask)
    with pytest.raises(OSError, match="away"):
        flight()
    assert flight() == "here"
