"""One question for many askers: hundreds of pipelines that start together want to know the same of their cluster."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

T = TypeVar("T")


class Merged(Generic[T]):
    """Whoever comes while the question is being asked gets the next answer, together with all who come meanwhile: no
    answer is older than its asker's wish."""

    def __init__(self, ask: Callable[[], T]) -> None:
        self._ask = ask
        self._next: Future[T] | None = None
        self._guard = threading.Lock()
        self._turn = threading.Lock()

    def __call__(self) -> T:
        with self._guard:
            leads = self._next is None
            answer = self._next = self._next or Future()
        if leads:
            with self._turn:
                with self._guard:
                    self._next = None
                try:
                    answer.set_result(self._ask())
                except BaseException as error:  # noqa: BLE001 - raised below, and by all who wait for it
                    answer.set_exception(error)
        return answer.result()
