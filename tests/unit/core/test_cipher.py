"""Encryption at rest: what goes in comes out under the same key and at the same place, and only then."""

from __future__ import annotations

import base64

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.cipher import KEY_BYTES, Cipher, WrongSecretKey
from penstock.core.errors import ConfigError

_ONE, _OTHER = b"1" * KEY_BYTES, b"2" * KEY_BYTES
ONE, OTHER = Cipher(_ONE), Cipher(_OTHER)


@given(st.text(), st.text())
def test_what_is_hidden_is_revealed_again(text: str, place: str) -> None:
    assert ONE.reveal(ONE.hide(text, place), place) == text
    assert ONE.hide(text, place) == ONE.hide(text, place)


@given(st.binary(), st.integers(min_value=0))
def test_a_changed_byte_is_noticed(plain: bytes, place: int) -> None:
    secret = bytearray(ONE.encrypt(plain, "here"))
    secret[place % len(secret)] ^= 1

    with pytest.raises(WrongSecretKey):
        ONE.decrypt(bytes(secret), "here")


def test_another_key_is_noticed() -> None:
    assert ONE.knows(ONE.mark())
    assert not OTHER.knows(ONE.mark())
    with pytest.raises(WrongSecretKey, match="another key"):
        OTHER.reveal(ONE.hide("hunter22", "here"), "here")
    with pytest.raises(WrongSecretKey):
        ONE.reveal("not base64!", "here")


def test_l13_a_secret_of_another_place_is_refused() -> None:
    with pytest.raises(WrongSecretKey, match="another place"):
        ONE.decrypt(ONE.encrypt(b"hunter22", "secret/a"), "secret/b")
    with pytest.raises(WrongSecretKey):
        ONE.reveal(ONE.hide("hunter22", "field/password"), "field/url")


def test_l13_equal_secrets_cannot_be_told_by_their_bytes() -> None:
    assert ONE.encrypt(b"hunter22", "here") != ONE.encrypt(b"hunter22", "here")
    assert ONE.hide("hunter22", "here") != ONE.hide("hunter22", "there")


def test_l13_a_former_key_reads_and_the_current_one_writes() -> None:
    both = Cipher.of(f"{OTHER.text},{ONE.text}", "x")
    assert both.reveal(ONE.hide("a", "p"), "p") == "a"
    assert both.knows(ONE.mark())
    written = both.encrypt(b"b", "p")
    assert OTHER.decrypt(written, "p") == b"b"
    with pytest.raises(WrongSecretKey):
        ONE.decrypt(written, "p")
    assert both.current.text == OTHER.text
    assert Cipher.of(both.text, "x").text == both.text


def test_secrets_of_version_0_1_are_read() -> None:
    nonce = b"n" * 12
    written = b"\x01" + nonce + AESGCM(_ONE).encrypt(nonce, b"hunter22", b"\x01")
    assert ONE.decrypt(written, "anywhere") == b"hunter22"
    assert ONE.reveal(base64.b64encode(written).decode(), "anywhere") == "hunter22"


def test_m11_a_derived_key_says_nothing_of_its_master() -> None:
    derived = ONE.derived("alternate-storage")
    assert ONE.text not in derived.text
    assert derived.text == ONE.derived("alternate-storage").text
    assert len({derived.text, ONE.derived("another").text, OTHER.derived("alternate-storage").text}) == 3
    with pytest.raises(WrongSecretKey):
        derived.decrypt(ONE.encrypt(b"hunter22", "here"), "here")
    # RFC 5869 with SHA-256, no salt and this label: other programs may have to read the copies.
    assert base64.b64decode(derived.text).hex() == "f35c77c67fcc4d07506e5feb1873facb21415c2bd60fe9905d4ccc4fdc904dbe"


def test_a_key_is_read_as_it_is_written_and_never_shown() -> None:
    again = Cipher.of(ONE.text, "x")

    assert again.reveal(ONE.hide("a", "p"), "p") == "a"
    assert ONE.text not in repr(ONE)
    for wrong in ("", "short", ONE.text[:-4], "ä" * 44, f"{ONE.text},", f"{ONE.text},short"):
        with pytest.raises(ConfigError, match="variable K is no key") as error:
            Cipher.of(wrong, "variable K")
        assert not wrong or wrong not in str(error.value.as_dict())
