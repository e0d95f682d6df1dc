"""Decrypts what Lightning encrypted: Cloak's AES-256-GCM values."""

from __future__ import annotations

import base64
import binascii
from typing import Final

from penstock.core.errors import ConfigError

KEY_VARIABLE: Final = "PRIMARY_ENCRYPTION_KEY"
_TAG: Final = b"AES.GCM.V1"
_ASSOCIATED: Final = b"AES256GCM"
_KEY_BYTES: Final = 32
_IV_BYTES: Final = 16
_CHECK_BYTES: Final = 16


class CloakError(ConfigError):
    """A value of Lightning's database cannot be decrypted."""

    code = "cloak"


class Cloak:
    """By the key that Lightning's instance has as `PRIMARY_ENCRYPTION_KEY`."""

    def __init__(self, key: str) -> None:
        try:
            self._key = base64.b64decode(key.strip(), validate=True)
        except (binascii.Error, ValueError):
            self._key = b""
        if len(self._key) != _KEY_BYTES:
            raise CloakError(f"{KEY_VARIABLE} is no key of 256 bits in Base64")

    def decrypt(self, text: str) -> str:
        """The plain text of a value as the database has it."""
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - slow to import, rarely wanted
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - as above

        iv, check, cipher = _parts(text)
        try:
            return AESGCM(self._key).decrypt(iv, cipher + check, _ASSOCIATED).decode()
        except (InvalidTag, UnicodeDecodeError):
            hint = f"is {KEY_VARIABLE} that of the instance the file came from?"
            raise CloakError("a credential cannot be decrypted with this key", hint=hint) from None


def is_cloaked(value: object) -> bool:
    """Whether a text looks like one of Cloak's values."""
    try:
        return isinstance(value, str) and bool(_parts(value))
    except CloakError:
        return False


def _parts(text: str) -> tuple[bytes, bytes, bytes]:
    """IV, authentication tag and cipher text: after a byte 1 and the tag with its length."""
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    head = b"\x01" + bytes([len(_TAG)]) + _TAG
    body = raw.removeprefix(head)
    if body == raw or len(body) < _IV_BYTES + _CHECK_BYTES:
        raise CloakError("a credential is not in the form that Lightning writes", allowed=_TAG.decode())
    check_end = _IV_BYTES + _CHECK_BYTES
    return body[:_IV_BYTES], body[_IV_BYTES:check_end], body[check_end:]
