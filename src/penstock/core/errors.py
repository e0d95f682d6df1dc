"""The one error family: a stable code, what was received, what is allowed, what to do next."""

from __future__ import annotations

from typing import Any


class PenstockError(Exception):
    """Base of every error a user may see; carries data and survives pickling.

    Subclasses set `code`. Whether an error is worth a retry is its type's business (`Transient`, `Terminal`), never its
    text's.
    """

    code: str = "penstock"

    def __init__(
        self,
        message: str,
        *,
        received: object = None,
        allowed: object = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.received = received
        self.allowed = allowed
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, self.__dict__)

    def as_dict(self) -> dict[str, object]:
        """The error as data, for `--json` and the API."""
        given = {"received": self.received, "allowed": self.allowed, "hint": self.hint}
        return {"code": self.code, "message": self.message} | {k: v for k, v in given.items() if v is not None}


def _rebuild(cls: type[PenstockError], args: tuple[object, ...], state: dict[str, object]) -> PenstockError:
    # Subclasses have constructors of their own; unpickling must not call them with the wrong arguments.
    error = cls.__new__(cls)
    error.args = args
    error.__dict__.update(state)
    return error


class Transient:
    """Mix-in: the same call may succeed later; an outage, never the fault of the event."""


class Terminal:
    """Mix-in: the same call will fail again; retrying is pointless."""


class ConfigError(PenstockError, Terminal):
    """A configuration cannot be used as written."""

    code = "config"


class PluginError(ConfigError):
    """A plug-in cannot be found, loaded or created."""

    code = "plugin"


class DecodeError(PenstockError, Terminal):
    """The bytes of a record are not what its format says."""

    code = "decode"


class Unavailable(PenstockError, Transient):
    """A part outside of Penstock (broker, registry, store, target) does not answer as it should."""

    code = "unavailable"
