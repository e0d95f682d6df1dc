"""Secrets: named, masked, scrubbed."""

from __future__ import annotations

import base64
import json
import pickle
import re
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from penstock.core.secrets import MASK, Scrubber, Secret, find_secrets, is_secret_key, mask_url, masked

SECRET_NAMES = [
    "password", "sasl.password", "ssl.key.password", "ssl.keystore.password", "token", "bot_token", "botToken",
    "gms_auth_token", "secret", "signing_secret", "sasl.oauthbearer.client.secret", "client_secret",
    "sasl.jaas.config", "Authorization", "proxy-authorization", "basic.auth.user.info",
    "schema.registry.basic.auth.user.info", "api_key", "apiKey", "APIKey", "x-api-key", "private_key",
    "aws_secret_access_key", "ssl.key.pem", "ssl.keystore.key", "credentials", "Cookie", "passphrase",
    "SASL_PASSWORD",
]  # fmt: skip
PLAIN_NAMES = [
    "key", "keys", "key.deserializer", "keyAspect", "partition_key", "primary_key", "routing_key",
    "ssl.key.location", "client_key_path", "token.endpoint.url", "sasl.oauthbearer.token.endpoint.url",
    "password_file", "max_tokens", "tokenizer", "topics", "bootstrap", "sasl.username", "user", "info", "monkey",
    "secretary", "", "group.id", "ssl.certificate.pem",
]  # fmt: skip


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_names_of_secrets(name: str) -> None:
    assert is_secret_key(name)


@pytest.mark.parametrize("name", PLAIN_NAMES)
def test_names_of_no_secrets(name: str) -> None:
    assert not is_secret_key(name)


def test_a_secret_shows_itself_only_when_asked() -> None:
    secret = Secret("hunter22")
    for shown in (
        str(secret),
        repr(secret),
        f"{secret}",
        f"{secret:>20}",
        repr([secret]),
        "{!r}".format({"a": secret}),
    ):
        assert "hunter22" not in shown
        assert MASK in shown
    assert secret.reveal() == "hunter22"
    assert secret == Secret("hunter22") != Secret("other")
    assert len({secret, Secret("hunter22")}) == 1
    assert pickle.loads(pickle.dumps(secret)) == secret  # noqa: S301 - our own bytes
    assert not Secret("")


def test_a_secret_is_a_field_of_models() -> None:
    class Account(BaseModel):
        password: Secret

    account = Account.model_validate({"password": "hunter22"})
    assert account.password.reveal() == "hunter22"
    assert Account(password=account.password) == account
    assert "hunter22" not in repr(account) + account.model_dump_json()
    assert Account.model_json_schema()["properties"]["password"]["type"] == "string"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://user:pw@host/db", f"postgresql://user:{MASK}@host/db"),
        ("redis://:pw@host", f"redis://:{MASK}@host"),
        ("https://u:p@ss:w@rd@host/x", f"https://u:{MASK}@host/x"),
        ("https://host/x?token=abc&b=1", f"https://host/x?token={MASK}&b=1"),
        ("https://a:1@x,https://b:2@y", f"https://a:{MASK}@x,https://b:{MASK}@y"),
        ("http://localhost:8081", "http://localhost:8081"),
        ("mail me@example.org", "mail me@example.org"),
        ("host:9092", "host:9092"),
    ],
)
def test_passwords_in_urls_are_masked(url: str, shown: str) -> None:
    assert mask_url(url) == shown


def test_find_secrets() -> None:
    config = {
        "connection": {
            "consumer_config": {
                "sasl.jaas.config": 'X required username="me" password="jaas-pw";',
                "sasl.password": "plain-pw",
                "ssl.key.location": "/etc/key.pem",
            },
            "schema_registry_config": {"basic.auth.user.info": "me:registry-pw"},
        },
        "url": "postgresql://me:p%40ss@host/db",
        "headers": {"authorization": "Bearer tok-123", "x": "y"},
        "basic": {"authorization": "Basic " + base64.b64encode(b"me:basic-pw").decode()},
        "secrets": {"a": ["in-list", 12345]},
        "key": "event.id",
    }
    found = find_secrets(config)
    assert found >= {"jaas-pw", "plain-pw", "registry-pw", "p%40ss", "p@ss", "tok-123", "basic-pw", "in-list", "12345"}
    assert found.isdisjoint({"event.id", "/etc/key.pem", "y", "me", "host"})


def test_masked_hides_what_is_secret_and_keeps_the_rest() -> None:
    config = {"password": "a", "list": [{"token": 1}], "url": "x://u:p@h", "on": True, "secret": None, "key": "k"}
    assert masked(config) == {
        "password": MASK,
        "list": [{"token": MASK}],
        "url": f"x://u:{MASK}@h",
        "on": True,
        "secret": None,
        "key": "k",
    }


def test_the_scrubber_leaves_short_values_and_survives_pickling() -> None:
    scrubber = pickle.loads(pickle.dumps(Scrubber({"abc", "hunter22"})))  # noqa: S301 - our own bytes
    assert scrubber.scrub("abc hunter22") == f"abc {MASK}"
    assert Scrubber().scrub("anything") == "anything"


def test_of_nested_secrets_the_longer_one_goes_first() -> None:
    assert Scrubber({"hunter", "hunter-and-more"}).scrub("hunter-and-more hunter") == f"{MASK} {MASK}"


@given(st.text(min_size=4, max_size=40), st.text(max_size=20), st.text(max_size=20))
def test_i08_no_form_of_a_secret_survives_scrubbing(secret: str, before: str, after: str) -> None:
    scrub = Scrubber({secret}).scrub
    raw = secret.encode("utf-8", "surrogateescape")
    forms = (secret, quote(secret, safe=""), json.dumps(secret)[1:-1], base64.b64encode(raw).decode().rstrip("="))
    for form in forms:
        assert form not in scrub(before + form + after).replace(MASK, "\0")


@pytest.mark.parametrize("user", ["", "a", "ab", "abc", "somebody"])
@pytest.mark.parametrize("secret", ["hunter22", "p/ss+w=rd", "länger als drei"])
def test_l11_further_encodings_of_a_secret_are_scrubbed(user: str, secret: str) -> None:
    scrubber = Scrubber({secret})
    raw = secret.encode()
    pair = base64.b64encode(f"{user}:{secret}".encode()).decode()
    for form in (raw.hex(), raw.hex().upper(), re.sub("%..", lambda m: m[0].lower(), quote(secret, safe="")), pair):
        shown = scrubber.scrub(f"<{form}>")
        assert MASK in shown
        assert form not in shown
    left = scrubber.scrub(f"<{pair}>").replace(MASK, "").strip("<>")
    assert len(left) <= len(base64.b64encode(f"{user}:".encode())) + 4, "no more than user name and loose bits remain"
