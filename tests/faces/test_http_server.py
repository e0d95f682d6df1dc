"""The HTTP server: metrics, health with reasons, ports."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import dataclass

import httpx
import pytest

from penstock.api.server import HttpServer, PortTakenError
from penstock.core.errors import ConfigError
from penstock.core.metrics import Metrics
from penstock.core.status import State
from penstock.service.health import STARTING, Health, health_of, instance_health


@dataclass
class View:
    name: str
    state: State
    reason: str | None = None


class Stopped:
    """An instance whose one pipeline has been stopped."""

    def snapshot(self) -> list[View]:
        return [View("orders", "stopped")]

    def troubles(self) -> list[str]:
        return []

    def failed_everywhere(self) -> set[str]:
        return set()


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that somebody listens at."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def serve(health: Health, **options: object) -> HttpServer:
    return HttpServer(health=lambda: health, metrics=lambda: b"", **options)  # type: ignore[arg-type]


def test_metrics_are_served_in_prometheus_format() -> None:
    metrics = Metrics()
    metrics.add_events("orders", acted=3)
    server = HttpServer(health=lambda: STARTING, metrics=metrics.exposition, port=0)
    address = server.start()
    try:
        answer = httpx.get(f"{address}/metrics")
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/plain")
        assert 'penstock_events_total{outcome="acted",pipeline="orders"} 3.0' in answer.text
    finally:
        server.stop()
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{address}/metrics")


def test_live_even_while_starting() -> None:
    server = serve(STARTING, port=0)
    address = server.start()
    try:
        assert httpx.get(f"{address}/health/live").json() == {"live": True}
        ready = httpx.get(f"{address}/health/ready")
        assert ready.status_code == 503
        assert ready.json() == {"ready": False, "codes": ["starting"], "pipelines": []}
    finally:
        server.stop()


def test_an_instance_that_stops_is_not_ready_although_its_pipelines_are_as_wanted() -> None:
    health = instance_health(Stopped(), stopping=True)
    assert (health.ready, health.codes) == (False, ["stopping"])
    assert instance_health(Stopped()).ready, "somebody stopped the pipeline, and nothing else"


def test_a_load_balancer_may_ask_for_the_status_alone() -> None:
    server = serve(STARTING, port=0)
    address = server.start()
    try:
        codes = [httpx.head(f"{address}/{path}").status_code for path in ("metrics", "health/live", "health/ready")]
    finally:
        server.stop()
    assert codes == [200, 200, 503]


@pytest.mark.parametrize(
    ("state", "status"),
    [("running", 200), ("idle", 200), ("paused", 200), ("waiting", 503), ("failed", 503), ("invalid", 503)],
)
def test_ready_names_the_pipeline_that_is_not(state: State, status: int) -> None:
    ready = status == 200
    server = serve(health_of([View("good", "running"), View("other", state, "ada@example.org is unknown")]), port=0)
    address = server.start()
    try:
        answer = httpx.get(f"{address}/health/ready")
    finally:
        server.stop()
    assert answer.status_code == status
    body = answer.json()
    assert body["pipelines"][1] == {"pipeline": "other", "state": state, "ready": ready}
    assert body.get("codes") == (None if ready else ["pipelines"])
    assert "ada@example.org" not in answer.text, "nobody has logged in to see what events and targets say"


def test_a_pipeline_that_has_failed_on_all_instances_is_told_of_and_holds_no_rollout_back() -> None:
    views = [View("good", "running"), View("thrown", "failed", "bad event"), View("here", "failed", "no plug-in")]
    health = health_of(views[:2], failed_everywhere={"thrown"})
    assert health.as_dict() == {
        "ready": True,
        "pipelines": [
            {"pipeline": "good", "state": "running", "ready": True},
            {"pipeline": "thrown", "state": "failed", "ready": False},
        ],
    }
    both = health_of(views, failed_everywhere={"thrown"})
    assert (both.ready, both.codes) == (False, ["pipelines"]), "the instance before may still run it"
    waits = health_of([View("thrown", "waiting", "broker away")], failed_everywhere={"thrown"})
    assert not waits.ready, "it was resumed, and an outage is an outage"


def test_what_all_pipelines_need_is_a_reason_too() -> None:
    health = health_of([View("good", "running")], ["store"])
    assert health.as_dict() == {
        "ready": False,
        "codes": ["store"],
        "pipelines": [{"pipeline": "good", "state": "running", "ready": True}],
    }


def test_a_file_that_cannot_be_used_is_told_and_keeps_nothing_from_being_ready() -> None:
    health = health_of([View("good", "running", "it goes on as it was, for its file cannot be used: line 3")])
    assert health.ready


def test_default_port_taken_means_the_next_free_one(taken: int) -> None:
    server = serve(STARTING, default_port=taken)
    address = server.start()
    try:
        assert int(address.rpartition(":")[2]) > taken
        assert httpx.get(f"{address}/health/live").status_code == 200
    finally:
        server.stop()


def test_configured_port_taken_is_an_error(taken: int) -> None:
    with pytest.raises(PortTakenError) as caught:
        serve(STARTING, port=taken).start()
    assert str(taken) in str(caught.value.received)
    assert caught.value.hint


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.7", "example.org"])  # noqa: S104 - refused is what is tested
def test_only_this_machine(host: str) -> None:
    with pytest.raises(ConfigError):
        serve(STARTING, host=host)


@pytest.mark.parametrize("path", ["/", "/docs", "/openapi.json"])
def test_nothing_else_is_served(path: str) -> None:
    server = serve(STARTING, port=0)
    address = server.start()
    try:
        assert httpx.get(address + path).status_code == 404
    finally:
        server.stop()
