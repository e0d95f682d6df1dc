"""Secrets within configurations: hidden where they are written out, and put in place where they are used."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from penstock.config.secret_values import NoSecretKey, hidden, known_cipher, made_cipher, resolve, shown
from penstock.core.cipher import KEY_BYTES, Cipher
from penstock.core.errors import ConfigError

CIPHER = Cipher(b"k" * KEY_BYTES)
CONFIG = {
    "url": "https://user:pass-word@example.org/x",
    "plain": "hello",
    "headers": {"authorization": "Bearer t0k3n-value", "x-api-key": "${API_KEY}", "accept": "*/*"},
    "username": "reader",
    "password": {"$ref": "LAB"},
    "list": [{"token": "abcdef"}, 3, None],
    "empty": {"password": ""},
}


def test_only_references_and_ciphers_are_left() -> None:
    kept = hidden(CONFIG, lambda: CIPHER)

    text = str(kept)
    for secret in ("pass-word", "t0k3n-value", "abcdef", "reader"):
        assert secret not in text
    assert kept["plain"] == "hello"
    assert kept["headers"]["x-api-key"] == "${API_KEY}"
    assert kept["password"] == {"$ref": "LAB"}
    assert kept["empty"] == {"password": ""}
    assert hidden(kept, lambda: CIPHER) == kept
    assert shown(kept)["password"] == {"$ref": "LAB"}
    assert shown(kept)["url"] == shown(kept)["list"][0]["token"] == "********"


def test_everything_is_put_in_its_place_where_it_is_used() -> None:
    kept = hidden(CONFIG, lambda: CIPHER)

    found = resolve(kept, CIPHER, {"LAB": "lab-secret"}, {"API_KEY": "key-of-api"})

    headers = {**CONFIG["headers"], "x-api-key": "key-of-api"}  # type: ignore[dict-item]  # a map of texts
    assert found.value == {**CONFIG, "headers": headers, "password": "lab-secret"}
    assert {"pass-word", "t0k3n-value", "key-of-api", "lab-secret", "abcdef"} <= found.secrets
    assert "hello" not in found.secrets


def test_what_is_missing_is_named() -> None:
    with pytest.raises(NoSecretKey):
        resolve({"token": {"$secret": "x"}}, None, {}, {})
    with pytest.raises(ConfigError, match="no secret named 'LAB'"):
        resolve({"token": {"$ref": "LAB"}}, CIPHER, {"OTHER": "x"}, {})
    with pytest.raises(ConfigError, match="NOWHERE is not set"):
        resolve({"token": "${NOWHERE}"}, CIPHER, {}, {})


def test_no_key_is_made_for_what_is_no_secret(tmp_path: Path) -> None:
    def never() -> Cipher:
        raise AssertionError

    assert hidden({"a": "b", "password": "${P}"}, never) == {"a": "b", "password": "${P}"}
    assert known_cipher(tmp_path, {}) is None


def test_the_key_of_the_home_is_private_and_made_once(tmp_path: Path) -> None:
    home = tmp_path / "home"

    made = made_cipher(home, {})

    assert made_cipher(home, {}).text == made.text
    assert stat.S_IMODE((home / "secret.key").stat().st_mode) == 0o600
    assert [entry.name for entry in home.iterdir()] == ["secret.key"]
    assert made_cipher(home, {"PENSTOCK_SECRET_KEY": CIPHER.text}).text == CIPHER.text
    (home / "secret.key").write_text("nonsense")
    with pytest.raises(ConfigError, match="is no key"):
        known_cipher(home, {})
