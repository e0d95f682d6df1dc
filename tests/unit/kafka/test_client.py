"""`KafkaClientConfig`: what goes in, what comes out, what is refused."""

from __future__ import annotations

import pickle
import threading

import psutil
import pytest

from penstock.config.spec import ConnectionSpec
from penstock.core.errors import ConfigError, PluginError
from penstock.core.secrets import Secret
from penstock.kafka.client import KafkaClientConfig, knows_property


def config_of(**properties: object) -> KafkaClientConfig:
    given = {name.replace("__", "."): value for name, value in properties.items()}
    return KafkaClientConfig.of(ConnectionSpec(bootstrap="broker:9092", consumer_config=given))


def token(config: str) -> tuple[str, float]:
    return f"token for {config}", 0.0


def two_arguments(first: str, second: str) -> None: ...


NOT_A_FUNCTION = 5


def test_a_plain_connection_becomes_bootstrap_servers() -> None:
    settings = config_of().consumer({"group.id": "g"})
    assert settings["bootstrap.servers"] == "broker:9092"
    assert settings["group.id"] == "g"
    assert settings["enable.auto.commit"] is False


def test_overrides_win_over_the_connection() -> None:
    config = config_of(session__timeout__ms=20000)
    assert config.consumer()["session.timeout.ms"] == "20000"
    assert config.consumer({"session.timeout.ms": 6000})["session.timeout.ms"] == 6000


def test_each_kind_of_client_gets_only_its_own_properties() -> None:
    config = config_of(session__timeout__ms=20000, linger__ms=5, client__id="me")
    assert "linger.ms" not in config.consumer()
    assert "session.timeout.ms" not in config.producer()
    assert {"linger.ms", "session.timeout.ms"}.isdisjoint(config.admin())
    assert config.consumer()["client.id"] == config.producer()["client.id"] == config.admin()["client.id"] == "me"


def test_equal_configurations_are_equal_whatever_their_order() -> None:
    one = config_of(client__id="me", session__timeout__ms=20000)
    other = config_of(session__timeout__ms="20000", client__id="me")
    assert one == other
    assert hash(one.identity) == hash(other.identity)
    assert one.identity != config_of(client__id="you").identity


def test_it_survives_pickling() -> None:
    config = config_of(client__id="me", key__deserializer="x.Y")
    again = pickle.loads(pickle.dumps(config))  # noqa: S301 - our own bytes
    assert again == config
    assert again.warnings == config.warnings


def test_booleans_nulls_and_secrets_are_taken_as_meant() -> None:
    config = config_of(enable__partition__eof=True, client__rack=None, sasl__password=Secret("hush"))
    settings = config.consumer()
    assert settings["enable.partition.eof"] == "true"
    assert "client.rack" not in settings
    assert settings["sasl.password"] == "hush"


def test_i08_its_text_shows_no_values() -> None:
    config = config_of(**{"sasl.username": "app", "sasl.password": "hush-hush"})
    assert "hush" not in repr(config)
    assert "sasl.password" in repr(config)


@pytest.mark.parametrize("name", ["group.instance.id", "enable.auto.commit", "partition.assignment.strategy"])
def test_what_penstock_decides_is_left_out(name: str) -> None:
    # Built without validation: the model itself drops most of these already.
    connection = ConnectionSpec.model_construct(bootstrap="broker:9092", consumer_config={name: "true"})
    config = KafkaClientConfig.of(connection)
    assert name not in dict(config.properties)
    assert any(name in warning for warning in config.warnings)


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"sesion.timeout.ms": 1}, "sesion.timeout.ms"),
        ({"session.timeout.ms": "soon"}, "session.timeout.ms"),
        ({"security.protocol": "carrier-pigeon"}, "security.protocol"),
        ({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}, "sasl.username"),
        ({"security.protocol": "SSL", "ssl.ca.location": "/nowhere/ca.pem"}, "ssl.ca.location"),
    ],
)
def test_the_client_library_judges_names_and_values(properties: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said.replace(".", r"\.")) as caught:
        KafkaClientConfig.of(ConnectionSpec(bootstrap="broker:9092", consumer_config=properties))
    assert caught.value.hint


def test_a_short_poll_interval_shortens_the_session() -> None:
    settings = config_of(max__poll__interval__ms="10000").consumer()
    assert settings["session.timeout.ms"] == "10000"
    both = config_of(max__poll__interval__ms="10000", session__timeout__ms="7000").consumer()
    assert both["session.timeout.ms"] == "7000"


def test_a_token_callback_is_imported_when_a_client_is_made() -> None:
    config = config_of(oauth_cb=f"{__name__}:token", security__protocol="SASL_PLAINTEXT", sasl__mechanism="OAUTHBEARER")
    assert dict(config.properties)["oauth_cb"] == f"{__name__}:token"
    assert config.consumer()["oauth_cb"]("x")[0] == "token for x"


@pytest.mark.parametrize("name", ["two_arguments", "NOT_A_FUNCTION", "absent"])
def test_a_wrong_token_callback_is_told(name: str) -> None:
    with pytest.raises(PluginError) as caught:
        config_of(oauth_cb=f"{__name__}:{name}")
    assert name in str(caught.value.received)


@pytest.mark.parametrize(
    ("name", "value", "known"),
    [
        ("fetch.min.bytes", "1", True),
        ("fetch.min.bytes", "many", True),
        ("max.partition.fetch.bytes", "1000", True),
        ("key.deserializer", "x", True),
        ("fetch.minimum", "1", False),
        ("", "1", False),
    ],
)
def test_whether_the_client_knows_a_property(name: str, value: str, *, known: bool) -> None:
    assert knows_property(name, value) is known


def test_checking_a_connection_of_many_hosts_starts_no_thread_per_host() -> None:
    """Names and values are checked without addresses: nothing is looked up, nothing is connected to."""
    hosts = ",".join(f"127.0.0.{n % 250 + 1}:{9000 + n}" for n in range(300))
    process, most, over = psutil.Process(), 0, threading.Event()

    def watch() -> None:
        nonlocal most
        while not over.is_set():
            most = max(most, process.num_threads())

    config_of()  # starts what stays
    before = process.num_threads()
    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        for _ in range(5):
            KafkaClientConfig.of(ConnectionSpec(bootstrap=hosts))
    finally:
        over.set()
        watcher.join()
    assert most - before <= 8, "a client without brokers has a few threads of its own, for a moment"
    assert process.num_threads() <= before + 1
