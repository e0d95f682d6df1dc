"""Encryption at rest: what goes in comes out under the same key, and only then."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.cipher import KEY_BYTES, Cipher, WrongSecretKey
from penstock.core.errors import ConfigError

ONE, OTHER = Cipher(b"1" * KEY_BYTES), Cipher(b"2" * KEY_BYTES)


@given(st.text())
def test_what_is_hidden_is_revealed_again(text: str) -> None:
    assert ONE.reveal(ONE.hide(text)) == text
    assert ONE.hide(text) == ONE.hide(text)


@given(st.binary(), st.integers(min_value=0))
def test_a_changed_byte_is_noticed(plain: bytes, place: int) -> None:
    secret = bytearray(ONE.encrypt(plain))
    secret[place % len(secret)] ^= 1

    with pytest.raises(WrongSecretKey):
        ONE.decrypt(bytes(secret))


def test_another_key_is_noticed() -> None:
    assert ONE.knows(ONE.mark())
    assert not OTHER.knows(ONE.mark())
    with pytest.raises(WrongSecretKey, match="another key"):
        OTHER.reveal(ONE.hide("hunter22"))
    with pytest.raises(WrongSecretKey):
        ONE.reveal("not base64!")


def test_a_key_is_read_as_it_is_written_and_never_shown() -> None:
    again = Cipher.of(ONE.text, "x")

    assert again.reveal(ONE.hide("a")) == "a"
    assert ONE.text not in repr(ONE)
    for wrong in ("", "short", ONE.text[:-4], "ä" * 44):
        with pytest.raises(ConfigError, match="variable K is no key") as error:
            Cipher.of(wrong, "variable K")
        assert not wrong or wrong not in str(error.value.as_dict())
