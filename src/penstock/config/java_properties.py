"""Java's properties files: what their lines say, and at which line each key stands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_LINE_END = re.compile(r"\r\n|\r|\n")
_BLANK = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_UNICODE = re.compile(r"[0-9a-fA-F]{4}")
_SURROGATES = re.compile("[\ud800-\udbff][\udc00-\udfff]")


@dataclass(frozen=True, slots=True)
class Entry:
    """One key with its value."""

    key: str
    value: str
    line: int
    """Where the key stands, counted from 1."""


@dataclass(slots=True)
class Properties:
    """The entries in the order of the file, and what could not be read."""

    entries: list[Entry] = field(default_factory=list)
    problems: list[tuple[int, str]] = field(default_factory=list)
    """(line, message)."""


def parse_properties(text: str) -> Properties:
    """Read a whole file; a line that cannot be read leaves the others."""
    found = Properties()
    for line, logical in _logical_lines(text):
        raw_key, raw_value = _split(logical)
        try:
            found.entries.append(Entry(_unescaped(raw_key), _unescaped(raw_value), line))
        except ValueError as error:
            found.problems.append((line, str(error)))
    return found


def decode_properties(content: bytes) -> str:
    """The text of a file: UTF-8, or Latin-1 as Java wrote before version 9."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("latin-1")


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines without comments and blank ones; one that ends in an odd number of backslashes goes on in the next."""
    begun: list[str] = []
    first = 0
    for number, natural in enumerate(_LINE_END.split(text), 1):
        line = natural.lstrip(_BLANK)
        if not begun:
            if not line or line[0] in "#!":
                continue
            first = number
        if (len(line) - len(line.rstrip("\\"))) % 2:
            begun.append(line[:-1])
            continue
        yield first, "".join([*begun, line])
        begun = []
    if begun:
        yield first, "".join(begun)


def _split(line: str) -> tuple[str, str]:
    """The key ends at the first `=`, `:` or blank that is not escaped; one `=` or `:` may stand between blanks."""
    at = 0
    while at < len(line) and line[at] not in f"=:{_BLANK}":
        at += 2 if line[at] == "\\" else 1
    rest = line[at:].lstrip(_BLANK)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANK)
    return line[:at], rest


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    at = 0
    while at < len(text):
        char = text[at]
        if char != "\\":
            out.append(char)
            at += 1
            continue
        escaped = text[at + 1 : at + 2]
        if escaped != "u":
            out.append(_ESCAPES.get(escaped, escaped))
            at += 2
            continue
        digits = text[at + 2 : at + 6]
        if not _UNICODE.fullmatch(digits):
            raise ValueError("\\u is not followed by four hexadecimal digits")
        out.append(chr(int(digits, 16)))
        at += 6
    # Java writes a character beyond the first 65,536 as two escapes.
    return _SURROGATES.sub(lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"), "".join(out))
