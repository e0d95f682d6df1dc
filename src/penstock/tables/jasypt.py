"""Values that jasypt's `BasicTextEncryptor` has encrypted, as WhereHows keeps passwords in its database."""

from __future__ import annotations

import base64
import binascii
import hashlib
import unicodedata
from typing import Final

from penstock.core.errors import ConfigError

_SALT: Final = 8
_ROUNDS: Final = 1000


class CannotDecrypt(ConfigError):
    """A value is not what this key has encrypted; neither is ever shown."""

    code = "cannot-decrypt"


def decrypt(text: str, password: str) -> str:
    """The plain text: PBE with MD5 and DES, a salt of eight bytes in front, all in Base64."""
    try:
        raw = base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise CannotDecrypt("the encrypted value is not Base64") from None
    salt, body = raw[:_SALT], raw[_SALT:]
    if not body or len(body) % 8:
        raise CannotDecrypt(f"the encrypted value has {len(raw)} bytes: a salt of 8 and blocks of 8 are wanted")
    try:
        return _without_padding(_des_cbc(body, _derived(password, salt))).decode("utf-8")
    except ValueError:
        raise CannotDecrypt("the encrypted value was made with another key", hint="check the master key file") from None


def _derived(password: str, salt: bytes) -> bytes:
    """Key and start vector: PKCS #5's first derivation."""
    found = unicodedata.normalize("NFC", password).encode("utf-8") + salt
    for _ in range(_ROUNDS):
        found = hashlib.md5(found).digest()  # noqa: S324 - what the values were encrypted with
    return found


def _des_cbc(body: bytes, derived: bytes) -> bytes:
    # A tenth of a second that only users of encrypted properties pay.
    from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES  # noqa: PLC0415
    from cryptography.hazmat.primitives.ciphers import Cipher, modes  # noqa: PLC0415

    # Three times the same key is DES itself, which the package does not offer.
    reading = Cipher(TripleDES(derived[:8] * 3), modes.CBC(derived[8:])).decryptor()
    return reading.update(body) + reading.finalize()


def _without_padding(plain: bytes) -> bytes:
    count = plain[-1]
    if not 1 <= count <= 8 or plain[-count:] != bytes([count]) * count:
        raise ValueError("padding")
    return plain[:-count]
