"""Files of dead letters: exported line by line, imported whole or not at all.

The first line says what the file is, each following one is a letter, and the last one gives their number and the
SHA-256 of all bytes before it: a file that was cut off or changed is noticed before anything is taken from it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from penstock.core.errors import ConfigError, Unavailable
from penstock.core.event import json_bytes
from penstock.core.letter_json import letter_as_json, letter_from_json
from penstock.store import DeadLetterStatus, DeadLetterStep, Store, StoredDeadLetter, Which
from penstock.store.letters.importing import Imported, LetterToImport

_KIND: Final = "dead-letters"
_VERSION: Final = 1
_BATCH_BYTES: Final = 8_000_000
_BATCH: Final = 500

Progress = Callable[[int], None]


class LetterFileError(ConfigError):
    """A file is no export of dead letters, or not all of one."""

    code = "dead-letter-file"


@dataclass(frozen=True, slots=True)
class _Kept:
    """What a line says besides the letter."""

    status: DeadLetterStatus
    replays: int
    history: list[DeadLetterStep]


def export_letters(store: Store, which: Which | None, path: Path, progress: Progress | None = None) -> int:
    """Write the letters in partition order; the file is there when all of it is. How many they are."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            count = _write(file.write, store, which, progress or (lambda _: None))
            file.flush()
            os.fsync(file.fileno())
        unfinished.rename(path)
    except OSError as error:
        raise Unavailable(f"{path} cannot be written: {error.strerror}", received=str(path)) from error
    finally:
        unfinished.unlink(missing_ok=True)
    return count


def _write(write: Callable[[bytes], object], store: Store, which: Which | None, progress: Progress) -> int:
    digest = hashlib.sha256()
    count = 0

    def line(data: dict[str, Any]) -> None:
        raw = json_bytes(data) + b"\n"
        digest.update(raw)
        write(raw)

    line({"penstock": _KIND, "version": _VERSION})
    for page in store.dead_letters.pages(which):
        for stored in page:
            line(_line(stored))
        count += len(page)
        progress(count)
    line({"letters": count, "sha256": digest.hexdigest()})
    return count


def _line(stored: StoredDeadLetter) -> dict[str, Any]:
    history = [asdict(step) for step in stored.history]
    kept = {"status": stored.row.status, "replays": stored.replays, "history": history}
    return letter_as_json(stored.letter) | kept


def import_letters(store: Store, path: Path, *, by: str, progress: Progress | None = None) -> Imported:
    """Add the letters of an export; those of events that the store has letters of are left as they are.

    The whole file is read and checked before the first letter is added. `progress` is told the bytes read, of twice the
    file's size.
    """
    told = progress or (lambda _: None)
    check_file(path, told)
    size = path.stat().st_size
    return store.dead_letters.import_letters(_batches(path, lambda at: told(size + at)), by=by)


def check_file(path: Path, progress: Progress | None = None) -> int:
    """Raise `LetterFileError` unless the file is a whole export; how many letters it has."""
    return sum(1 for _ in _letters(path, progress or (lambda _: None)))


def _batches(path: Path, progress: Progress) -> Iterator[list[LetterToImport]]:
    batch: list[LetterToImport] = []
    size = 0
    for letter, length in _letters(path, progress):
        batch.append(letter)
        size += length
        if len(batch) >= _BATCH or size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _letters(path: Path, progress: Progress) -> Iterator[tuple[LetterToImport, int]]:
    """Letters and the lengths of their lines; raises at the end where the file is not whole."""
    try:
        with path.open("rb") as file:
            yield from _checked(path, file, progress)
    except OSError as error:
        raise LetterFileError(f"{path} cannot be read: {error.strerror}", received=str(path)) from error


def _checked(path: Path, lines: Any, progress: Progress) -> Iterator[tuple[LetterToImport, int]]:
    digest = hashlib.sha256()
    read = count = number = 0
    for number, raw in enumerate(lines, 1):
        read += len(raw)
        data = _object(path, number, raw)
        if number == 1:
            _check_header(path, data)
        elif "sha256" in data:
            if data != {"letters": count, "sha256": digest.hexdigest()}:
                raise _bad(path, number, "the letters before it are not those that were exported")
            if lines.read(1):
                raise _bad(path, number + 1, "there is more behind the end of the export")
            progress(read)
            return
        else:
            yield _letter(path, number, data), len(raw)
            count += 1
            if count % 1000 == 0:
                progress(read)
        digest.update(raw)
    raise _bad(path, number + 1, "the end of the export is missing: the file was cut off")


def _object(path: Path, number: int, raw: bytes) -> dict[str, Any]:
    try:
        # Integers beyond 64 bits stay integers.
        data = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _bad(path, number, f"is not JSON: {error}") from error
    if not isinstance(data, dict):
        raise _bad(path, number, "is no JSON object")
    return data


def _check_header(path: Path, data: dict[str, Any]) -> None:
    if data.get("penstock") != _KIND:
        raise LetterFileError(
            f"{path}, line 1: the file is no export of dead letters",
            hint="penstock dead-letters export writes one",
        )
    if data.get("version") != _VERSION:
        raise LetterFileError(
            f"{path}, line 1: the file was written by another version",
            received=data.get("version"),
            allowed=[_VERSION],
            hint="import it with that version of Penstock, or a later one",
        )


def _letter(path: Path, number: int, data: dict[str, Any]) -> LetterToImport:
    try:
        letter = letter_from_json(data)
        kept = msgspec.convert(data, _Kept)
    except (KeyError, TypeError, ValueError) as error:
        lacking = f"has no {error}" if isinstance(error, KeyError) else str(error)
        raise _bad(path, number, f"is no dead letter: {lacking}") from error
    return LetterToImport(letter, kept.status, kept.replays, kept.history)


def _bad(path: Path, number: int, why: str) -> LetterFileError:
    hint = "nothing was imported; copy the file again, or export it again"
    return LetterFileError(f"{path}, line {number}: {why}", received=str(path), hint=hint)
