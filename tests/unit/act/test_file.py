"""The `file` action: lines, rotation, several writers, full disks."""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import signal
import stat
from pathlib import Path
from typing import Any

import pytest

from penstock.act.registry import actions
from penstock.core.errors import ConfigError, Unavailable
from penstock.core.plugin import PipelineContext
from penstock.core.sizes import parse_size
from tests.support.events import make_event

CTX = PipelineContext("p")


def made(path: Path, **config: Any) -> Any:
    return actions.create("file", {"path": str(path), **config}, CTX)


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_l08_files_are_private_unless_the_pipeline_says_otherwise(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        for name, config in (("private", {}), ("shared", {"mode": "0640"})):
            action = made(tmp_path / name, rotate="1", **config)
            for _ in range(2):
                action.act_batch([make_event({"n": 1})])
            action.close()
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {"private": 0o600, "private.1": 0o600, "shared": 0o640, "shared.1": 0o640}


@pytest.mark.parametrize("mode", ["0777", "600x", "666", 384])
def test_modes_that_let_others_write_are_refused(tmp_path: Path, mode: object) -> None:
    with pytest.raises(ConfigError, match="mode"):
        made(tmp_path / "x", mode=mode)


def test_one_line_per_event(tmp_path: Path) -> None:
    action = made(tmp_path / "deep" / "out.jsonl", fsync=True)
    events = [
        make_event({"n": 1}, headers=[("a", b"x"), ("a", None), ("b", b"\xff")]),
        make_event("text", key=b"\xff\x00"),
        make_event(b"\xfe", key=None),
    ]
    assert action.act_batch(events) == [None, None, None]
    action.close()
    first, second, third = lines(tmp_path / "deep" / "out.jsonl")
    assert first == {
        "event_type": "JsonEvent",
        "event": {"n": 1},
        "meta": {
            "kafka": {
                "topic": "orders",
                "partition": 3,
                "offset": 41,
                "key": "key-1",
                "timestamp": 1_755_000_000_000,
                "headers": [["a", "x"], ["a", None], ["b", {"base64": "/w=="}]],
            }
        },
    }
    assert second["event"] == "text"
    assert second["meta"]["kafka"]["key"] == {"base64": "/wA="}
    assert third["event"] == {"base64": "/g=="}
    assert third["meta"]["kafka"]["key"] is None


def test_what_transforms_add_to_meta_stays(tmp_path: Path) -> None:
    event = make_event({})
    event.meta["note"] = "x"
    made(tmp_path / "out").act_batch([event])
    [line] = lines(tmp_path / "out")
    assert (line["meta"]["note"], line["meta"]["kafka"]["key"]) == ("x", "key-1")


def test_an_event_without_a_json_form_fails_alone(tmp_path: Path) -> None:
    bad = make_event({})
    bad.value = {"n": "\ud800"}
    first, second, third = made(tmp_path / "out").act_batch([make_event(1), bad, make_event(3)])
    assert (first, third) == (None, None)
    assert second.code == "file-line"
    assert [line["event"] for line in lines(tmp_path / "out")] == [1, 3]


def test_a_relative_path_starts_at_the_pipelines_folder(tmp_path: Path) -> None:
    ctx = PipelineContext("p", folder=str(tmp_path))
    actions.create("file", {"path": "out/x.jsonl"}, ctx).act_batch([make_event(1)])  # type: ignore[attr-defined]  # a batch action
    assert len(lines(tmp_path / "out" / "x.jsonl")) == 1


def test_rotation_keeps_every_line(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    action = made(path, rotate="1KB")
    for n in range(50):
        action.act_batch([make_event(n)])
    action.close()
    rotated = sorted(tmp_path.glob("out.jsonl.*"), key=lambda file: int(file.suffix[1:]))
    assert [file.suffix for file in rotated] == [f".{n + 1}" for n in range(len(rotated))]
    assert len(rotated) > 5
    assert all(file.stat().st_size <= 1_000 for file in [*rotated, path])
    assert [line["event"] for file in [*rotated, path] for line in lines(file)] == list(range(50))


def write_many(path: Path, writer: int) -> None:
    action = made(path, rotate="20KB")
    for n in range(200):
        action.act_batch([make_event([writer, n, part]) for part in range(3)])
    action.close()


def test_several_writers_lose_and_tear_nothing(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=write_many, args=(path, writer)) for writer in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(120)
    assert [writer.exitcode for writer in writers] == [0] * 4
    files = list(tmp_path.glob("out.jsonl*"))
    assert len(files) > 5
    found = [tuple(line["event"]) for file in files for line in lines(file)]
    assert sorted(found) == [(w, n, part) for w in range(4) for n in range(200) for part in range(3)]


def test_a_line_that_a_dead_writer_left_unfinished_spoils_no_other(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b'{"event": 0}\n{"event')
    made(path).act_batch([make_event(1)])
    torn, whole = path.read_text().splitlines()[1:]
    assert torn == '{"event'
    assert json.loads(whole)["event"] == 1


def test_a_file_removed_from_outside_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "out"
    action = made(path)
    action.act_batch([make_event(1)])
    path.unlink()
    action.act_batch([make_event(2)])
    assert [line["event"] for line in lines(path)] == [2]


def test_a_batch_that_does_not_fit_leaves_no_half_and_is_an_outage(tmp_path: Path) -> None:
    path = tmp_path / "out"
    action = made(path)
    action.act_batch([make_event(1)])
    size = path.stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, hard))
        with pytest.raises(Unavailable, match="cannot be written to"):
            action.act_batch([make_event(n) for n in range(10)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert path.stat().st_size == size
    assert action.act_batch([make_event(2)]) == [None]
    assert [line["event"] for line in lines(path)] == [1, 2]


def test_a_path_that_cannot_be_written_to_is_a_configuration_error(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(ConfigError, match="`path` cannot be written to"):
        made(tmp_path / "taken")
    (tmp_path / "plain").touch()
    with pytest.raises(ConfigError, match="`path` cannot be written to"):
        made(tmp_path / "plain" / "below")


def test_closing_twice_is_fine(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    action = made(tmp_path / "out")
    action.close()
    action.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.parametrize(
    ("text", "size"), [("100MB", 100_000_000), ("64KiB", 65_536), ("1.5 kb", 1_500), (7, 7), ("12", 12)]
)
def test_sizes(text: Any, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["10 parsecs", "", "-1", "0", True, "MB"])
def test_what_is_no_size(text: Any) -> None:
    with pytest.raises(ValueError, match="size"):
        parse_size(text)
