"""Replaying dead letters: claimed from the store in order, given to the lanes, and marked as they end."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import structlog

from penstock.config.spec import PipelineSpec
from penstock.core.dead_letter import Stage
from penstock.core.errors import Unavailable
from penstock.core.event import Record
from penstock.engine import autopsy
from penstock.engine.replay_work import Work
from penstock.engine.stretch import Stretch
from penstock.store import DeadLetters, LetterPlace, StoredDeadLetter, Which
from penstock.worker.protocol import FailedEvent

log = structlog.get_logger("penstock.replay")

_PAGE = 1_000
_AHEAD = 4_000
"""Letters claimed before they are worked on: enough to find another partition for every lane."""
_AHEAD_BYTES = 64 << 20
_WINDOW = 2_000
"""Letters that a lane takes at once."""
_WINDOW_BYTES = 8 << 20
_RENEW_EVERY = 10.0

_Lot = tuple[str, int]
"""Topic id and partition: within one, letters stay in order."""


@dataclass(slots=True)
class Marks:
    """How the letters of a replay ended so far."""

    replayed: int = 0
    failed: int = 0
    parked: int = 0
    """Of the failed."""
    released: int = 0
    """Not replayed: the replay ended before them."""


class LetterWork(Work):
    """Letters of one pipeline. Lanes share it; a thread renews the claims until it is left."""

    def __init__(
        self,
        letters: DeadLetters,
        which: Which,
        spec: PipelineSpec,
        *,
        by: str,
        max_replays: int,
        lanes: int,
        edit: bytes | None = None,
        edits: bool = False,
    ) -> None:
        self.marks = Marks()
        self._letters, self._which, self._spec, self._by = letters, which, spec, by
        self._max_replays, self._lanes = max_replays, lanes
        self._edited, self._edits = edit, edits
        self._in_order = spec.ordering != "none"
        self._lock = threading.Lock()
        self._after: LetterPlace | None = None
        self._all_claimed = False
        self._waiting: dict[_Lot, deque[StoredDeadLetter]] = {}
        self._count = self._bytes = 0
        self._held: dict[tuple[_Lot, int], int] = {}
        """Ids of letters that are claimed and not marked yet."""
        self._busy: dict[_Lot, int] = {}
        self._ended = threading.Event()
        self._renewing = threading.Thread(target=self._renew, name="replay-claims", daemon=True)

    def __enter__(self) -> Self:
        """Claim the first letters; refuses what cannot be replayed before anything is changed."""
        with self._lock:
            self._claim()
        self._renewing.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Letters that were not reached are what they were before."""
        self._ended.set()
        self._renewing.join()
        with self._lock:
            left = list(self._held.values())
            self._held.clear()
        if left:
            try:
                self._letters.release(left, by=self._by, reason="the replay ended before it", claimed_by=self._by)
                self.marks.released += len(left)
            except Unavailable as error:
                log.warning("letters stay claimed until the claim runs out", letters=len(left), reason=str(error))

    def _renew(self) -> None:
        while not self._ended.wait(_RENEW_EVERY):
            try:
                self._letters.renew(self._by)
            except Unavailable as error:
                log.warning("claims were not renewed", reason=str(error))

    # -- claiming --------------------------------------------------------------------------

    def _claim(self) -> None:
        """Until there is enough for every lane; `claim` goes forward only, so no letter comes twice."""
        while not self._all_claimed and self._count < _AHEAD and self._bytes < _AHEAD_BYTES:
            page = self._letters.claim(self._which, by=self._by, limit=_PAGE, after=self._after)
            for letter in page:
                lot = (letter.letter.topic_id, letter.letter.partition)
                self._waiting.setdefault(lot, deque()).append(letter)
                self._held[lot, letter.letter.offset] = letter.id
                self._count += 1
                self._bytes += _size(letter)
            self._all_claimed = not page
            self._after = page[-1].place if page else self._after

    def take(self) -> list[Stretch] | None:
        with self._lock:
            self._claim()
            if not self._waiting:
                return None
            room = max(1, min(_WINDOW, -(-self._count // self._lanes)))
            taken: dict[tuple[str, int], Stretch] = {}
            size = 0
            for lot in list(self._waiting):
                line = self._waiting[lot]
                key = (line[0].letter.topic, line[0].letter.partition)
                if (self._in_order and self._busy.get(lot)) or key in taken:
                    continue
                some: list[StoredDeadLetter] = []
                while line and room > 0 and size < _WINDOW_BYTES:
                    some.append(line.popleft())
                    room -= 1
                    size += _size(some[-1])
                if not line:
                    del self._waiting[lot]
                if some:
                    taken[key] = self._stretch(some)
                    self._busy[lot] = self._busy.get(lot, 0) + 1
                if room <= 0 or size >= _WINDOW_BYTES:
                    break
            self._count -= sum(len(stretch.records or ()) for stretch in taken.values())
            self._bytes -= size
            return list(taken.values())

    def _stretch(self, letters: list[StoredDeadLetter]) -> Stretch:
        first = letters[0].letter
        return Stretch(
            first.topic,
            first.partition,
            0,
            first.topic_id,
            first.offset,
            end=letters[-1].letter.offset + 1,
            records={each.letter.offset: self._record(each) for each in letters},
        )

    def _record(self, stored: StoredDeadLetter) -> Record:
        """I3: the record as it was; only the value may be another, where someone edited it for this replay."""
        letter = stored.letter
        return Record(
            letter.topic,
            letter.partition,
            letter.offset,
            letter.key,
            self._edited if self._edits else letter.value,
            letter.headers or None,
            letter.timestamp,
            letter.timestamp_type,
        )

    # -- marking ---------------------------------------------------------------------------

    def settle(self, done: list[tuple[Stretch, set[int]]], failures: list[tuple[Stretch, FailedEvent]]) -> None:
        good = {self._id(stretch, offset): None for stretch, offsets in done for offset in offsets}
        bad = {self._id(stretch, each.record.offset()): each.failure for stretch, each in failures}
        data = {"spec_version": self._spec.version} | (self._edit_data() if self._edits else {})
        if good:
            text = "with an edited value" if self._edits else ""
            self._letters.replayed(list(good), by=self._by, text=text, data=data)
        parked = 0
        if bad:
            statuses = self._letters.replay_failed(
                bad, by=self._by, max_replays=self._max_replays, spec_version=self._spec.version
            )
            parked = sum(status == "parked" for status in statuses.values())
        with self._lock:
            for stretch, offsets in done:
                for offset in offsets:
                    self._held.pop((_lot(stretch), offset), None)
            for stretch, each in failures:
                self._held.pop((_lot(stretch), each.record.offset()), None)
            self.marks.replayed += len(good)
            self.marks.failed += len(bad)
            self.marks.parked += parked

    def _id(self, stretch: Stretch, offset: int) -> int:
        return self._held[_lot(stretch), offset]

    def _edit_data(self) -> dict[str, str | None]:
        """The value that was sent, as far as a history can hold it."""
        return {"edited_value": None if self._edited is None else self._edited[:4_000].decode("utf-8", "replace")}

    def give_back(self, stretches: Iterable[Stretch]) -> None:
        with self._lock:
            for stretch in stretches:
                self._busy[_lot(stretch)] -= 1

    def failure_of(self, stretch: Stretch, offset: int, stage: Stage, reason: str) -> FailedEvent | None:
        record = stretch.record_from(offset)
        return autopsy.failure_for(record, stage=stage, reason=reason) if record is not None else None


def _lot(stretch: Stretch) -> _Lot:
    return stretch.topic_id, stretch.partition


def _size(stored: StoredDeadLetter) -> int:
    return len(stored.letter.value or b"") + len(stored.letter.key or b"")
