"""`slack`, `teams` and `notify` against a real HTTP server: what arrives, how fast, and what becomes of errors."""

from __future__ import annotations

import itertools
import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.act import observed
from penstock.act.notify import Notify
from penstock.act.registry import actions, check_action
from penstock.act.urns import parse_urn
from penstock.act.webhook import WebhookAwayError, WebhookRefusedError
from penstock.core.errors import ConfigError, PenstockError
from penstock.core.event import Event, Record
from penstock.core.net.guard import AddressGuard, AddressRefused
from penstock.core.plugin import Action, PipelineContext
from penstock.core.secrets import find_secrets, masked
from tests.behaviour.act.hook_server import Answer, HookServer, Request

DATASET = "urn:li:dataset:(urn:li:dataPlatform:hive,shop.orders,PROD)"
OK = Answer(body=b'{"ok": true}')
_offsets = itertools.count()


def event(kind: str = "EntityChangeEvent_v1", actor: str = "urn:li:corpuser:jdoe", **fields: Any) -> Event:
    value = {
        "entityType": "dataset",
        "entityUrn": DATASET,
        "category": "TAG",
        "operation": "ADD",
        "modifier": "urn:li:tag:pii",
        "auditStamp": {"time": 0, "actor": actor},
        "version": 0,
    } | fields
    record = Record("t", 0, next(_offsets), None, json.dumps(value).encode(), [], 1, 0)
    return Event(record, value, kind)


@pytest.fixture(scope="module")
def server() -> Iterator[HookServer]:
    with HookServer(lambda _request: OK) as running:
        yield running


def slack(server: HookServer, **more: Any) -> Action:
    config = {"bot_token": "xoxb-topsecret9", "signing_secret": "hunter22", "default_channel": "#data"}
    address = {"api_url": f"http://127.0.0.1:{server.port}/api/", "allow_private": True}
    return actions.create("slack", config | address | more, PipelineContext("changes"))


def sentences(server: HookServer, action: Action, *events: Event) -> list[str]:
    before = len(server.requests)
    for each in events:
        action._pace._next = 0.0  # type: ignore[attr-defined]  # its pace has a test of its own
        action.act(each)
    return [json.loads(request.body)["text"] for request in server.requests[before:]]


def test_slack_gets_a_sentence_with_a_link(server: HookServer) -> None:
    before = len(server.requests)
    action = slack(server, base_url="http://catalogue:9002/")
    welcome = server.requests[before]
    assert welcome.path == "/api/chat.postMessage"
    assert welcome.headers["authorization"] == "Bearer xoxb-topsecret9"
    told = json.loads(welcome.body)
    assert told["channel"] == "#data"
    assert "*changes*" in told["text"]
    assert "<http://catalogue:9002/|the catalogue>" in told["text"]
    flow, job = "urn:li:dataFlow:(airflow,nightly,PROD)", "urn:li:dataJob:(urn:li:dataFlow:(airflow,nightly,PROD),load)"
    column = f"urn:li:schemaField:({DATASET},price)"
    link = f"<http://catalogue:9002/dataset/{DATASET}|shop.orders>"
    of_column = f"<http://catalogue:9002/dataset/{DATASET}/Schema?schemaFilter=price|shop.orders>"
    told = sentences(
        server,
        action,
        event(),
        event(category="LIFECYCLE", operation="CREATE", modifier=None),
        event(category="TECHNICAL_SCHEMA", operation="MODIFY", modifier=column),
        event(category="TECHNICAL_SCHEMA", operation="MODIFY", modifier=None),
        event(entityType="dataFlow", entityUrn=flow, operation="REMOVE"),
        event(entityType="dataJob", entityUrn=job, operation="SOFT_DELETE", category="LIFECYCLE", modifier=None),
        event(entityType="schemaField", entityUrn=column, category="GLOSSARY_TERM", modifier="urn:li:glossaryTerm:a<b"),
        event(kind="MetadataChangeLogEvent_v1"),
        event(actor="urn:li:corpuser:__datahub_system"),
    )
    assert told == [
        f"*jdoe* added tag *pii* on hive dataset {link}",
        f"*jdoe* created hive dataset {link}",
        f"*jdoe* updated field *price* in the schema of hive dataset {link}",
        f"*jdoe* updated schema of hive dataset {link}",
        f"*jdoe* removed tag *pii* on airflow flow <http://catalogue:9002/pipelines/{flow}|nightly>",
        f"*jdoe* soft_delete airflow task <http://catalogue:9002/tasks/{job}|load>",
        f"*jdoe* added glossary term *a&lt;b* on column price of hive dataset {of_column}",
    ]
    (system,) = sentences(
        server, slack(server, suppress_system_activity=False), event(actor="urn:li:corpuser:__datahub_system")
    )[-1:]
    assert system.startswith("*System* added")


def test_teams_gets_a_card(server: HookServer) -> None:
    before = len(server.requests)
    config = {"webhook_url": f"http://127.0.0.1:{server.port}/hook/topsecret9", "allow_private": True}
    teams = actions.create("teams", config, PipelineContext("changes"))
    teams.act(event())
    welcome, told = server.requests[before:]
    assert (welcome.path, told.path) == ("/hook/topsecret9", "/hook/topsecret9")
    message = json.loads(told.body)
    assert message["type"] == "message"
    (card,) = message["attachments"]
    assert card["content"]["body"][0]["text"] == (
        f"**jdoe** added tag **pii** on hive dataset [shop.orders](http://localhost:9002/dataset/{DATASET})"
    )


def test_at_most_one_message_a_second(server: HookServer) -> None:
    began, action = time.monotonic(), slack(server)
    for _ in range(2):
        action.act(event())
    assert time.monotonic() - began >= 2.0  # the welcome was the first of three


def test_names_come_from_the_catalogue_where_there_is_one(server: HookServer) -> None:
    class Client:
        def get_entity_raw(self, urn: str, aspects: list[str]) -> dict[str, Any]:
            if urn == DATASET:
                raise ConnectionError("away")
            name = {
                "corpUserInfo": {"value": {"fullName": "Jane Doe"}},
                "tagProperties": {"value": {"name": "Private"}},
            }
            return {"aspects": {aspect: name[aspect] for aspect in aspects if aspect in name}}

    class Graph:
        graph = Client()

    config = {"webhook_url": f"http://127.0.0.1:{server.port}/", "allow_private": True}
    teams = actions.create("teams", config, PipelineContext("changes", Graph()))
    teams.act(event())
    text = json.loads(server.requests[-1].body)["attachments"][0]["content"]["body"][0]["text"]
    assert text.startswith("**Jane Doe** added tag **Private** on hive dataset [shop.orders]")


SLACK_SAYS = [
    (Answer(body=b'{"ok": false, "error": "channel_not_found"}'), WebhookRefusedError, "channel_not_found"),
    (Answer(body=b'{"ok": false, "error": "ratelimited"}'), WebhookAwayError, "ratelimited"),
    (Answer(429, {"Retry-After": "7"}), WebhookAwayError, "429"),
    (Answer(503), WebhookAwayError, "503"),
    (Answer(403), WebhookRefusedError, "403"),
]


@pytest.mark.parametrize(("answer", "kind", "text"), SLACK_SAYS, ids=[text for *_, text in SLACK_SAYS])
def test_errors_are_let_out(answer: Answer, kind: type[PenstockError], text: str) -> None:
    answers = iter([OK, answer])
    with HookServer(lambda _: next(answers)) as server:
        action = slack(server)
        with pytest.raises(kind) as raised:
            action.act(event())
    assert text in str(raised.value)
    assert "topsecret9" not in str(raised.value)
    if text == "429":
        assert raised.value.retry_after == 7  # type: ignore[attr-defined]


def test_a_chat_that_is_away_at_the_start_is_waited_for() -> None:
    with HookServer() as server:
        port = server.port
    config = {"webhook_url": f"http://127.0.0.1:{port}/topsecret9", "allow_private": True}
    with pytest.raises(WebhookAwayError) as raised:
        actions.create("teams", config, PipelineContext("p"))
    assert "topsecret9" not in str(raised.value)


def test_private_addresses_are_refused_unless_allowed(server: HookServer) -> None:
    config = {"webhook_url": f"http://127.0.0.1:{server.port}/"}
    with pytest.raises(AddressRefused):
        actions.create("teams", config, PipelineContext("p"))
    notify = Notify.create({"urls": [f"json://127.0.0.1:{server.port}/"]}, PipelineContext("p"))
    before = len(server.requests)
    with pytest.raises(AddressRefused):
        notify.act(event())
    assert len(server.requests) == before


@pytest.mark.parametrize(
    ("kind", "config", "said"),
    [
        ("slack", {"signing_secret": "s", "default_channel": "c"}, "`bot_token` is required"),
        ("teams", {}, "`webhook_url` is required"),
        ("teams", {"webhook_url": "topsecret9"}, "a URL like https://example.webhook.office.com/"),
        ("notify", {"urls": ["nonsense://topsecret9"]}, "number 1 is no address that apprise knows"),
        ("notify", {"urls": ["json://example.org"], "body": "{{ event. }}"}, "is not a CEL expression"),
    ],
)
def test_bad_configurations(kind: str, config: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        check_action(kind, config)
    assert said in str(raised.value)
    assert "topsecret9" not in f"{raised.value} {raised.value.received}"


def test_addresses_are_secrets() -> None:
    config = {"urls": ["slack://aaaaaaaaaaaaaa/bbb"], "webhook_url": "https://t.example.org/cccccccccccccc"}
    shown = str(masked(config))
    assert "aaaa" not in shown
    assert "cccc" not in shown
    assert {"aaaaaaaaaaaaaa", "cccccccccccccc"} <= find_secrets(config)


def notify(server: HookServer, *paths: str, **more: Any) -> Notify:
    urls = [f"json://127.0.0.1:{server.port}/{path}" for path in paths]
    return Notify.create({"urls": urls, "allow_private": True} | more, PipelineContext("p"))


def test_a_name_that_is_answered_differently_the_next_time_leads_nowhere(
    server: HookServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter(["127.0.0.1"])

    def resolve(host: str, port: Any, *_: Any, **__: Any) -> list[Any]:
        assert host == "rebind.example"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (next(answers), int(port or 0)))]

    action = Notify.create({"urls": [f"json://rebind.example:{server.port}/x"]}, PipelineContext("p"))
    with observed.observed(AddressGuard()):
        pass  # puts itself in place
    monkeypatch.setattr(socket, "getaddrinfo", observed._guarded(resolve))
    before = len(server.requests)
    with pytest.raises(AddressRefused, match=r"rebind.example \(127.0.0.1\)"):
        action.act(event())
    assert len(server.requests) == before
    assert next(answers, None) is None, "the address of the connection was looked at"


def test_mail_is_not_sent_to_servers_inside_the_house(server: HookServer) -> None:
    url = f"mailto://ada:topsecret9@example.org?smtp=127.0.0.1&port={server.port}&mode=insecure&to=bo@example.org"
    with pytest.raises(AddressRefused):
        Notify.create({"urls": [url]}, PipelineContext("p")).act(event())


def test_notify_fills_in_expressions(server: HookServer) -> None:
    before = len(server.requests)
    notify(
        server, "a", title="{{ event.category }}!", body="{{ event.entityType }} {{ event.version + 1 }} by you"
    ).act(event())
    (request,) = server.requests[before:]
    told = json.loads(request.body)
    assert (told["title"], told["message"]) == ("TAG!", "dataset 1 by you")


def test_notify_repeats_only_what_did_not_arrive() -> None:
    statuses = {"/a": iter([200]), "/b": iter([503, 404, 200])}

    def answer(request: Request) -> Answer:
        return Answer(next(statuses[request.path]), {"Retry-After": "3"})

    with HookServer(answer) as server:
        action, one = notify(server, "a", "b"), event()
        with pytest.raises(WebhookAwayError) as away:
            action.act(one)
        assert away.value.retry_after == 3
        with pytest.raises(WebhookRefusedError):
            action.act(one)
        action.act(one)
        assert [request.path for request in server.requests] == ["/a", "/b", "/b", "/b"]
    with pytest.raises(WebhookAwayError):
        action.act(event())


def test_an_embargo_holds_messages_back_and_counts_them(server: HookServer) -> None:
    before = len(server.requests)
    action = notify(server, "a", title="{{ event.category }}", body="x", embargo="1h")
    for category in ("TAG", "TAG", "OWNERSHIP", "TAG"):
        action.act(event(category=category))
    action.close()
    told = [json.loads(request.body) for request in server.requests[before:]]
    assert [(each["title"], each["message"]) for each in told] == [
        ("TAG", "x"),
        ("OWNERSHIP", "x"),
        ("TAG", "2 more like this since the last message"),
    ]


def test_urns() -> None:
    assert parse_urn("urn:li:dataset:(urn:li:dataPlatform:hive,a%2Cb,PROD)").name == "a,b"
    assert parse_urn("nothing").name == "nothing"
    assert parse_urn("urn:li:chart:(looker,7)").kind == "looker chart"
