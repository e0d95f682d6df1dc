"""The key of a store's secrets: found, made when first needed, checked at every start, and changed."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, MutableMapping
from pathlib import Path
from typing import Any, Final

import structlog

from penstock.config.secret_values import (
    FORMER_KEY_FILE,
    KEY_FILE,
    KEY_VARIABLE,
    SECRET,
    NoSecretKey,
    Resolved,
    hidden,
    known_cipher,
    made_cipher,
    place_of,
    place_of_named,
    resolve,
    write_key,
)
from penstock.config.settings import Settings
from penstock.core.cipher import KEY_BYTES, Cipher, WrongSecretKey
from penstock.core.errors import ConfigError
from penstock.store import Store
from penstock.store.work.rekeying import rekey

log = structlog.get_logger("penstock.secrets")

_MARK: Final = ""
"""The secret without a name: a known text, by which a wrong key is noticed."""


class SecretBox:
    """What hides and resolves the secrets of one store. Making one checks the key; none is made before it is needed."""

    def __init__(self, store: Store, home: Path, environ: MutableMapping[str, str] | None = None) -> None:
        self._store = store
        self._home = home
        self._environ = os.environ if environ is None else environ
        self._cipher: Cipher | None = None
        known, mark = known_cipher(home, self._environ), store.secrets.get(_MARK)
        if mark is not None:
            _check(known, mark, home)
            self._cipher = known

    @classmethod
    def of(cls, store: Store, settings: Settings) -> SecretBox:
        return cls(store, settings.home)

    @property
    def cipher(self) -> Cipher | None:
        """None: nothing was ever encrypted in this store."""
        return self._cipher

    def hidden(self, config: Any) -> Any:
        """A configuration as it may be stored."""
        return hidden(config, self.needed)

    def resolved(self, config: Any, folder: Path | None = None) -> Resolved:
        """A stored configuration as it can be used here."""
        try:
            return self._resolved(config, folder)
        except (WrongSecretKey, NoSecretKey):
            # Another process has made the first key, or another one; what it says now is what counts.
            self._cipher = known_cipher(self._home, self._environ)
            return self._resolved(config, folder)

    def _resolved(self, config: Any, folder: Path | None) -> Resolved:
        return resolve(config, self._cipher, named_secrets(self._store, self._cipher), self._environ, folder)

    def named(self) -> dict[str, str]:
        """The store's named secrets in plain text."""
        try:
            return named_secrets(self._store, self._cipher)
        except (WrongSecretKey, NoSecretKey):
            self._cipher = known_cipher(self._home, self._environ)  # as above
            return named_secrets(self._store, self._cipher)

    def set_named(self, name: str, value: str) -> None:
        """Keep a secret that configurations refer to as `{"$ref": NAME}`."""
        if not name.strip():
            raise ConfigError("a secret wants a name", received=name)
        self._store.secrets.set(name, self.needed().encrypt(value.encode(), place_of_named(name)))

    def needed(self) -> Cipher:
        """The same; a key is made where there is none."""
        if self._cipher is None:
            cipher = made_cipher(self._home, self._environ)
            mark = self._store.secrets.get(_MARK)
            if mark is None:
                self._store.secrets.set(_MARK, cipher.mark())
            else:
                _check(cipher, mark, self._home)  # another process was first
            self._cipher = cipher
        return self._cipher


def _check(cipher: Cipher | None, mark: bytes, home: Path) -> None:
    if cipher is None:
        raise NoSecretKey(
            "the store holds encrypted secrets, and there is no key to read them with",
            hint=f"set {KEY_VARIABLE}, or put {KEY_FILE} into {home}, as on the machine that saved them",
        )
    if not cipher.knows(mark):
        raise WrongSecretKey(
            f"the key is not the one that the store's secrets were encrypted under ({_source(home)})",
            hint=f"{KEY_VARIABLE} goes before {KEY_FILE}; every instance of a store needs the same key; "
            f"{KEY_FILE}.new and {KEY_FILE}.old are of a rotation",
        )


def _source(home: Path) -> str:
    return f"it came from {KEY_VARIABLE}" if os.environ.get(KEY_VARIABLE) else f"it came from {home / KEY_FILE}"


def owner_of(secret: str) -> str:
    """The name of the project that a named secret is for: `PROJECT/NAME`. Empty: it is for no project, so that only
    those whose role holds everywhere may refer to it."""
    return secret.rpartition("/")[0]


def named_secrets(store: Store, cipher: Cipher | None) -> dict[str, str]:
    """The store's named secrets in plain text."""
    kept = {name: value for name, value in store.secrets.all().items() if name != _MARK}
    if kept and cipher is None:
        raise NoSecretKey("the store holds encrypted secrets, and there is no key to read them with")
    if cipher is None:
        return {}
    return {name: cipher.decrypt(value, place_of_named(name)).decode() for name, value in kept.items()}


def rotate_key(store: Store, settings: Settings, environ: Mapping[str, str], new: str | None = None) -> int:
    """Encrypt everything anew under another key; how many rows that were.

    Where the key comes from the environment, it is the first of several there, or `new`, to which the environment must
    be changed afterwards. A key in the home is replaced, and the old one kept beside it for reading.
    """
    by_variable = environ.get(KEY_VARIABLE, "").strip()
    if by_variable and new is None and "," not in by_variable:
        raise ConfigError(
            f"the key comes from {KEY_VARIABLE}, which only you can change",
            hint=f"set {KEY_VARIABLE} to NEW,OLD for every instance and run this again; "
            "or give the new one with --new-key-file, and set the variable to it afterwards",
        )
    home = settings.home
    old = SecretBox(store, home, dict(environ)).cipher
    if new is None and by_variable:
        fresh = Cipher.of(by_variable, f"variable {KEY_VARIABLE}").current
    else:
        fresh = Cipher.of(new, "the new key") if new else Cipher(os.urandom(KEY_BYTES))
    draft = home / f"{KEY_FILE}.new"
    if not by_variable:
        # Before anything is encrypted under it: a crash must not leave secrets that no key reads.
        draft.unlink(missing_ok=True)
        write_key(draft, fresh)
    changed = 0 if old is None else rekey(store.database, _recoder(old, fresh), _renewer(old, fresh))
    if not by_variable:
        file = home / KEY_FILE
        if file.exists():
            file.replace(home / FORMER_KEY_FILE)
        draft.replace(file)
        log.info("the key of the secrets was replaced", file=str(file))
    return changed


def _recoder(old: Cipher, fresh: Cipher) -> Callable[[Any], Any]:
    def again(config: Any, key: str = "") -> Any:
        if isinstance(config, Mapping):
            if set(config) == {SECRET}:
                return {SECRET: fresh.hide(old.reveal(config[SECRET], place_of(key)), place_of(key))}
            return {key: again(value, str(key)) for key, value in config.items()}
        return [again(value, key) for value in config] if isinstance(config, list) else config

    return again


def _renewer(old: Cipher, fresh: Cipher) -> Callable[[str, bytes], bytes]:
    def renew(name: str, value: bytes) -> bytes:
        if name == _MARK:
            return fresh.mark()
        return fresh.encrypt(old.decrypt(value, place_of_named(name)), place_of_named(name))

    return renew
