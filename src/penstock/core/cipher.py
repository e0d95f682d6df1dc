"""Encryption of secrets at rest: AES-256-GCM under one key."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import Final

from penstock.core.errors import ConfigError

KEY_BYTES: Final = 32
_FORMAT: Final = b"\x01"
_NONCE: Final = 12
_KNOWN: Final = b"penstock"
_FORM: Final = "32 bytes in Base64; `openssl rand -base64 32` makes one"


class WrongSecretKey(ConfigError):
    """What is encrypted was encrypted under another key."""

    code = "secret_key"


class Cipher:
    """Encrypts and decrypts; its `repr` shows nothing of the key."""

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise ConfigError(f"a key of {KEY_BYTES} bytes is wanted, not one of {len(key)}", allowed=_FORM)
        self._key = key

    @classmethod
    def of(cls, text: str, where: str) -> Cipher:
        """By a key as people write it; an error names `where` it was written, and never what."""
        try:
            key = base64.b64decode(text.strip(), altchars=b"-_" if {"-", "_"} & set(text) else None, validate=True)
        except (binascii.Error, ValueError):
            key = b""
        if len(key) != KEY_BYTES:
            raise ConfigError(f"{where} is no key", allowed=_FORM)
        return cls(key)

    @property
    def text(self) -> str:
        """The key as people write it."""
        return base64.b64encode(self._key).decode()

    def encrypt(self, plain: bytes) -> bytes:
        """The same text becomes the same bytes: a definition that is saved again unchanged stays the same one."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - slow to import, rarely wanted

        # A nonce made from the text, by a key of its own, repeats only together with the text.
        own = hmac.digest(self._key, b"nonce", hashlib.sha256)
        nonce = hmac.digest(own, plain, hashlib.sha256)[:_NONCE]
        return _FORMAT + nonce + AESGCM(self._key).encrypt(nonce, plain, _FORMAT)

    def decrypt(self, secret: bytes) -> bytes:
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - as above
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - as above

        nonce, rest = secret[1 : 1 + _NONCE], secret[1 + _NONCE :]
        try:
            if secret[:1] != _FORMAT:
                raise InvalidTag
            return AESGCM(self._key).decrypt(nonce, rest, _FORMAT)
        except (InvalidTag, ValueError):
            raise WrongSecretKey(
                "a secret cannot be decrypted: it was encrypted under another key, or is damaged",
                hint="set PENSTOCK_SECRET_KEY, or put back secret.key, as it was when the secret was saved",
            ) from None

    def hide(self, plain: str) -> str:
        """A text, encrypted, as a text."""
        return base64.b64encode(self.encrypt(plain.encode())).decode()

    def reveal(self, secret: str) -> str:
        """The text that `hide` was given."""
        try:
            raw = base64.b64decode(secret, validate=True)
        except (binascii.Error, ValueError):
            raw = b""
        return self.decrypt(raw).decode()

    def mark(self) -> bytes:
        """Something to keep, by which `knows` tells the key again."""
        return self.encrypt(_KNOWN)

    def knows(self, mark: bytes) -> bool:
        """Whether it was made under this key."""
        try:
            return self.decrypt(mark) == _KNOWN
        except WrongSecretKey:
            return False

    def __repr__(self) -> str:
        return "Cipher()"
