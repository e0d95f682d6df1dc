"""Topics and offsets over the API, on the embedded broker."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.config.spec import PipelineSpec
from penstock.config.stored import stored
from penstock.kafka.client import KafkaClientConfig
from penstock.kafka.embedded import EmbeddedCluster
from penstock.kafka.producer import NewRecord, produce
from tests.faces.api.conftest import Api
from tests.support.waiting import until

_VALUES = [b'{"n": %d, "mark": "<b>\\u202e"}' % number for number in range(9)] + [b"\xff not text"]


@pytest.fixture(scope="module")
def asked(shared_api: Api) -> Iterator[Api]:
    """A pipeline `live` that reads a topic of ten records."""
    with EmbeddedCluster(1) as cluster:
        cluster.create_topic("events")
        cluster.create_topic("others")
        source = {"connection": {"bootstrap": cluster.bootstrap}, "topics": ["events"], "format": "json"}
        spec = PipelineSpec.model_validate(
            {"name": "live", "source": {"type": "kafka", "config": source}, "action": {"type": "hello_world"}}
        )
        client = KafkaClientConfig.of(spec.source.config.connection)
        records = [NewRecord("events", value, f"key-{n}".encode(), [("h", b"v")]) for n, value in enumerate(_VALUES)]
        produce(client, records)
        shared_api.desk.store.pipelines.save_spec("live", spec.version, stored(spec))
        shared_api.desk.store.pipelines.put_state("live", "i-1", "running")
        shared_api.desk.forget()
        yield shared_api


def test_topics_are_listed_with_their_records(asked: Api) -> None:
    found = asked.ask("GET", "/pipelines/live/topics", "viewer").json()
    assert [(topic["topic"], topic["records"]) for topic in found] == [("events", 10), ("others", 0)]


def test_records_are_browsed_by_place_time_and_key(asked: Api) -> None:
    path = "/pipelines/live/topics/events/records"
    page = asked.ask("GET", path, "viewer").json()
    assert len(page["records"]) == 10
    assert page["complete"]
    assert {"base64": "/yBub3QgdGV4dA==", "text": None} in [record["value"] for record in page["records"]]
    record = page["records"][0]
    assert record["headers"] == [{"name": "h", "value": {"text": "v", "base64": None}}]
    [one] = asked.ask("GET", f"{path}?key=key-3", "viewer").json()["records"]
    assert one["key"]["text"] == "key-3"
    there = f"{path}?partition={one['partition']}&start={one['offset']}&limit=1"
    assert asked.ask("GET", there, "viewer").json()["records"][0]["key"]["text"] == "key-3"
    assert len(asked.ask("GET", f"{path}?start=earliest", "viewer").json()["records"]) == 10
    for bad, status in (("start=yesterday", 422), ("partition=99", 422), ("limit=0", 422)):
        assert asked.ask("GET", f"{path}?{bad}", "viewer").status_code == status


def test_every_decoder_says_why_it_failed(asked: Api) -> None:
    page = asked.ask("GET", "/pipelines/live/topics/events/records", "viewer").json()
    broken = next(record for record in page["records"] if record["value"]["base64"])
    path = f"/pipelines/live/topics/events/records/{broken['partition']}/{broken['offset']}/decoders"
    report = {tried["decoder"]: tried for tried in asked.ask("GET", path, "viewer").json()}
    assert report["json"]["configured"]
    assert report["json"]["value"] is None
    assert report["json"]["why"]
    missing = asked.ask("GET", "/pipelines/live/topics/events/records/0/999/decoders", "viewer")
    assert missing.status_code == 404


def test_a_tail_ends_when_its_token_is_revoked(asked: Api) -> None:
    made = asked.ask("POST", "/tokens", json={"name": "for a moment", "role": "viewer"}).json()
    asked.tokens["short"] = made["token"]

    def used() -> bool:
        [token] = [each for each in asked.ask("GET", "/tokens").json() if each["id"] == made["id"]]
        return token["used_at"] is not None

    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(asked.ask, "GET", "/pipelines/live/topics/others/tail?seconds=60", "short")
        until(used, 20, "the tail was let in")
        assert asked.ask("DELETE", f"/tokens/{made['id']}").status_code == 204
        answer = following.result(timeout=40)
    assert answer.status_code == 200
    assert answer.text.startswith("event: problem")
    assert "was revoked" in answer.text


def test_a_tail_is_bounded_and_ends(asked: Api) -> None:
    answer = asked.ask("GET", "/pipelines/live/topics/events/tail?limit=4&last=10&seconds=20", "viewer")
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = [line for line in answer.text.splitlines() if line.startswith("event: ")]
    assert events == ["event: record"] * 4 + ["event: end"]
    quiet = asked.ask("GET", "/pipelines/live/topics/others/tail?seconds=0.3", "viewer")
    assert quiet.text == "event: end\ndata: {}\n\n"
    assert asked.ask("GET", "/pipelines/live/topics/events/tail?seconds=9999", "viewer").status_code == 422


def test_offsets_are_shown_and_a_reset_is_previewed(asked: Api) -> None:
    shown = asked.ask("GET", "/pipelines/live/offsets", "viewer").json()
    assert sum(place["end"] for place in shown) == 10
    assert {place["committed"] for place in shown} == {None}
    moves = asked.ask("POST", "/pipelines/live/offsets/preview", "viewer", json={"to": "latest"}).json()
    assert sum(move["new"] for move in moves) == 10
    beyond = asked.ask("POST", "/pipelines/live/offsets/preview", "viewer", json={"to": "offset", "offset": 99})
    assert (beyond.status_code, beyond.json()["code"]) == (422, "config")
    assert "outside the log" in beyond.json()["detail"]
    other = {"to": "earliest", "topic": "others"}
    assert asked.ask("POST", "/pipelines/live/offsets/preview", "viewer", json=other).status_code == 422
    live = asked.ask("GET", "/pipelines/live/partitions?ask=true", "viewer").json()
    assert sum(place["lag"] for place in live) == 10


def test_a_cluster_that_is_away_is_an_outage(asked: Api) -> None:
    source = {"connection": {"bootstrap": "127.0.0.1:1"}, "topics": ["events"], "format": "json"}
    spec = PipelineSpec.model_validate(
        {"name": "lost", "source": {"type": "kafka", "config": source}, "action": {"type": "hello_world"}}
    )
    asked.desk.store.pipelines.save_spec("lost", spec.version, stored(spec))
    asked.desk.forget()
    answer = asked.ask("GET", "/pipelines/lost/partitions?ask=true", "viewer")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")


def test_a_spec_whose_secrets_are_masked_says_who_can_help(asked: Api) -> None:
    source = {
        "connection": {"bootstrap": "127.0.0.1:1", "consumer_config": {"sasl.password": "canary-91c"}},
        "topics": ["events"],
        "format": "json",
    }
    spec = PipelineSpec.model_validate(
        {"name": "secretive", "source": {"type": "kafka", "config": source}, "action": {"type": "hello_world"}}
    )
    asked.desk.store.pipelines.save_spec("secretive", spec.version, stored(spec))
    asked.desk.forget()
    answer = asked.ask("GET", "/pipelines/secretive/offsets", "viewer")
    assert answer.status_code == 422
    assert "an instance that runs it" in answer.json()["hint"]
    assert "canary-91c" not in answer.text + asked.ask("GET", "/pipelines/secretive", "viewer").text
