"""Lightning's environment variables: the defaults of every trigger of an instance."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from penstock.config.problems import InvalidConfigError, Problem

_TRUTH: Final = {"yes": True, "true": True, "no": False, "false": False}
_MISSPELT: Final = {
    "KAFKA_NOTIFICATTION_EMBARGO_SECONDS": "KAFKA_NOTIFICATION_EMBARGO_SECONDS",
    "KAFKA_ALTERNATE_STORAGE_PATH": "KAFKA_ALTERNATE_STORAGE_FILE_PATH",
}
"""As published examples spell them."""
_EMBARGO: Final = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerDefaults:
    """What holds for triggers that do not say otherwise."""

    enabled: bool = True
    """False: this instance runs no trigger."""
    consumers: int | None = None
    processors: int | None = None
    rate: float | None = None
    """Messages per second."""
    embargo_seconds: float = _EMBARGO
    """Least time between two mails about failures of one trigger."""
    alternate_storage: Path | None = None
    """Where messages that could not be stored are copied to."""
    encrypts_copies: bool = False
    """Under the key of the secrets."""
    warnings: tuple[Problem, ...] = ()

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> TriggerDefaults:
        """Read the variables that are set; `InvalidConfigError` names every one that cannot be used."""
        return _Reading(environ).defaults()


class _Reading:
    def __init__(self, environ: Mapping[str, str]) -> None:
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []
        self._environ = {name: value for name, value in environ.items() if name.startswith("KAFKA_")}
        for wrong, right in _MISSPELT.items():
            if wrong in self._environ:
                self.warnings.append(_problem(wrong, f"is taken for {right}", hint=f"write {right}"))
                self._environ.setdefault(right, self._environ[wrong])

    def defaults(self) -> TriggerDefaults:
        embargo = self._whole("KAFKA_NOTIFICATION_EMBARGO_SECONDS", 0)
        found = TriggerDefaults(
            enabled=self._truth("KAFKA_TRIGGERS_ENABLED", default=True),
            consumers=self._whole("KAFKA_NUMBER_OF_CONSUMERS", 1),
            processors=self._whole("KAFKA_NUMBER_OF_PROCESSORS", 1),
            rate=self._rate("KAFKA_NUMBER_OF_MESSAGES_PER_SECOND"),
            embargo_seconds=_EMBARGO if embargo is None else float(embargo),
            alternate_storage=self._storage(),
            encrypts_copies=self._truth("KAFKA_ALTERNATE_STORAGE_ENCRYPTED", default=False),
            warnings=tuple(self.warnings),
        )
        # Read so that a mistake in it is noticed; nothing is kept per message, so nothing has to be deleted.
        self._whole("KAFKA_DUPLICATE_TRACKING_RETENTION_SECONDS", 0)
        if self.problems:
            raise InvalidConfigError(self.problems)
        return found

    def _truth(self, name: str, *, default: bool) -> bool:
        written = self._environ.get(name)
        if written is None:
            return default
        if written not in _TRUTH:
            self._refuse(name, f"exactly one of {', '.join(_TRUTH)} is wanted, not {written!r}", written)
        return _TRUTH.get(written, default)

    def _whole(self, name: str, least: int) -> int | None:
        written = self._environ.get(name)
        if written is None:
            return None
        if not (written.strip().isascii() and written.strip().isdecimal()) or int(written) < least:
            self._refuse(name, f"a whole number of at least {least} is wanted, not {written!r}", written)
            return None
        return int(written)

    def _rate(self, name: str) -> float | None:
        written = self._environ.get(name)
        if written is None:
            return None
        try:
            rate = float(written)
        except ValueError:
            rate = math.nan
        if not (math.isfinite(rate) and rate > 0):
            self._refuse(name, f"a number of messages per second above 0 is wanted, not {written!r}", written)
            return None
        return rate

    def _storage(self) -> Path | None:
        if not self._truth("KAFKA_ALTERNATE_STORAGE_ENABLED", default=False):
            return None
        name = "KAFKA_ALTERNATE_STORAGE_FILE_PATH"
        written = self._environ.get(name, "").strip()
        if not written:
            self._refuse(name, "required where KAFKA_ALTERNATE_STORAGE_ENABLED says yes", None)
            return None
        return Path(written).expanduser().absolute()

    def _refuse(self, name: str, message: str, written: str | None) -> None:
        self.problems.append(_problem(name, message, received=written))


def _problem(name: str, message: str, *, received: str | None = None, hint: str | None = None) -> Problem:
    return Problem(file=f"variable {name}", message=message, received=received, hint=hint)
