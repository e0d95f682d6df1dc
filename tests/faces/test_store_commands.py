"""`status` and `dead-letters` over a real store."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.core.dead_letter import DeadLetter, Failure
from penstock.store.instances import InstanceRow
from penstock.store.store import Store
from tests.faces.cli import penstock


def letter(offset: int, *, pipeline: str = "orders", error: str = "boom") -> DeadLetter:
    failure = Failure(
        stage="act",
        error_code="ValueError",
        error_class="builtins.ValueError",
        error=error,
        traceback="Traceback (most recent call last): …",
        fingerprint="f1",
        attempts=1,
        first_failed_at=1_700_000_000_000,
        last_failed_at=1_700_000_000_000 + offset,
    )
    return DeadLetter(
        pipeline=pipeline,
        spec_version="v1",
        group=pipeline,
        topic="orders",
        topic_id="id-1",
        partition=0,
        offset=offset,
        key=b"\xff\x00",
        value=b'{"a": 1}',
        headers=[("trace", b"1"), ("trace", b"2"), ("none", None)],
        timestamp=1_700_000_000_000,
        timestamp_type=1,
        failure=failure,
    )


@pytest.fixture
def store(penstock_home: Path) -> Store:
    penstock_home.mkdir(parents=True)
    return Store.open(f"sqlite:///{penstock_home / 'penstock.db'}")


def test_looking_at_a_store_that_does_not_exist_makes_none(penstock_home: Path) -> None:
    assert penstock("status", "--json").data == []
    assert penstock("dead-letters", "list", "--json").data == []
    assert penstock("dead-letters", "show", 1).code == 2
    assert not (penstock_home / "penstock.db").exists()


def test_dead_letters_have_the_promised_shape(store: Store) -> None:
    store.dead_letters.record([letter(7), letter(8)])
    found = penstock("dead-letters", "list", "--json").data
    assert [each["offset"] for each in found] == [8, 7]
    assert list(found[0]) == [
        *("id", "pipeline", "topic", "partition", "offset", "stage", "error_code", "error", "attempts"),
        *("status", "first_failed_at", "last_failed_at"),
    ]
    assert found[1]["stage"] == "act"
    assert found[1]["first_failed_at"] == "2023-11-14T22:13:20.000Z"


def test_dead_letters_can_be_narrowed_down(store: Store) -> None:
    store.dead_letters.record([letter(1), letter(2, pipeline="other"), letter(3, error="another thing")])
    one = penstock("dead-letters", "list", "--json", "--pipeline", "other").data
    assert [each["offset"] for each in one] == [2]
    assert [e["offset"] for e in penstock("dead-letters", "list", "--json", "--error", "ANOTHER").data] == [3]
    assert len(penstock("dead-letters", "list", "--json", "--limit", 2).data) == 2
    wrong = penstock("dead-letters", "list", "--stage", "nonsense")
    assert wrong.code == 2
    assert "decode, filter" in wrong.err


def test_show_gives_the_bytes_back(store: Store) -> None:
    store.dead_letters.record([letter(7, error="bad \x1b[31m thing")])
    (row,) = penstock("dead-letters", "list", "--json").data
    shown = penstock("dead-letters", "show", row["id"], "--json").data
    assert shown["key"] == {"base64": "/wA="}
    assert shown["value"] == {"text": '{"a": 1}'}
    assert [(h["name"], h["value"]) for h in shown["headers"]] == [
        ("trace", {"text": "1"}),
        ("trace", {"text": "2"}),
        ("none", None),
    ]
    assert shown["history"][0]["kind"] == "failed"
    text = penstock("dead-letters", "show", row["id"])
    assert "\x1b" not in text.out
    assert r"bad \x1b[31m thing" in text.out
    listed = penstock("dead-letters", "list")
    assert "\x1b" not in listed.out


def test_status_has_the_promised_shape(store: Store) -> None:
    store.instances.heartbeat(InstanceRow(id="i1", host="h", pid=1, version="0", started_at=0))
    store.pipelines.put_state("orders", "i1", "waiting", "broker is away", events=10, failures=1)
    store.pipelines.put_state("orders", "gone", "running", events=5)
    store.partitions.put("orders", "i1", [("orders", 0, 7, 9), ("orders", 1, None, None)])
    store.dead_letters.record([letter(7)])
    assert penstock("status", "--json").data == [
        {
            "pipeline": "orders",
            "state": "waiting",
            "reason": "broker is away",
            "partitions": [
                {"topic": "orders", "partition": 0, "committed": 7, "end": 9, "lag": 2, "owner": "i1"},
                {"topic": "orders", "partition": 1, "committed": None, "end": None, "lag": None, "owner": "i1"},
            ],
            "events": 15,
            "failures": 1,
            "dead_letters": 1,
        }
    ]
    assert "broker is away" in penstock("status", "orders").out


def test_status_of_pipelines_that_nobody_runs(store: Store) -> None:
    store.pipelines.put_state("orders", "gone", "running")
    store.pipelines.put_state("billing", "gone", "running")
    store.desired.set("billing", "failed", reason="bad event")
    states = {each["pipeline"]: (each["state"], each["reason"]) for each in penstock("status", "--json").data}
    assert states == {"orders": ("stopped", "no instance runs it"), "billing": ("failed", "bad event")}


def test_an_unknown_pipeline_is_a_clear_error(store: Store) -> None:
    result = penstock("status", "nobody")
    assert result.code == 2
    assert "nobody" in result.err


def test_a_store_that_is_away_ends_with_3() -> None:
    result = penstock("status", PENSTOCK_STORE_URL="postgresql://nobody:hunter22@127.0.0.1:1/none")
    assert result.code == 3
    assert "hunter22" not in result.out + result.err
