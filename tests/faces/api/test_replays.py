"""Replays over the API: as they are, edited, many at once; what they are refused for, and what is written down."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

import pytest

from penstock.config.spec import PipelineSpec
from penstock.service.replay import LetterReplay
from tests.faces.api.conftest import Api
from tests.support.waiting import until

_SPEC = PipelineSpec.model_validate(
    {
        "name": "orders",
        "source": {"type": "kafka", "config": {"topics": ["orders-in"]}},
        "action": {"type": "hello_world"},
    }
)


@dataclass
class Running:
    """The instance of this process, as far as the desk asks for it."""

    id: str = "i-1"
    spark: object = field(default_factory=object)
    runners: list[Any] = field(default_factory=list)

    def snapshot(self) -> list[Any]:
        return []


@dataclass
class Flow:
    name: str
    spec: PipelineSpec


@pytest.fixture
def replayed(api: Api, monkeypatch: pytest.MonkeyPatch) -> list[LetterReplay]:
    """Replays that were begun; each succeeds when it is run."""
    begun: list[LetterReplay] = []

    def run(self: LetterReplay, spark: object, stop: threading.Event) -> None:
        begun.append(self)

    monkeypatch.setattr(LetterReplay, "run", run)
    api.desk.instance = lambda: Running(runners=[Flow("orders", _SPEC)])  # type: ignore[assignment,return-value]
    return begun


def ended(api: Api, job: str) -> dict[str, Any]:
    def over() -> dict[str, Any] | None:
        found: dict[str, Any] = api.ask("GET", f"/dead-letters/jobs/{job}", "viewer").json()
        return found if found["ended_at"] else None

    return until(over, 20, "the job ends")


def test_a_letter_is_replayed_with_another_value(api: Api, replayed: list[LetterReplay]) -> None:
    answer = api.ask("POST", "/dead-letters/3/replay", "operator", json={"text": '{"card": "42"}'})
    assert answer.status_code == 202, answer.text
    assert (answer.json()["kind"], answer.json()["letters"], answer.json()["by"]) == ("replay", 1, "token operator")
    assert ended(api, answer.json()["id"])["state"] == "done"
    assert replayed[0].edit is not None
    assert replayed[0].edit.value == b'{"card": "42"}'
    assert replayed[0].plan.specs == {"orders": _SPEC}
    [entry] = api.ask("GET", "/audit?action=dead_letters.edit").json()["items"]
    assert (entry["subject"], entry["outcome"]) == ("dead-letter/3", "done")
    assert (entry["before"], entry["after"]) == ('{"card": "4111", "total": 3}', '{"card": "42"}')


@pytest.mark.parametrize(
    ("body", "value"), [({"base64": "/wA="}, b"\xff\x00"), ({}, None), ({"text": ""}, b"")], ids=str
)
def test_values_may_be_bytes_null_or_empty(
    api: Api, replayed: list[LetterReplay], body: dict[str, str], value: bytes | None
) -> None:
    job = api.ask("POST", "/dead-letters/3/replay", "operator", json=body).json()
    ended(api, job["id"])
    assert replayed[0].edit is not None
    assert replayed[0].edit.value == value


def test_many_letters_are_planned_and_then_replayed(api: Api, replayed: list[LetterReplay]) -> None:
    choice = {"filter": {"pipeline": "orders", "stage": "act"}}
    plan = api.ask("POST", "/dead-letters/replay", "operator", json=choice | {"dry_run": True}).json()
    assert (plan["letters"], replayed) == (5, [])
    assert plan["partitions"] == [{"pipeline": "orders", "topic": "orders-in", "partition": 0, "letters": 5}]
    job = api.ask("POST", "/dead-letters/replay", "operator", json=choice | {"rate": 50}).json()
    assert ended(api, job["id"])["what"] == "pipeline=orders, stage=act"
    assert replayed[0].rate == 50
    assert [each["id"] for each in api.ask("GET", "/dead-letters/jobs", "viewer").json()] == [job["id"]]
    stopped = api.ask("POST", f"/dead-letters/jobs/{job['id']}/stop", "operator")
    assert (stopped.status_code, stopped.json()["state"]) == (200, "done")
    assert api.ask("POST", f"/dead-letters/jobs/{job['id']}/stop", "viewer").status_code == 403
    assert api.ask("GET", f"/dead-letters/jobs/{job['id']}", "member").status_code == 404


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"text": "a", "base64": "YQ=="}, 422),
        ({"base64": "not base64"}, 422),
        ({"value": "a"}, 422),
        ({"text": 7}, 422),
    ],
    ids=str,
)
def test_what_is_no_value_replays_nothing(
    api: Api, replayed: list[LetterReplay], body: dict[str, Any], status: int
) -> None:
    assert api.ask("POST", "/dead-letters/3/replay", "operator", json=body).status_code == status
    assert replayed == []


def test_letters_that_cannot_be_replayed_are_named(api: Api, replayed: list[LetterReplay]) -> None:
    api.desk.store.dead_letters.discard([2], by="x", reason="y")
    refused = api.ask("POST", "/dead-letters/replay", "operator", json={"ids": [1, 2]})
    assert (refused.status_code, refused.json()["code"]) == (409, "dead-letter")
    assert "is discarded" in refused.json()["detail"]
    missing = api.ask("POST", "/dead-letters/replay", "operator", json={"ids": [1, 999]})
    assert missing.status_code == 409
    assert api.ask("POST", "/dead-letters/replay", "member", json={"ids": [1]}).status_code == 404
    assert replayed == []
