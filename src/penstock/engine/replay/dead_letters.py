"""Replaying dead letters: claimed from the store in order, given to the lanes, and marked as they end."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import structlog

from penstock.config.spec import PipelineSpec
from penstock.core.clock import SYSTEM, Clock
from penstock.core.dead_letter import Failure, Stage
from penstock.core.errors import Unavailable
from penstock.core.event import Record
from penstock.core.threads import THREADS, Event, Threads
from penstock.engine.pipelines import crashed_events
from penstock.engine.replay.background import Claiming, Marking, Say
from penstock.engine.replay.work import ReplaySegment, ReplayWork
from penstock.pipeline.messages import FailedEvent
from penstock.store import ClaimedLetter, DeadLetters, Which

log = structlog.get_logger("penstock.replay")

_AHEAD = 10_000
"""Letters claimed before they are worked on: enough to find another partition for every lane."""
_AHEAD_BYTES = 64 << 20
_WINDOW = 4_000
"""Letters that a lane takes at once."""
_WORTH_A_WINDOW = 1_000
"""A lane waits for so many, if more are being claimed: a window costs as much as a thousand letters."""
_WINDOW_BYTES = 8 << 20
_GIVE_UP = 10.0
"""Seconds that a cancelled replay tries to reach the store."""

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


class LetterWork(ReplayWork):
    """Letters of one pipeline. Lanes share it."""

    def __init__(
        self,
        letters: DeadLetters,
        which: Which,
        spec: PipelineSpec,
        *,
        by: str,
        max_replays: int,
        lanes: int,
        stop: Event,
        say: Say,
        edit: bytes | None = None,
        edits: bool = False,
        clock: Clock = SYSTEM,
        threads: Threads = THREADS,
    ) -> None:
        self.marks = Marks()
        self._letters, self._by, self._version = letters, by, spec.version
        self._max_replays, self._lanes = max_replays, lanes
        self._edited, self._edits = edit, edits
        self._in_order = spec.ordering != "none"
        self._stop = stop
        self._lock = threads.lock()
        self._waiting: dict[_Lot, deque[ClaimedLetter]] = {}
        self._count = self._bytes = 0
        self._held: dict[tuple[_Lot, int], int] = {}
        """Ids of letters that are claimed and not marked yet."""
        self._busy: dict[_Lot, int] = {}
        self._claiming = Claiming(
            letters, which, by, wanted=self._has_room, take_in=self._take_in, say=say, clock=clock, threads=threads
        )
        self._marking = Marking(say, clock=clock, threads=threads)

    def __enter__(self) -> Self:
        """Claim the first letters; refuses what cannot be replayed before anything is changed."""
        self._claiming.begin(self._stop)
        self._marking.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Mark what is done; letters that were not reached are what they were before."""
        within = _GIVE_UP if self._stop.is_set() else None
        self._claiming.end(within)
        self._marking.end(within)
        try:
            left = self._letters.release(by=self._by, reason="the replay ended before it", claimed_by=self._by)
            self.marks.released += len(left)
        except Unavailable as error:
            log.warning("letters stay claimed until the claim runs out", reason=str(error))

    # -- claiming --------------------------------------------------------------------------

    def _has_room(self) -> bool:
        return self._count < _AHEAD and self._bytes < _AHEAD_BYTES

    def _take_in(self, page: list[ClaimedLetter]) -> None:
        with self._lock:
            for letter in page:
                lot = (letter.place.topic_id, letter.place.partition)
                self._waiting.setdefault(lot, deque()).append(letter)
                self._held[lot, letter.place.offset] = letter.id
                self._count += 1
                self._bytes += _size(letter)

    def take(self) -> list[ReplaySegment] | None:
        if self._claiming.error is not None:
            raise self._claiming.error
        with self._lock:
            if not self._claiming.complete and self._count < _WORTH_A_WINDOW and self._bytes < _WINDOW_BYTES:
                return []
            if not self._waiting:
                return None
            room = max(1, min(_WINDOW, -(-self._count // self._lanes)))
            taken: dict[tuple[str, int], ReplaySegment] = {}
            size = 0
            for lot in list(self._waiting):
                line = self._waiting[lot]
                key = (line[0].record.topic(), line[0].record.partition())
                if (self._in_order and self._busy.get(lot)) or key in taken:
                    continue
                some: list[ClaimedLetter] = []
                while line and room > 0 and size < _WINDOW_BYTES:
                    some.append(line.popleft())
                    room -= 1
                    size += _size(some[-1])
                if not line:
                    del self._waiting[lot]
                if some:
                    taken[key] = self._segment(some)
                    self._busy[lot] = self._busy.get(lot, 0) + 1
                if room <= 0 or size >= _WINDOW_BYTES:
                    break
            self._count -= sum(len(segment.records or ()) for segment in taken.values())
            self._bytes -= size
        self._claiming.look()
        return list(taken.values())

    def _segment(self, letters: list[ClaimedLetter]) -> ReplaySegment:
        first = letters[0]
        return ReplaySegment(
            first.record.topic(),
            first.place.partition,
            first.place.topic_id,
            first.place.offset,
            end=letters[-1].place.offset + 1,
            records={each.place.offset: self._record(each.record) for each in letters},
        )

    def _record(self, record: Record) -> Record:
        """I3: the record as it was; only the value may be another, where it was edited for this replay."""
        return record._replace(value_=self._edited) if self._edits else record

    # -- marking ---------------------------------------------------------------------------

    def settle(
        self, done: list[tuple[ReplaySegment, set[int]]], failures: list[tuple[ReplaySegment, FailedEvent]]
    ) -> None:
        """In the background: the lane does not wait, unless the store cannot keep up."""
        good = {(_lot(segment), offset) for segment, offsets in done for offset in offsets}
        bad = {(_lot(segment), each.record.offset()): each.failure for segment, each in failures}
        if good or bad:
            self._marking.put(lambda: self._mark(good, bad))

    def _mark(self, good: set[tuple[_Lot, int]], bad: dict[tuple[_Lot, int], Failure]) -> None:
        with self._lock:
            replayed = [self._held[place] for place in good]
            failed = {self._held[place]: failure for place, failure in bad.items()}
        if replayed:
            text = "with an edited value" if self._edits else ""
            data = {"spec_version": self._version} | (self._edit_data() if self._edits else {})
            self._letters.replayed(replayed, by=self._by, text=text, data=data)
        parked = 0
        if failed:
            statuses = self._letters.replay_failed(
                failed, by=self._by, max_replays=self._max_replays, spec_version=self._version
            )
            parked = sum(status == "parked" for status in statuses.values())
        with self._lock:
            for place in (*good, *bad):
                del self._held[place]
            self.marks.replayed += len(replayed)
            self.marks.failed += len(failed)
            self.marks.parked += parked

    def _edit_data(self) -> dict[str, str | None]:
        """The value that was sent, as far as a history can hold it."""
        return {"edited_value": None if self._edited is None else self._edited[:4_000].decode("utf-8", "replace")}

    def give_back(self, segments: Iterable[ReplaySegment]) -> None:
        with self._lock:
            for segment in segments:
                self._busy[_lot(segment)] -= 1

    def failure_of(self, segment: ReplaySegment, offset: int, stage: Stage, reason: str) -> FailedEvent | None:
        record = segment.record_from(offset)
        return crashed_events.failure_for(record, stage=stage, reason=reason) if record is not None else None


def _lot(segment: ReplaySegment) -> _Lot:
    return segment.topic_id, segment.partition


def _size(letter: ClaimedLetter) -> int:
    return len(letter.record.value() or b"") + len(letter.record.key() or b"")
