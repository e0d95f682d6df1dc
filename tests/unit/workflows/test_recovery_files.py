"""Files of alternate storage: Lightning's are read, and what is written can be read by Lightning's rules."""

from __future__ import annotations

import base64
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.cipher import Cipher
from penstock.core.errors import ConfigError
from penstock.core.event import Record
from penstock.workflows import recovery
from penstock.workflows.message import MessageReader
from penstock.workflows.recovery import (
    STORAGE_KEY,
    Files,
    MalformedFile,
    StorageError,
    check_folder,
    files_in,
    read,
)

LIGHTNING = (
    '{"data": "{\\"patient\\":\\"p-88\\"}", "metadata": {"topic": "lab_results", "partition": 4, "offset": 1207,'
    ' "key": "p-88", "ts": 1755000000123, "headers": [["src", "hl7"]]}}'
)


def test_a_file_that_lightning_wrote(tmp_path: Path) -> None:
    path = tmp_path / "t-1_lab_results_4_1207.json"
    path.write_text(LIGHTNING)
    kept = read(path)
    assert (kept.trigger, kept.topic_id, kept.place) == ("t-1", "", ("lab_results", 4, 1207))
    assert kept.record == Record(
        "lab_results", 4, 1207, b"p-88", b'{"patient":"p-88"}', [("src", b"hl7")], 1755000000123, 1
    )


@given(st.one_of(st.none(), st.binary(max_size=30)), st.binary(min_size=1, max_size=9), st.binary(max_size=9))
def test_what_is_written_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, value: bytes | None, key: bytes, header: bytes
) -> None:
    base = tmp_path_factory.mktemp("base")
    record = Record("a_b", 0, 7, key, value, [("h", header)], 12, 1)
    request = json.loads(MessageReader().request(record))
    path = Files(str(base), "w-1", "t-1").put(record, request, "id-1")
    assert path == base / "w-1" / "t-1_a_b_0_7.json"
    assert json.loads(path.read_bytes())["metadata"] == request
    assert (read(path).record, read(path).topic_id) == (record, "id-1")
    assert list(files_in([base])) == list(files_in([base / "w-1"])) == list(files_in([path])) == [path]
    recovery.mark_recovered(path)
    assert path.with_name("t-1_a_b_0_7.json.recovered").exists()
    assert list(files_in([base])) == []


def test_copies_that_are_encrypted_say_nothing_without_the_key(tmp_path: Path) -> None:
    cipher, other = Cipher(b"k" * 32), Cipher(b"o" * 32)
    record = Record("results", 0, 7, b"the key", b"the payload", [("h", b"the header")], 12, 1)
    request = json.loads(MessageReader().request(record))
    path = Files(str(tmp_path), "w-1", "t-1", cipher.derived(STORAGE_KEY)).put(record, request, "id-1")
    assert b"the " not in path.read_bytes()
    assert (read(path, cipher).record, read(path, cipher).topic_id) == (record, "id-1")
    for wrong, said in ((None, "there is no key"), (other, "under another key")):
        with pytest.raises(MalformedFile, match=said):
            read(path, wrong)


def test_a_copy_is_bound_to_its_name(tmp_path: Path) -> None:
    cipher = Cipher(b"k" * 32)
    record = Record("results", 0, 7, b"k", b"v", None, 12, 1)
    request = json.loads(MessageReader().request(record))
    path = Files(str(tmp_path), "w-1", "t-1", cipher.derived(STORAGE_KEY)).put(record, request, "id-1")
    moved = path.rename(path.with_name("t-2_results_0_7.json"))
    with pytest.raises(MalformedFile, match="another place"):
        read(moved, cipher)


def test_copies_that_version_0_1_encrypted_under_the_key_of_the_store_are_read(tmp_path: Path) -> None:
    key, nonce, plain = b"k" * 32, b"n" * 12, LIGHTNING.encode()
    sealed = b"\x01" + nonce + AESGCM(key).encrypt(nonce, plain, b"\x01")
    path = tmp_path / "t-1_lab_results_4_1207.json"
    path.write_text(json.dumps({"encrypted": base64.b64encode(sealed).decode()}))
    assert read(path, Cipher(key)).record.value() == b'{"patient":"p-88"}'
    assert read(path, Cipher(b"o" * 32, key)).record.value() == b'{"patient":"p-88"}', "also after a rotation"


def test_l08_a_copy_is_private_from_its_first_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    opened = os.open

    def look(path: Any, flags: int, mode: int = 0o777, **more: Any) -> int:
        fd = opened(path, flags, mode, **more)
        seen.append(stat.S_IMODE(os.fstat(fd).st_mode))
        return fd

    before = os.umask(0)
    try:
        monkeypatch.setattr(os, "open", look)
        record = Record("results", 0, 7, b"k", b"v", None, 12, 1)
        path = Files(str(tmp_path), "w-1", "t-1").put(record, {"topic": "results"}, "id-1")
    finally:
        os.umask(before)
    assert seen == [0o600]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("name", ["../w", "a/b", "..", ".", ""])
def test_m09_a_workflow_or_trigger_is_no_path(tmp_path: Path, name: str) -> None:
    for workflow, trigger in ((name, "t"), ("w", name)):
        with pytest.raises(ConfigError, match="no name of a file"):
            Files(str(tmp_path), workflow, trigger)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("t_a_0_1.json", "{", "not JSON"),
        ("t_a_0_1.json", "[]", "six keys"),
        ("t_a_0_1.json", '{"data": "x"}', "six keys"),
        ("t_a_0_1.json", LIGHTNING.replace("4", '"four"'), "six keys"),
        ("notes.json", LIGHTNING, "its name"),
    ],
)
def test_a_malformed_file_says_why(tmp_path: Path, name: str, text: str, said: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(MalformedFile, match=said):
        read(tmp_path / name)


def test_the_folder_is_looked_at_before_anything_starts(tmp_path: Path) -> None:
    assert check_folder(str(tmp_path)) == tmp_path
    assert (tmp_path / ".lightning_storage_check").exists()
    for wrong, said in ((None, "no folder"), (tmp_path / "missing", "does not exist")):
        with pytest.raises(ConfigError, match=said):
            check_folder(wrong)


def test_errors_have_lightnings_reasons(tmp_path: Path) -> None:
    record = Record("a", 0, 1, None, b"{}", None, 1, 1)
    with pytest.raises(StorageError) as caught:
        Files(str(tmp_path / "missing"), "w", "t").put(record, {}, "")
    assert caught.value.reason == "path_error"
    (tmp_path / "w").write_text("a file in the way")
    with pytest.raises(StorageError) as caught:
        Files(str(tmp_path), "w", "t").put(record, {}, "")
    assert caught.value.reason == "workflow_dir_error"
    (tmp_path / "v" / "t_a_0_1.json").mkdir(parents=True)
    with pytest.raises(StorageError) as caught:
        Files(str(tmp_path), "v", "t").put(record, {}, "")
    assert caught.value.reason == "writing"
