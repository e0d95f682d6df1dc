"""Alternate storage: messages as files in Lightning's place and format, written while the store is away or refuses
them, and read again by a recovery. A copy, never a settlement."""

from __future__ import annotations

import base64
import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from penstock.core.cipher import Cipher, WrongSecretKey
from penstock.core.errors import ConfigError, PenstockError, Terminal
from penstock.core.event import Headers, Record, RecordLike

PROBE: Final = ".lightning_storage_check"
RECOVERED: Final = ".recovered"
STORAGE_KEY: Final = "alternate-storage"
"""Label of the key, derived from the store's, that the copies are encrypted under."""
_ENCRYPTED: Final = "encrypted"
_CREATE_TIME: Final = 1
_NAME_PARTS: Final = 4


class StorageError(PenstockError, Terminal):
    """A copy could not be written."""

    code = "alternate_storage_failed"

    def __init__(self, reason: str, message: str) -> None:
        """The reason is `path_error`, `workflow_dir_error`, `serialisation` or `writing`."""
        super().__init__(message)
        self.reason = reason


class MalformedFile(PenstockError, Terminal):
    """A file that no message can be read from."""

    code = "malformed-file"


@dataclass(frozen=True, slots=True)
class Kept:
    """A file and the message in it."""

    path: Path
    trigger: str
    record: Record
    topic_id: str
    """Empty in files that Lightning wrote."""

    @property
    def place(self) -> tuple[str, int, int]:
        return self.record.topic(), self.record.partition(), self.record.offset()


def check_folder(base: str | Path | None) -> Path:
    """The folder of the files, or why it cannot be used."""
    if not base:
        raise ConfigError(
            "alternate storage is enabled and has no folder",
            hint="set KAFKA_ALTERNATE_STORAGE_FILE_PATH to a folder that exists",
        )
    folder = Path(base).expanduser()
    try:
        if not folder.is_dir():
            raise ConfigError("the folder of alternate storage does not exist", received=str(folder))
        (folder / PROBE).touch()
    except OSError as error:
        said = f"the folder of alternate storage cannot be written: {error.strerror}"
        raise ConfigError(said, received=str(folder)) from error
    return folder


class Files:
    """Writes the messages of one trigger."""

    def __init__(self, base: str, workflow: str, trigger: str, cipher: Cipher | None = None) -> None:
        """With a cipher the files are encrypted; their names say where a message was, and nothing of it."""
        for part in (workflow, trigger):
            if part in ("", ".", "..") or "/" in part or "\0" in part:
                raise ConfigError("alternate storage: a workflow or trigger is no name of a file", received=part)
        self._base, self._workflow, self._trigger = Path(base).expanduser(), workflow, trigger
        self._cipher = cipher

    def put(self, record: RecordLike, request: Mapping[str, Any], topic_id: str) -> Path:
        """One message; a file that is there is written anew."""
        folder = self._folder()
        name = f"{self._trigger}_{record.topic()}_{record.partition()}_{record.offset()}.json"
        try:
            text = orjson.dumps({**_data(record.value()), "metadata": dict(request), "topic_id": topic_id})
        except TypeError as error:
            raise StorageError("serialisation", str(error)) from error
        if self._cipher is not None:
            sealed = self._cipher.encrypt(text, f"copy/{name}")
            text = orjson.dumps({_ENCRYPTED: base64.b64encode(sealed).decode()})
        path = folder / name
        # Under another name first: a reader meets whole files only.
        unfinished = path.with_name(f".{name}.{os.getpid()}")
        try:
            # Payloads may be private: nobody else may open it, not even before it is complete.
            with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
                out.write(text)
            unfinished.replace(path)
        except OSError as error:
            with contextlib.suppress(OSError):
                unfinished.unlink(missing_ok=True)
            raise StorageError("writing", f"{path}: {error.strerror}") from error
        return path

    def _folder(self) -> Path:
        if not self._base.is_dir():
            raise StorageError("path_error", f"there is no folder {self._base}")
        folder = self._base / self._workflow
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise StorageError("workflow_dir_error", f"{folder}: {error.strerror}") from error
        return folder


def _data(value: bytes | None) -> dict[str, Any]:
    if value is None:
        return {"data": None}
    try:
        return {"data": value.decode()}
    except UnicodeDecodeError:
        return {"data": base64.b64encode(value).decode(), "data_encoding": "base64"}


# -- reading -------------------------------------------------------------------------------


def files_in(bases: Sequence[Path]) -> Iterator[Path]:
    """The files that wait: in the folders below each base, where there are any, else in the folder itself; or the one
    file that is named."""
    for base in bases:
        if base.is_dir():
            below = any(path.is_dir() for path in base.iterdir())
            yield from sorted(path for path in base.glob("*/*.json" if below else "*.json") if path.is_file())
        else:
            yield base


def read(path: Path, cipher: Cipher | None = None) -> Kept:
    """The message of a file, Lightning's or ours; `MalformedFile` where it has none. `cipher` is the store's own."""
    trigger, _, rest = path.name.partition("_")
    if not rest or len(path.stem.split("_")) < _NAME_PARTS:
        raise MalformedFile("its name is not TRIGGER_TOPIC_PARTITION_OFFSET.json", received=path.name)
    try:
        found = orjson.loads(path.read_bytes())
        if isinstance(found, dict) and _ENCRYPTED in found:
            found = orjson.loads(_revealed(found[_ENCRYPTED], path.name, cipher))
        record = _record(found["data"], found.get("data_encoding"), found["metadata"])
        return Kept(path, trigger, record, str(found.get("topic_id") or ""))
    except WrongSecretKey as error:
        raise MalformedFile(error.message, received=path.name) from None
    except OSError as error:
        raise MalformedFile(f"it cannot be read: {error.strerror}", received=path.name) from error
    except orjson.JSONDecodeError as error:
        raise MalformedFile(f"it is not JSON: {error}", received=path.name) from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        said = f"it is not {{data, metadata}} with the six keys: {type(error).__name__} {error}"
        raise MalformedFile(said, received=path.name) from None


def _revealed(text: str, name: str, cipher: Cipher | None) -> str:
    if cipher is None:
        raise WrongSecretKey("it is encrypted, and there is no key: set PENSTOCK_SECRET_KEY, or put back secret.key")
    try:
        return cipher.derived(STORAGE_KEY).reveal(text, f"copy/{name}")
    except WrongSecretKey:
        # Version 0.1 wrote copies under the store's own key.
        return cipher.reveal(text, "")


def _record(data: str | None, encoding: str | None, of: Mapping[str, Any]) -> Record:
    value = None if data is None else base64.b64decode(data) if encoding == "base64" else data.encode()
    key = str(of["key"] or "")
    encoded = of.get("headers_encoding") or [None] * len(of["headers"])
    headers: Headers = [
        (str(name), _unpacked(text, how)) for (name, text), how in zip(of["headers"], encoded, strict=True)
    ]
    return Record(
        str(of["topic"]),
        int(of["partition"]),
        int(of["offset"]),
        _unpacked(key, of.get("key_encoding")) if key else None,
        value,
        headers or None,
        int(of["ts"]),
        _CREATE_TIME,
    )


def _unpacked(text: str | None, how: str | None) -> bytes | None:
    if text is None:
        return None
    return base64.b64decode(text) if how == "base64" else text.encode()


def mark_recovered(path: Path) -> None:
    """So that no recovery looks at it again."""
    path.rename(path.with_name(path.name + RECOVERED))
