"""Documents that shall kill, freeze or flood the instance: `validate` refuses them, and the process goes on."""

from __future__ import annotations

import itertools
import json
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from penstock.api.app import mount_api
from penstock.api.server import HttpServer
from penstock.service.health import STARTING
from tests.faces.api.conftest import Api

SECONDS = float(os.environ.get("PENSTOCK_TEST_HOSTILE_SECONDS", "8"))
SLOWEST = float(os.environ.get("PENSTOCK_TEST_HOSTILE_SLOWEST", "8"))
"""Seconds that `/health/live` may take: beside other tests what only a freeze would take, on a quiet machine set 1."""
"""Of the attack; a minute finds more."""

HOSTS = ",".join(f"93.184.{n // 250}.{n % 250 + 1}:9092" for n in range(8_000))
NAMES = ",".join(f"no-{n}.invalid:9092" for n in range(300))


def _pipeline(source: dict[str, Any] | None = None, connection: dict[str, Any] | None = None, **more: Any) -> str:
    config = {"topics": ["orders"], "connection": {"bootstrap": "localhost:9092"} | (connection or {})} | (source or {})
    config = {key: value for key, value in config.items() if value is not None}
    return json.dumps(
        {"name": "kept", "source": {"type": "kafka", "config": config}, "action": {"type": "hello_world"}} | more
    )


def _expressions() -> Iterator[str]:
    for n in (600, 24_000, 200_000):
        yield "event" + ".a" * n
        yield "1" + "+1" * n
        yield "event" + "[0]" * n
        yield "!" * n + "true"
        yield "(" * n
        yield "true?1:" * n + "1"
        yield "'" * n


def _crashing() -> Iterator[str]:
    for text in _expressions():
        yield _pipeline(filters=[{"type": "cel", "config": {"expression": text}}])
        yield _pipeline(action={"type": "webhook", "config": {"url": "https://1.1.1.1/", "body": {"a": text}}})
        yield _pipeline(action={"type": "kafka", "config": {"topic": "t", "key": text}})
        yield _pipeline(action={"type": "notify", "config": {"urls": ["json://1.1.1.1"], "title": f"{{{{ {text} }}}}"}})
    yield _pipeline(action={"type": "notify", "config": {"urls": ["json://1.1.1.1"], "title": "{{" * 400_000}})


def _freezing() -> Iterator[str]:
    for pattern in ("^(a+)+$", "^(a|aa)+$", "^(.*a){20}$", "^" + "(a?)" * 100 + "a" * 100, "^((" * 400):
        letters = {"dead_letter": {"topic": "a" * 240 + "-"}}
        yield _pipeline({"topics": None, "topic_pattern": pattern, "format": "json"}, options=letters)
    yield _pipeline(action={"type": "processor", "config": {"processor": "(" * 100_000}})
    yield _pipeline({"start": "1" * 400_000})
    yield _pipeline(connection={"consumer_config": {"sasl.jaas.config": "a required " + "b=" * 100_000}})
    yield "name: " + "${" * 200_000
    yield "name: " + "[" * 100_000
    yield "{" * 100_000


def _flooding() -> Iterator[str]:
    yield _pipeline(connection={"bootstrap": HOSTS})
    yield _pipeline(connection={"bootstrap": NAMES})
    yield _pipeline(connection={"schema_registry_url": "http://" + ",http://".join(NAMES.split(","))})
    yield _pipeline({"topics": [f"t{n}" for n in range(50_000)]})
    yield json.dumps({f"k{n}": n for n in range(50_000)})


def _workflows() -> Iterator[str]:
    for text in _expressions():
        steps = [{"name": "a", "http": "https://1.1.1.1/", "config": {"body": text}}, {"name": "b", "python": "m:f"}]
        edges = [{"from": "a", "to": "b", "when": text}]
        yield json.dumps({"kind": "workflow", "project": "health", "name": "x", "steps": steps, "edges": edges})


def _broken(text: str, seed: random.Random) -> str:
    """A copy with a piece that is doubled, dropped or replaced."""
    at = seed.randrange(len(text))
    end = min(len(text), at + seed.randrange(1, 40))
    return (
        text[:at]
        + seed.choice(["", text[at:end] * seed.randrange(2, 400), "\\ud800", "&a", "\0", "é", "{{"])
        + text[end:]
    )


DOCUMENTS: dict[str, Callable[[], Iterator[str]]] = {
    "crashing": _crashing,
    "freezing": _freezing,
    "flooding": _flooding,
}


@pytest.fixture(scope="module")
def address(shared_api: Api) -> Iterator[str]:
    """Of a real server in this process: what kills it ends the test run."""
    server = HttpServer(
        health=lambda: STARTING,
        metrics=lambda: b"",
        port=0,
        extend=lambda app: mount_api(app, shared_api.desk, shared_api.auth),
    )
    try:
        yield server.start()
    finally:
        server.stop()


def _validate(address: str, token: str, text: str, what: str = "pipelines") -> httpx.Response:
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.post(f"{address}/api/v1/{what}/validate", json={"text": text}, headers=headers, timeout=60)


def test_who_may_only_look_may_not_validate(shared_api: Api) -> None:
    for what in ("pipelines", "workflows"):
        for role, status in (("viewer", 403), ("operator", 200), ("member", 200)):
            answer = shared_api.ask("POST", f"/{what}/validate", role, json={"text": _pipeline()})
            assert answer.status_code == status, (what, role)


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_each_hostile_document_is_answered_in_seconds(address: str, shared_api: Api, kind: str) -> None:
    process = psutil.Process()
    _validate(address, shared_api.tokens["operator"], _pipeline())
    for number, text in enumerate(DOCUMENTS[kind]()):
        before, began = process.num_threads(), time.monotonic()
        answer = _validate(address, shared_api.tokens["operator"], text)
        assert answer.status_code in (200, 413, 422), (number, answer.text[:500])
        assert time.monotonic() - began < 15, (number, text[:100])
        assert process.num_threads() - before < 30, (number, text[:100])
        if kind != "flooding" and answer.status_code == 200:
            assert not answer.json()["valid"] or len(text) < 20_000, (number, text[:100])


def test_the_process_lives_while_hostile_documents_are_validated(address: str, shared_api: Api, tmp_path: Path) -> None:
    """Viewers are refused; operators are answered; `/health/live` answers all the while."""
    seed = random.Random(7)
    known = [*_crashing(), *_freezing(), *_flooding()]
    seed.shuffle(known)
    texts = itertools.cycle(known)
    lock, over = threading.Lock(), time.monotonic() + SECONDS
    answers: list[tuple[str, int]] = []

    def attack(role: str) -> None:
        while time.monotonic() < over:
            with lock:
                text = next(texts)
                text = text if seed.random() < 0.5 else _broken(text, seed)
            answer = _validate(address, shared_api.tokens[role], text)
            answers.append((role, answer.status_code))

    def attack_workflows() -> None:
        for text in itertools.cycle(_workflows()):
            if time.monotonic() >= over:
                return
            answers.append(
                ("operator", _validate(address, shared_api.tokens["operator"], text, "workflows").status_code)
            )

    threads = [threading.Thread(target=attack, args=(role,)) for role in ("viewer", "operator", "operator")]
    threads.append(threading.Thread(target=attack_workflows))
    for thread in threads:
        thread.start()
    slowest = 0.0
    while time.monotonic() < over:
        began = time.monotonic()
        assert httpx.get(f"{address}/health/live", timeout=10).json() == {"live": True}
        slowest = max(slowest, time.monotonic() - began)
    for thread in threads:
        thread.join(120)
    assert {status for role, status in answers if role == "viewer"} <= {403, 413, 422}
    assert {status for role, status in answers if role == "operator"} <= {200, 413, 422}, answers
    assert any(role == "operator" and status == 200 for role, status in answers)
    assert slowest < SLOWEST, f"/health/live took {slowest:.1f} s"


def test_live_answers_while_every_thread_of_the_pool_is_taken(shared_api: Api) -> None:
    release = threading.Event()

    def waits() -> bytes:
        release.wait(30)
        return b""

    server = HttpServer(health=lambda: STARTING, metrics=waits, port=0)
    address = server.start()
    askers = [threading.Thread(target=lambda: httpx.get(f"{address}/metrics", timeout=60)) for _ in range(60)]
    try:
        for asker in askers:
            asker.start()
        began = time.monotonic()
        while time.monotonic() - began < 2:
            assert httpx.get(f"{address}/health/live", timeout=10).json() == {"live": True}
    finally:
        release.set()
        for asker in askers:
            asker.join(60)
        server.stop()
