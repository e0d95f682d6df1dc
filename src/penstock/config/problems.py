"""What is wrong with a configuration, as data and as one readable line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from penstock.core.errors import ConfigError

Path = tuple[str | int, ...]
"""Keys and list positions from the top of a document down to a value."""

_ANYTHING = TypeAdapter[Any](Any)


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong, or worth a warning, in one place."""

    message: str
    file: str | None = None
    line: int | None = None
    """Counted from 1."""
    column: int | None = None
    """Counted from 1."""
    path: str = ""
    """Key path, for instance `options.retry.attempts`."""
    received: object = None
    """The value found there, masked where it is a secret."""
    allowed: tuple[str, ...] | None = None
    hint: str | None = None

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.file and self.line else self.file or ""
        head = ": ".join(part for part in (place, self.path, self.message) if part)
        return f"{head}; {self.hint}" if self.hint else head

    def as_dict(self) -> dict[str, Any]:
        """The problem as data, for `--json` and the API."""
        known = {name: getattr(self, name) for name in self.__slots__}
        known["received"] = _ANYTHING.dump_python(self.received, mode="json", fallback=str)
        shown = {name: value for name, value in known.items() if value not in (None, "")}
        return shown | ({"allowed": list(self.allowed)} if self.allowed else {})


class InvalidConfigError(ConfigError):
    """A configuration that cannot be used, with all that is wrong with it."""

    code = "config_invalid"

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)), received=problems[0].received, allowed=problems[0].allowed)
        self.problems = tuple(problems)

    def as_dict(self) -> dict[str, object]:
        return {"code": self.code, "message": self.message, "problems": [p.as_dict() for p in self.problems]}


def dotted(path: Iterable[str | int]) -> str:
    """`filters[0].config.event` for ("filters", 0, "config", "event")."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def did_you_mean(word: object, known: Iterable[str]) -> str | None:
    """A question that ends in the nearest known word, if one is near."""
    near = difflib.get_close_matches(str(word).lower(), {name.lower(): name for name in known}, n=1, cutoff=0.6)
    if not near:
        return None
    return f"did you mean '{next(name for name in known if name.lower() == near[0])}'?"
