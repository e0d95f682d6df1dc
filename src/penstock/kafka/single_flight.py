"""One request for many callers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

T = TypeVar("T")


class SingleFlight(Generic[T]):
    """Callers share requests. One that comes while a request is running gets the result of the next, as all others do
    that come before it begins: no result is older than the call."""

    def __init__(self, request: Callable[[], T]) -> None:
        self._request = request
        self._next: Future[T] | None = None
        self._guard = threading.Lock()
        self._turn = threading.Lock()

    def __call__(self) -> T:
        """Blocks for up to two requests; raises what the request raised."""
        with self._guard:
            leads = self._next is None
            answer = self._next = self._next or Future()
        if leads:
            with self._turn:
                with self._guard:
                    self._next = None
                try:
                    answer.set_result(self._request())
                except BaseException as error:  # noqa: BLE001 - raised below, and in all callers that wait for it
                    answer.set_exception(error)
        return answer.result()
