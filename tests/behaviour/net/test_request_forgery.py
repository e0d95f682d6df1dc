"""Nothing but allowed addresses is contacted: every form of server-side request forgery against every client.

Two listeners have the same port: the one at 127.0.0.2 is allowed by a list of networks, the one at 127.0.0.1 records
what must not arrive.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from urllib.parse import urlsplit

import pytest

from penstock.act import observed
from penstock.act.notify import Notify, is_checkable, send, service_of
from penstock.act.registry import actions
from penstock.config.http_settings import OidcSettings
from penstock.config.spec import PipelineSpec
from penstock.core.errors import ConfigError
from penstock.core.net.guard import AddressGuard, AddressRefused, guard_of
from penstock.core.plugin import PipelineContext
from penstock.decode.registry import decoder_for
from penstock.kafka.registry.client import Registry, RegistryUnavailable
from penstock.kafka.registry.dialects import DialectRegistry
from penstock.service.connection_test import try_connection
from penstock.service.single_sign_on import SingleSignOn
from penstock.workflows.steps.http import HttpStep
from tests.behaviour.act.hook_server import Answer, HookServer, Request
from tests.behaviour.act.test_chats import event
from tests.support.certs import make_certificates
from tests.support.dialect_registry import DialectServer
from tests.support.events import make_event

CTX = PipelineContext("p")
OPEN = ["127.0.0.2/32"]
Client = Callable[[str, list[str]], None]
"""Sends a request to a base address (`http://host:port`), which networks are open for."""


def webhook(base: str, networks: list[str]) -> None:
    action: Any = actions.create("webhook", {"url": f"{base}/x", "allow_private": networks}, CTX)

    async def act() -> None:
        await action.act(make_event(1))
        await action.close()

    asyncio.run(act())


def http_step(base: str, networks: list[str]) -> None:
    step = HttpStep({"url": f"{base}/x", "allow_private": networks, "timeout": "3s"}, None)
    try:
        step.run({"data": {}}, Mock())
    finally:
        step.close()


def slack(base: str, networks: list[str]) -> None:
    config = {"bot_token": "t", "signing_secret": "s", "default_channel": "c"}
    actions.create("slack", config | {"api_url": f"{base}/api", "allow_private": networks}, CTX)


def teams(base: str, networks: list[str]) -> None:
    actions.create("teams", {"webhook_url": f"{base}/x", "allow_private": networks}, CTX)


def notify(base: str, networks: list[str]) -> None:
    url = base.replace("http://", "json://") + "/x?redirect=yes"
    Notify.create({"urls": [url], "allow_private": networks}, CTX).act(event())


def mail(base: str, networks: list[str]) -> None:
    host, _, port = base.removeprefix("http://").rpartition(":")
    url = f"mailto://ada:pw@example.org?smtp={host}&port={port}&mode=insecure&to=bo@example.org"
    Notify.create({"urls": [url], "allow_private": networks}, CTX).act(event())


def registry(base: str, networks: list[str]) -> None:
    login = {"basic.auth.user.info": "user:pw", "max.retries": 0}
    Registry(base, login, 2.0, guard_of(networks)).schema(1)


def dialect_registry(base: str, networks: list[str]) -> None:
    DialectRegistry(base, "linkedin", {"basic.auth.user.info": "user:pw"}, 2.0, guard_of(networks)).schema(1)


def decoder(base: str, networks: list[str]) -> None:
    """A pipeline's own way to its registry, by the key that the instance sets."""
    connection = {"schema_registry_url": base, "allow_private": networks, "schema_registry_config": {"max.retries": 0}}
    spec = _spec({"topics": ["t"], "format": "avro", "connection": connection})
    made = decoder_for(spec.source.config, CTX)
    [found] = made.decode([make_event(b"\0\0\0\0\1x").record])
    if isinstance(found, Exception):
        raise found


def single_sign_on(base: str, networks: list[str]) -> None:
    """The issuer is of the machine's settings; `base` is what it names."""
    issuer = f"http://127.0.0.2:{base.rpartition(':')[2]}"
    flow = SingleSignOn(Mock(), OidcSettings(issuer=issuer, client_id="c"), networks)
    flow._get(f"{base}/keys")


def connection_test(base: str, networks: list[str]) -> None:
    bootstrap = base.removeprefix("http://")
    spec = _spec({"topics": ["t"], "format": "json", "connection": {"bootstrap": bootstrap}})
    report = try_connection(spec, AddressGuard(tuple(networks)), 1.0)
    if not report.ok:
        raise RuntimeError(report)


def _spec(config: dict[str, Any]) -> PipelineSpec:
    action = {"type": "hello_world"}
    return PipelineSpec.model_validate({"name": "p", "source": {"type": "kafka", "config": config}, "action": action})


HTTP: list[Client] = [webhook, http_step, slack, teams, notify, registry, dialect_registry, decoder, single_sign_on]
ALL: list[Client] = [*HTTP, mail, connection_test]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Lets a name have these addresses, one after the other; returns what was looked up."""
    looked: list[str] = []
    plain = socket.getaddrinfo
    with observed.observed(AddressGuard()):
        pass  # it wraps the function that is replaced here

    def answered(**answers: list[str]) -> list[str]:
        given = {f"{name}.example": itertools.cycle(found) for name, found in answers.items()}

        def resolve(host: Any, port: Any, *args: Any, **options: Any) -> list[Any]:
            name = host.decode() if isinstance(host, bytes) else host
            if name not in given:
                return plain(host, port, *args, **options)
            looked.append(name)
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (next(given[name]), int(port or 0)))]

        monkeypatch.setattr(socket, "getaddrinfo", observed._guarded(resolve))
        return looked

    return answered


@pytest.fixture
def inner() -> Iterator[HookServer]:
    """What must not be reached."""
    with HookServer() as server:
        yield server


@pytest.fixture
def outer(inner: HookServer) -> Iterator[HookServer]:
    """What may be reached, at the same port; it answers with a redirect to the other one."""

    def elsewhere(request: Request) -> Answer:
        return Answer(307, {"Location": inner.url(request.path)})

    with HookServer(elsewhere, "127.0.0.2", inner.port) as server:
        yield server


@pytest.fixture(params=ALL, ids=lambda client: client.__name__)
def client(request: pytest.FixtureRequest) -> Client:
    found: Client = request.param
    return found


@pytest.fixture(params=HTTP, ids=lambda client: client.__name__)
def http_client(request: pytest.FixtureRequest) -> Client:
    found: Client = request.param
    return found


HOSTS = ["127.0.0.1", "localhost", "a.localhost", "[::1]", "[::ffff:127.0.0.1]", "[::127.0.0.1]", "[64:ff9b:1::7f00:1]"]
HOSTS += ["127.1", "2130706433", "0x7f000001", "127.0.0.1.", "0.0.0.0", "\uff11\uff12\uff17.0.0.1"]  # noqa: S104 - called, not bound to


@pytest.mark.parametrize("host", HOSTS)
def test_an_inner_address_is_not_contacted_however_it_is_written(client: Client, inner: HookServer, host: str) -> None:
    with pytest.raises(Exception):  # noqa: B017, PT011 - each client has errors of its own; what counts is below
        client(f"http://{host}:{inner.port}", OPEN)
    assert inner.connections == 0


def test_a_name_with_an_inner_address_is_not_contacted(
    client: Client, inner: HookServer, names: Callable[..., list[str]]
) -> None:
    looked = names(rebind=["127.0.0.1"])
    with pytest.raises(Exception, match=r".*"):
        client(f"http://rebind.example:{inner.port}", OPEN)
    assert looked, "the name was not even looked up"
    assert inner.connections == 0


def test_a_name_whose_answers_change_leads_to_the_address_that_was_checked(
    client: Client, inner: HookServer, outer: HookServer, names: Callable[..., list[str]]
) -> None:
    """Whatever a second look-up answers: it is either not asked for, or its answer is checked as well."""
    names(rebind=["127.0.0.2", "127.0.0.1"])
    for _ in range(2):  # the second time the first answer is the inner address, or the third one is the outer again
        with contextlib.suppress(Exception):
            client(f"http://rebind.example:{inner.port}", OPEN)
    assert inner.connections == 0


def test_a_redirect_is_not_followed_to_an_inner_address(
    http_client: Client, inner: HookServer, outer: HookServer
) -> None:
    with contextlib.suppress(Exception):
        http_client(f"http://127.0.0.2:{inner.port}", OPEN)
    assert outer.connections, "the allowed address was not contacted"
    assert inner.connections == 0


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"])
@pytest.mark.parametrize("http_client", [client for client in HTTP if client is not single_sign_on])
def test_proxies_of_the_environment_are_not_used(
    http_client: Client, inner: HookServer, outer: HookServer, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Single sign-on keeps them: its addresses are the machine's own settings."""
    monkeypatch.setenv(name, f"http://127.0.0.1:{inner.port}")
    for variable in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(variable, raising=False)
    with contextlib.suppress(Exception):
        http_client(f"http://127.0.0.2:{inner.port}", OPEN)
    assert outer.connections, "the allowed address was not contacted"
    assert inner.connections == 0


@pytest.mark.parametrize(
    "trick", ["127.0.0.2@", "127.0.0.2,x@", "127.0.0.2:80@", "x:y@", "127.0.0.2%40", "127.0.0.2\\@"]
)
def test_user_information_does_not_hide_a_host(http_client: Client, inner: HookServer, trick: str) -> None:
    with contextlib.suppress(Exception):
        http_client(f"http://{trick}127.0.0.1:{inner.port}", OPEN)
    assert inner.connections == 0


@pytest.mark.parametrize(
    "url",
    [
        "rsyslog://127.0.0.1:{port}",
        "mqtt://127.0.0.1:{port}/t",
        "xmpp://u:p@127.0.0.1:{port}",
        "irc://127.0.0.1:{port}/#a",
        "growl://127.0.0.1:{port}",
        "syslog://",
        "dbus://",
        "nostr://nsec1/127.0.0.1:{port}",
        "aprs://u:1@A",
    ],
)
def test_notifications_by_other_ways_than_http_and_mail_are_refused(url: str) -> None:
    """Among them UDP, which has no connection that could be guarded (L7)."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.setblocking(False)
        address = url.format(port=listener.getsockname()[1])
        with pytest.raises(ConfigError):
            Notify.create({"urls": [address]}, CTX)
        service = service_of(address)
        if service is not None:
            with pytest.raises(AddressRefused, match="not reached by HTTP"):
                send(service, "a", "b", AddressGuard())
        with pytest.raises(BlockingIOError):
            listener.recv(1)


def test_the_services_that_can_be_checked_are_known() -> None:
    """A new version of apprise may bring plug-ins with sockets of their own: look at each that this test names."""
    from apprise.manager_plugins import NotificationManager  # noqa: PLC0415 - slow to load

    manager = NotificationManager()
    manager.load_modules()
    refused = {kind.__name__.removeprefix("Notify") for kind in manager.plugins() if not is_checkable(_bare(kind))}
    assert refused == {
        *("AMQP", "Aprs", "Blink1", "DBus", "Emby", "GLib", "Gnome", "Growl", "IRC", "Jellyfin", "MQTT", "MacOSX"),
        *("Matrix", "Nostr", "RSyslog", "RingCentral", "SMPP", "Syslog", "Twist", "Windows", "XMPP"),
    }


def _bare(kind: type) -> Any:
    """An object whose class has these bases, without the finalizer that some of them have."""
    return type(
        kind.__name__, (kind,), {"__init__": lambda _: None, "__del__": lambda _: None, "__module__": __name__}
    )()


def test_the_registrys_address_is_free_for_files(inner: HookServer) -> None:
    with contextlib.suppress(Exception):
        Registry(inner.url(""), {"max.retries": 0}, 2.0).schema(1)
    with contextlib.suppress(Exception):
        DialectRegistry(inner.url(""), "linkedin", None, 2.0).schema(1)
    assert len(inner.requests) == 2


def test_credentials_do_not_follow_a_redirect_of_a_registry(inner: HookServer, outer: HookServer) -> None:
    """M8, also for registries of files, which may be anywhere."""
    with pytest.raises(Exception, match="redirect"):
        DialectRegistry(outer.url("", "127.0.0.2"), "linkedin", {"basic.auth.user.info": "user:pw"}, 2.0).schema(1)
    assert outer.requests[0].headers["authorization"].startswith("Basic ")
    assert inner.connections == 0


def test_tls_verifies_the_name_while_the_connection_goes_to_the_checked_address(tmp_path: Path) -> None:
    """The certificate is the name's, not the address's: one of another name at the same address is refused."""
    made = make_certificates(tmp_path)
    login = {"ssl.ca.location": str(made.ca_file), "ssl.certificate.location": str(made.client_cert)}
    login["ssl.key.location"] = str(made.client_key)
    looked: list[str] = []

    def lookup(host: str) -> list[str]:
        looked.append(host)
        return ["127.0.0.1"]

    guard = AddressGuard(("127.0.0.1/32", "localhost"), lookup=lookup)
    with DialectServer("gobblin", {"1": {"type": "string"}}, certificates=made) as server:
        port = urlsplit(server.url).port
        for host, good in (("localhost", True), ("other.example", False)):
            url = server.url.replace(f"127.0.0.1:{port}", f"{host}:{port}").replace(
                f"localhost:{port}", f"{host}:{port}"
            )
            asked = DialectRegistry(url, "gobblin", login, 5.0, guard)
            if good:
                assert asked.schema("1").id == "1"
            else:
                with pytest.raises(RegistryUnavailable, match=r"(?i)certificate"):
                    asked.schema("1")
    assert looked == ["localhost", "other.example"]
