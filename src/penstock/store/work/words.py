"""Texts as words, and terms as queries: the same for both databases, whose own ways to cut texts differ."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable
from typing import Final

from penstock.store.work.history_model import SearchField

TEXT_CHARACTERS: Final = 20_000
"""How much of a body or log line can be found: an index costs more than what it covers."""
WORD_CHARACTERS: Final = 60
"""Of longer words only the beginning can be found; they are digests and encoded bytes."""
_ASKED: Final = 16
"""Words of a term; more make no difference to what is found."""
_ID_CHARACTERS: Final = 8
"""The least that an id is looked for by: what all ids of a minute have in common."""

# Marks that no word begins with, for what is said of a text rather than in it.
_OWNER: Final = "\ue000"
_KIND: Final = "\ue001"
_NAME: Final = "\ue002"

_BLANKS: Final = "".join(chr(code) if chr(code).isalnum() else " " for code in range(128))
_WORD: Final = re.compile(r"[^\W_]+")
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)")
_ID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{0,4}){0,3}(?:-[0-9a-f]{0,12})?")


def words(text: str) -> set[str]:
    """The words of a text as they are compared: without case and accents."""
    if text.isascii():
        # Several times as fast as the expression.
        found = set(text.lower().translate(_BLANKS).split())
    else:
        text = "".join(c for c in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(c))
        found = set(_WORD.findall(text.lower()))
    if max(map(len, found), default=0) <= WORD_CHARACTERS:
        return found
    return {word[:WORD_CHARACTERS] for word in found}


def of_dataclip(body: str | None, name: str | None, owners: Iterable[str]) -> str:
    """What a work order is found by that has this input; nothing where there is nothing to find."""
    found = words(_unescaped(body or ""))
    if name:
        found.update(_NAME + word for word in words(name))
    return _with_marks(found, "body", owners)


def of_log_line(message: str, owners: Iterable[str]) -> str:
    return _with_marks(words(message), "log", owners)


def postgres_query(term: str, fields: Collection[SearchField], owners: Collection[str]) -> str | None:
    """As a `tsquery`; None where the texts need not be asked. `owners`: workflows or projects, one of which has it."""
    return _query(term, fields, owners, whole="'{}'", begun="'{}':*", both="&", either="|")


def sqlite_query(term: str, fields: Collection[SearchField], owners: Collection[str]) -> str | None:
    """The same for FTS5."""
    return _query(term, fields, owners, whole='"{}"', begun='"{}"*', both="AND", either="OR")


def id_range(term: str) -> tuple[str, str] | None:
    """The first and the last id that begin with the term; None where it is no beginning of an id."""
    text = term.strip().lower()
    if len(text) < _ID_CHARACTERS or not _ID.fullmatch(text):
        return None
    digits = text.replace("-", "")
    return tuple(_dashed(digits.ljust(32, fill)) for fill in "0f")  # type: ignore[return-value] # two of them


def _query(
    term: str,
    fields: Collection[SearchField],
    owners: Collection[str],
    *,
    whole: str,
    begun: str,
    both: str,
    either: str,
) -> str | None:
    asked = sorted(words(term), key=len, reverse=True)[:_ASKED]
    if not asked or not {"body", "name", "log"} & {*fields}:
        return None

    def any_of(parts: list[str]) -> str:
        return f"({f' {either} '.join(parts)})"

    kinds = [kind for kind in ("body", "log") if kind in fields]
    # A word in texts of either kind is any word; of one kind, the row must be of that kind as well.
    of_kind = f"({begun} {both} {whole.format(_KIND + kinds[0])})" if len(kinds) == 1 else begun
    parts = []
    for word in asked:
        found = [of_kind.format(word)] if kinds else []
        if "name" in fields:
            found.append(begun.format(_NAME + word))
        parts.append(any_of(found))
    if owners:
        parts.append(any_of([whole.format(_owner(owner)) for owner in sorted(owners)]))
    return f" {both} ".join(parts)


def _with_marks(found: set[str], kind: str, owners: Iterable[str]) -> str:
    return " ".join([*found, _KIND + kind, *map(_owner, owners)]) if found else ""


def _owner(identifier: str) -> str:
    return _OWNER + identifier.replace("-", "")


def _unescaped(text: str) -> str:
    """JSON's escapes as what they stand for; most texts have none."""
    if "\\" not in text:
        return text
    text = _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else " ", text)
    # Letters outside of the first plane are escaped as two halves.
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _dashed(digits: str) -> str:
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
