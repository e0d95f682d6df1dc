"""Regular expressions with Java's meaning: those of WhereHows, and those that its tables and jobs hold."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from penstock.core.errors import ConfigError

_LINE_END: Final = r"\n\r\x85\u2028\u2029"
_DOT: Final = f"[^{_LINE_END}]"
# Java's end of input: also before one last line end of any kind, but never between a carriage return and its newline.
_END: Final = r"(?:(?=\r\n\Z)|(?=[\r\x85\u2028\u2029]\Z)|(?<!\r)(?=\n\Z)|\Z)"
_ESCAPES: Final = {
    "b": r"(?u:\b)",  # unlike \w, Java's word boundary knows the letters of every script
    "B": r"(?u:\B)",
    "z": r"\Z",
    "Z": _END,
    "h": r"[ \t\xA0\u1680\u180e\u2000-\u200a\u202f\u205f\u3000]",
    "R": r"(?:\r\n|[\n\x0b\f\r\x85\u2028\u2029])",
    "e": r"\x1b",
}
_LONGEST: Final = 4_000
_TOKEN: Final = re.compile(
    r"\\Q(?P<quoted>.*?)(?:\\E|\Z)|\\(?P<escaped>.)|(?P<named>\(\?<(?![=!]))|(?P<plain>.)", re.DOTALL
)


class JavaPattern:
    """One expression; `find` looks anywhere in the text, `full` takes the whole of it."""

    __slots__ = ("_compiled", "source")

    def __init__(self, source: str) -> None:
        self.source = source
        if len(source) > _LONGEST:
            raise ConfigError("this regular expression is too long", received=len(source), allowed=f"up to {_LONGEST}")
        try:
            self._compiled = re.compile(_translated(source), re.ASCII)
        except re.error as error:
            raise ConfigError(f"this regular expression cannot be used: {error.msg}", received=source) from error
        except (RecursionError, OverflowError) as error:
            raise ConfigError(f"this regular expression cannot be used: {error}", received=source) from None

    @property
    def groups(self) -> int:
        return self._compiled.groups

    def find(self, text: str | None) -> re.Match[str] | None:
        return None if text is None else self._compiled.search(text)

    def full(self, text: str | None) -> re.Match[str] | None:
        return None if text is None else self._compiled.fullmatch(text)

    def start(self, text: str | None) -> re.Match[str] | None:
        """The expression at the start of the text."""
        return None if text is None else self._compiled.match(text)

    def __repr__(self) -> str:
        return f"JavaPattern({self.source!r})"


@lru_cache(maxsize=512)
def java_pattern(source: str) -> JavaPattern:
    """The expression, compiled once."""
    return JavaPattern(source)


def _translated(source: str) -> str:
    """The same expression in Python's words. What Python has no words for (`\\p{…}`, `&&`) it refuses itself."""
    out: list[str] = []
    depth = 0  # Java's classes nest; Python's do not, and the inner one is refused below
    for token in _TOKEN.finditer(source):
        kind, part = token.lastgroup, token[0]
        if kind == "quoted":
            out.append(re.escape(token["quoted"]))
        elif kind == "escaped":
            out.append(part if depth else _ESCAPES.get(token["escaped"], part))
        elif depth:
            if part == "[" or source.startswith("&&", token.start()):
                raise ConfigError("classes within classes are not known here", received=source)
            depth -= part == "]"
            out.append(part)
        elif kind == "named":
            out.append("(?P<")
        else:
            depth += part == "["
            out.append({".": _DOT, "$": _END}.get(part, part))
    return "".join(out)
