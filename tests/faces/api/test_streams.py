"""Streams of events: what they hold is let go of, however they end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.types import Message

from penstock.api import streams
from penstock.api.streams import TooManyStreams, streamed, watched
from penstock.service.access import Actor

ADA = Actor(name="ada@example.org", role="viewer", user_id="7")
SCOPE = {"type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}}
"""As the server has it: it tells by a message that nobody listens any more."""


class Quiet:
    """A series in which nothing comes."""

    over = False

    def __init__(self) -> None:
        self.closed = self.looks = 0

    def some(self) -> list[dict[str, Any]]:
        self.looks += 1
        return []

    def close(self) -> None:
        self.closed += 1


@pytest.fixture(autouse=True)
def slots(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], int]]:
    """How many streams are open."""
    made = streams._Slots()
    monkeypatch.setattr(streams, "_slots", made)
    yield made._taken.total
    assert not made._taken


async def serve(response: Response, gone: Callable[[], bool]) -> list[Message]:
    """Serve until whoever listens is `gone`; what was sent."""
    sent: list[Message] = []

    async def receive() -> Message:
        while not gone():
            await asyncio.sleep(0.01)
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        await asyncio.sleep(0)  # the other side takes it in
        sent.append(message)

    await asyncio.wait_for(response(SCOPE, receive, send), 20)
    return sent


def test_a_quiet_series_is_closed_when_nobody_listens_any_more(slots: Callable[[], int]) -> None:
    series = Quiet()
    response = streamed(ADA, series, "record", lambda: None)
    assert slots() == 1
    asyncio.run(serve(response, lambda: series.looks > 3))
    assert series.closed == 1


def test_who_is_gone_before_the_first_event_holds_nothing() -> None:
    series = Quiet()
    assert asyncio.run(serve(streamed(ADA, series, "record", lambda: None), lambda: True)) == []
    assert (series.looks, series.closed) == (0, 1)
    assert asyncio.run(serve(watched(ADA, dict, 1.0, 60.0), lambda: True)) == []


def test_what_is_refused_for_want_of_room_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_MOST", 0)
    series = Quiet()
    with pytest.raises(TooManyStreams):
        streamed(ADA, series, "record", lambda: None)
    assert series.closed == 1


def test_a_reader_that_takes_nothing_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_PATIENCE", 0.1)
    series, taken = Quiet(), []
    series.some = lambda: [{"n": 1}]  # type: ignore[method-assign]  # there is always something

    async def send(message: Message) -> None:
        taken.append(message["type"])
        if len(taken) > 3:
            await asyncio.Event().wait()

    async def read() -> None:
        response = streamed(ADA, series, "record", lambda: None)
        await asyncio.wait_for(response(SCOPE, asyncio.Event().wait, send), 20)  # type: ignore[arg-type]  # it says nothing

    asyncio.run(read())
    assert taken == ["http.response.start", *["http.response.body"] * 3]
    assert series.closed == 1


class Waiting(Quiet):
    """A series that waits for what comes."""

    def __init__(self) -> None:
        super().__init__()
        self.comes, self.waits, self.closed_meanwhile = threading.Event(), False, False

    def some(self) -> list[dict[str, Any]]:
        self.looks += 1
        self.waits = True
        assert self.comes.wait(20)
        self.waits = False
        return []

    def close(self) -> None:
        self.closed_meanwhile = self.waits
        super().close()


def test_a_series_is_not_closed_while_it_looks() -> None:
    series = Waiting()

    async def leave() -> None:
        serving = asyncio.create_task(serve(streamed(ADA, series, "record", lambda: None), lambda: series.looks > 0))
        while not series.looks:
            await asyncio.sleep(0.01)
        series.comes.set()
        await serving

    asyncio.run(leave())
    assert (series.closed, series.closed_meanwhile) == (1, False)


def test_many_readers_leave_threads_to_everybody_else() -> None:
    readers = [Waiting() for _ in range(60)]  # requests share 40 threads

    async def ask_meanwhile() -> str:
        gone = threading.Event()
        served = [
            asyncio.create_task(serve(streamed(Actor(name=str(n)), each, "record", lambda: None), gone.is_set))
            for n, each in enumerate(readers)
        ]
        while not all(each.waits for each in readers):
            await asyncio.sleep(0.01)
        answer = await asyncio.wait_for(run_in_threadpool(lambda: "answered"), 10)
        gone.set()
        for each in readers:
            each.comes.set()
        await asyncio.gather(*served)
        return answer

    assert asyncio.run(asyncio.wait_for(ask_meanwhile(), 30)) == "answered"
    assert [each.closed for each in readers] == [1] * 60


def test_one_user_does_not_keep_the_others_out(slots: Callable[[], int]) -> None:
    opened = [streamed(ADA, Quiet(), "x", dict) for _ in range(20)]
    with pytest.raises(TooManyStreams) as refused:
        streamed(ADA, Quiet(), "x", dict)
    assert "20 for one" in str(refused.value.allowed)
    other = streamed(Actor(name="otto@example.org", user_id="8"), Quiet(), "x", dict)
    assert slots() == 21
    for each in (*opened, other):
        asyncio.run(serve(each, lambda: True))
    assert slots() == 0
