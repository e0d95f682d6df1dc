"""Secrets within stored configurations: kept encrypted or as references, and put in place only where they are used.

`{"$secret": "…"}` is an encrypted text, `{"$ref": "NAME"}` a named secret of the store, and `${NAME}` and
`${file:path}` are looked up on the machine where they are needed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from penstock.config.expansion import expand_text
from penstock.core.cipher import KEY_BYTES, Cipher
from penstock.core.errors import ConfigError
from penstock.core.secrets import MASK, is_secret_key, mask_url, secrets_at_key, secrets_in_url

KEY_VARIABLE: Final = "PENSTOCK_SECRET_KEY"
KEY_FILE: Final = "secret.key"
FORMER_KEY_FILE: Final = f"{KEY_FILE}.old"
SECRET: Final = "$secret"  # noqa: S105 - the name of a key
REFERENCE: Final = "$ref"
NOT_KEPT: Final = "an admin keeps it first: `penstock secrets set`, or PUT /api/v1/secrets/NAME"
"""What to do about a name that no secret has."""

_ALWAYS_SECRET: Final = ("username", "ssl_key", "notify")
"""Keys of triggers and projects whose names do not say it."""


class NoSecretKey(ConfigError):
    """Something is encrypted, and there is no key."""

    code = "secret_key"


@dataclass(frozen=True, slots=True)
class Resolved:
    """A configuration that can be used, and the secrets in it, for scrubbing."""

    value: Any
    secrets: frozenset[str]


def known_cipher(home: Path, environ: Mapping[str, str]) -> Cipher | None:
    """By the key of the environment, else that of the home; None: there is none yet.

    The variable may hold a former key too (`NEW,OLD`), as the home does after a rotation: for reading only.
    """
    if written := environ.get(KEY_VARIABLE, "").strip():
        return Cipher.of(written, f"variable {KEY_VARIABLE}")
    current, former = _written_key(home / KEY_FILE), _written_key(home / FORMER_KEY_FILE)
    if current is None:
        return None
    return Cipher.of(current if former is None else f"{current},{former}", str(home / KEY_FILE))


def _written_key(file: Path) -> str | None:
    try:
        text = file.read_text(encoding="ascii")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}", received=str(file)) from None
    Cipher.of(text, str(file))
    return text


def made_cipher(home: Path, environ: Mapping[str, str]) -> Cipher:
    """The same; a key is made in the home where there is none."""
    if known := known_cipher(home, environ):
        return known
    write_key(home / KEY_FILE, Cipher(os.urandom(KEY_BYTES)))
    made = known_cipher(home, environ)
    assert made is not None  # noqa: S101 - just written, by us or by another process at the same moment
    return made


def write_key(file: Path, cipher: Cipher) -> None:
    """Put a key into a file, unless it is there: whole or not at all, readable by its owner only."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
        out.write(cipher.text + "\n")
        out.flush()
        os.fsync(out.fileno())
    try:
        file.hardlink_to(draft)
    except FileExistsError:
        pass
    finally:
        draft.unlink()


def hidden(config: Any, cipher: Callable[[], Cipher], *, key: str = "", secret: bool = False) -> Any:
    """A copy with every secret that is written out encrypted; references stay. The cipher is asked for when needed.

    `key` is the one that the value is kept at, which its encryption is bound to.
    """
    if isinstance(config, Mapping):
        if is_kept(config):
            return dict(config)
        return {
            key: hidden(value, cipher, key=str(key), secret=secret or _is_secret(str(key)))
            for key, value in config.items()
        }
    if isinstance(config, (list, tuple)):
        return [hidden(value, cipher, key=key, secret=secret) for value in config]
    if not isinstance(config, str) or not config or is_reference(config):
        return config
    return {SECRET: cipher().hide(config, place_of(key))} if secret or secrets_in_url(config) else config


def place_of(key: str) -> str:
    """What the encryption of a text in a configuration is bound to: its key, wherever in it that is. A secret that
    was kept as one thing (a password) cannot be used as another (an address)."""
    return f"field/{key}"


def place_of_named(name: str) -> str:
    """What the encryption of a named secret is bound to."""
    return f"secret/{name}"


def is_kept(value: object) -> bool:
    """Whether it is an encrypted text, or refers to a named secret."""
    return isinstance(value, Mapping) and len(value) == 1 and next(iter(value)) in (SECRET, REFERENCE)


def is_reference(text: str) -> bool:
    """Whether a text is looked up where it is used."""
    return "${" in text or text.startswith("$")


def _is_secret(key: str) -> bool:
    return is_secret_key(key) or key in _ALWAYS_SECRET


def shown(config: Any, *, secret: bool = False) -> Any:
    """A copy for people: what is encrypted is masked, references are shown."""
    if isinstance(config, Mapping):
        if is_kept(config):
            return MASK if SECRET in config else dict(config)
        return {key: shown(value, secret=secret or _is_secret(str(key))) for key, value in config.items()}
    if isinstance(config, (list, tuple)):
        return [shown(value, secret=secret) for value in config]
    if isinstance(config, str) and not is_reference(config):
        return MASK if secret and config else mask_url(config)
    return config


def resolve(
    config: Any,
    cipher: Cipher | None,
    named: Mapping[str, str],
    environ: MutableMapping[str, str],
    folder: Path | None = None,
) -> Resolved:
    """The configuration with everything put in its place. `named` are the store's secrets, in plain text."""
    found: set[str] = set()
    value = _Resolver(cipher, named, environ, folder, found).of(config, secret=False)
    return Resolved(value, frozenset(text for text in found if text))


@dataclass(slots=True)
class _Resolver:
    cipher: Cipher | None
    named: Mapping[str, str]
    environ: MutableMapping[str, str]
    folder: Path | None
    found: set[str]

    def of(self, config: Any, *, key: str = "", secret: bool) -> Any:
        if isinstance(config, Mapping):
            if is_kept(config):
                return self._kept(config, key)
            return {
                key: self.of(value, key=str(key), secret=secret or _is_secret(str(key)))
                for key, value in config.items()
            }
        if isinstance(config, (list, tuple)):
            return [self.of(value, key=key, secret=secret) for value in config]
        if not isinstance(config, str):
            return config
        return self._text(config, secret=secret)

    def _kept(self, config: Mapping[str, Any], key: str) -> str:
        if SECRET in config:
            if self.cipher is None:
                hint = f"set {KEY_VARIABLE}, or put {KEY_FILE} back into the home"
                raise NoSecretKey("a secret is encrypted, and there is no key to read it with", hint=hint)
            value = self.cipher.reveal(str(config[SECRET]), place_of(key))
        else:
            name = str(config[REFERENCE])
            if name not in self.named:
                # Which ones there are is told to those only who keep them.
                raise ConfigError(f"there is no secret named {name!r}", received=name, hint=NOT_KEPT)
            value = self.named[name]
        self.found |= secrets_at_key(value)
        return value

    def _text(self, text: str, *, secret: bool) -> str:
        expanded = expand_text(text, self.environ, self.folder)
        self.found |= expanded.files | secrets_in_url(expanded.value)
        if secret:
            self.found |= secrets_at_key(expanded.value) | expanded.variables
        return expanded.value
