"""Encryption of secrets at rest: AES-256-GCM, each bound to the place it is kept at."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
from typing import Final

from penstock.core.errors import ConfigError

KEY_BYTES: Final = 32
_UNBOUND: Final = b"\x01"
"""The format of version 0.1, which said nothing of the place; read, and no longer written."""
_BOUND: Final = b"\x02"
_NONCE: Final = 12
_KNOWN: Final = b"penstock"
_MARK: Final = "mark"
_FORM: Final = "32 bytes in Base64; `openssl rand -base64 32` makes one. During a rotation: NEW,OLD"


class WrongSecretKey(ConfigError):
    """What is encrypted was encrypted under another key."""

    code = "secret_key"


class Cipher:
    """Encrypts under its first key and decrypts under any; its `repr` shows nothing of them.

    `place` says where a secret is kept. It is not encrypted and not stored: what is decrypted as if it had been kept
    elsewhere is refused, so whoever writes to the store cannot exchange one secret for another.
    """

    __slots__ = ("_keys",)

    def __init__(self, key: bytes, *former: bytes) -> None:
        """`former` keys are for reading only, while the first one takes their place."""
        for each in (key, *former):
            if len(each) != KEY_BYTES:
                raise ConfigError(f"a key of {KEY_BYTES} bytes is wanted, not one of {len(each)}", allowed=_FORM)
        self._keys = (key, *former)

    @classmethod
    def of(cls, text: str, where: str) -> Cipher:
        """By keys as people write them; an error names `where` they were written, and never what."""
        keys = [_key(part) for part in text.split(",")]
        if not all(keys):
            raise ConfigError(f"{where} is no key", allowed=_FORM)
        return cls(*keys)

    @property
    def text(self) -> str:
        """The keys as people write them."""
        return ",".join(base64.b64encode(key).decode() for key in self._keys)

    @property
    def current(self) -> Cipher:
        """Without the former keys."""
        return Cipher(self._keys[0])

    def derived(self, label: str) -> Cipher:
        """A cipher for one purpose (HKDF-SHA256): whoever has it learns nothing of this one."""
        from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415 - slow to import, rarely wanted
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF  # noqa: PLC0415 - as above

        info = f"penstock/{label}".encode()
        return Cipher(*(HKDF(SHA256(), KEY_BYTES, salt=None, info=info).derive(key) for key in self._keys))

    def encrypt(self, plain: bytes, place: str) -> bytes:
        """Each time other bytes: nobody sees which secrets are equal."""
        return self._sealed(plain, place, os.urandom(_NONCE))

    def decrypt(self, secret: bytes, place: str) -> bytes:
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - as above
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - as above

        version, nonce, rest = secret[:1], secret[1 : 1 + _NONCE], secret[1 + _NONCE :]
        for key in self._keys if version in (_UNBOUND, _BOUND) else ():
            try:
                bound = version if version == _UNBOUND else version + place.encode()
                return AESGCM(key).decrypt(nonce, rest, bound)
            except (InvalidTag, ValueError):
                continue
        raise WrongSecretKey(
            "a secret cannot be decrypted: it was encrypted under another key or for another place, or is damaged",
            hint="set PENSTOCK_SECRET_KEY, or put back secret.key, as it was when the secret was saved",
        )

    def hide(self, plain: str, place: str) -> str:
        """A text, encrypted, as a text. The same text at the same place becomes the same bytes: a definition that is
        saved again unchanged stays the same one."""
        # A nonce made from the text, by a key of its own, repeats only together with text and place.
        own = hmac.digest(self._keys[0], b"nonce", hashlib.sha256)
        nonce = hmac.digest(own, f"{len(place)}/{place}/{plain}".encode(), hashlib.sha256)[:_NONCE]
        return base64.b64encode(self._sealed(plain.encode(), place, nonce)).decode()

    def reveal(self, secret: str, place: str) -> str:
        """The text that `hide` was given."""
        try:
            raw = base64.b64decode(secret, validate=True)
        except (binascii.Error, ValueError):
            raw = b""
        return self.decrypt(raw, place).decode()

    def _sealed(self, plain: bytes, place: str, nonce: bytes) -> bytes:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - as above

        return _BOUND + nonce + AESGCM(self._keys[0]).encrypt(nonce, plain, _BOUND + place.encode())

    def mark(self) -> bytes:
        """Something to keep, by which `knows` tells the key again."""
        return self.encrypt(_KNOWN, _MARK)

    def knows(self, mark: bytes) -> bool:
        """Whether it was made under this key, or a former one."""
        try:
            return self.decrypt(mark, _MARK) == _KNOWN
        except WrongSecretKey:
            return False

    def __repr__(self) -> str:
        return "Cipher()"


def _key(text: str) -> bytes:
    """Empty where it is none."""
    text = text.strip()
    try:
        key = base64.b64decode(text, altchars=b"-_" if {"-", "_"} & set(text) else None, validate=True)
    except (binascii.Error, ValueError):
        return b""
    return key if len(key) == KEY_BYTES else b""
