"""Files of dead letters: what is not whole is refused by its line, and has no effect."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.core.errors import ConfigError
from penstock.service.dead_letters import which_letters
from penstock.service.failed_events import FailedEnvelope, is_failed_events, read_failed_events
from penstock.service.letter_files import LetterFileError, export_letters, import_letters
from penstock.store import DeadLetterFilter, Store
from tests.behaviour.store.letters import letter

Lines = list[bytes]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(f"sqlite:///{tmp_path / 'store.db'}") as opened:
        opened.dead_letters.record([letter(n, value=b"\xff%d" % n, error=f"disk {n} full") for n in range(1, 5)])
        yield opened


def test_progress_is_told_and_a_filter_chooses(store: Store, tmp_path: Path) -> None:
    file, seen = tmp_path / "letters", list[int]()
    assert export_letters(store, DeadLetterFilter(error="disk 3"), file, seen.append) == 1
    assert seen == [1]
    seen.clear()
    assert import_letters(store, file, by="user1", progress=seen.append) == (0, 1)
    assert seen == [file.stat().st_size, 2 * file.stat().st_size]


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda lines: lines[:-1], "line 6: the end of the export is missing"),
        (lambda lines: [*lines[:3], lines[3][:-40]], "line 4: is not JSON"),
        (lambda lines: [*lines[:2], lines[2].replace(b"full", b"fool"), *lines[3:]], "line 6: the letters before it"),
        (lambda lines: [*lines[:2], *lines[3:]], "line 5: the letters before it are not those that were exported"),
        (lambda lines: [*lines, lines[1]], "line 7: there is more"),
        (lambda lines: lines[1:], "line 1: the file is no export"),
        (lambda lines: [lines[0].replace(b"1", b"9"), *lines[1:]], "line 1: the file was written by another version"),
        (lambda lines: [*lines[:2], b'{"a": 1}\n', *lines[2:]], "line 3: is no dead letter: has no 'key'"),
        (lambda lines: [lines[0], lines[1].replace(b'"offset":1', b'"offset":"x"'), *lines[2:]], "Expected `int`"),
        (lambda lines: [lines[0], b"\xff\n", *lines[2:]], "line 2: is not JSON"),
        (lambda lines: lines[:0], "line 1: the end of the export is missing"),
    ],
)
def test_a_corrupt_export_is_refused_with_its_line_and_no_effect(
    store: Store, tmp_path: Path, spoil: Callable[[Lines], Lines], said: str
) -> None:
    file = tmp_path / "letters"
    assert export_letters(store, None, file) == 4
    file.write_bytes(b"".join(spoil(file.read_bytes().splitlines(keepends=True))))
    with Store.open(f"sqlite:///{tmp_path / 'other.db'}") as other:
        with pytest.raises(LetterFileError, match=said) as refused:
            import_letters(other, file, by="user1")
        assert refused.value.hint
        assert other.dead_letters.count() == 0


def test_a_file_that_changes_while_it_is_imported_leaves_nothing(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "letters"
    export_letters(store, None, file)
    whole = file.read_bytes()

    def cut(done: int) -> None:
        if done == len(whole):
            file.write_bytes(b"".join(whole.splitlines(keepends=True)[:3]))

    with Store.open(f"sqlite:///{tmp_path / 'other.db'}") as other:
        with pytest.raises(LetterFileError, match="line 4"):
            import_letters(other, file, by="user1", progress=cut)
        assert other.dead_letters.count() == 0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"stage": "middle"}, "no such stage"),
        ({"since": "yesterday"}, "since is no time"),
        ({"since": "1h", "until": "2h"}, "since is not before until"),
        ({"text": ""}, "empty"),
    ],
)
def test_filters_that_make_no_sense(given: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        which_letters(**given)  # type: ignore[arg-type]  # texts only


def test_times_of_filters() -> None:
    assert which_letters(since="2026-01-01", until="1767225600001") == DeadLetterFilter(
        since=1_767_225_600_000, until=1_767_225_600_001
    )


def test_datahubs_failed_events_are_read_line_by_line(tmp_path: Path) -> None:
    file = tmp_path / "failed_events.log"
    first = (
        '{ "event_type": "EntityChangeEvent_v1", "event": {"entityUrn":"urn:li:x"}, '
        '"meta": {"kafka":{"topic":"PlatformEvent_v1","offset":41,"partition":3}} }'
    )
    second = '{ "event_type": "MetadataChangeLogEvent_v1", "event": {}, "meta": null }'
    file.write_text(f'{first}\n\n{second}\n{{ "event_type": "Entity')
    assert is_failed_events(file)
    envelopes = read_failed_events(file)
    assert next(envelopes) == FailedEnvelope(
        line=1,
        text=first.encode(),
        event_type="EntityChangeEvent_v1",
        event={"entityUrn": "urn:li:x"},
        topic="PlatformEvent_v1",
        partition=3,
        offset=41,
    )
    assert next(envelopes) == FailedEnvelope(
        line=3, text=second.encode(), event_type="MetadataChangeLogEvent_v1", event={}
    )
    with pytest.raises(ConfigError, match="line 4"):
        next(envelopes)
