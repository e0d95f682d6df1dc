"""Reads YAML, JSON and TOML files into plain data that knows at which line each of its keys stands."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from io import StringIO
from itertools import accumulate
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.constructor import DuplicateKeyError
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from penstock.config.problems import Path as KeyPath
from penstock.config.problems import Problem, dotted
from penstock.config.remote import fetch, is_url, suffix_of
from penstock.core.secrets import mask_url

_MOST_VALUES = 100_000
"""Aliases can make a small file enormous; no honest configuration comes near this."""
_DEEPEST = 60
_HALF = re.compile("[\ud800-\udfff]")
_BRACKET = re.compile(r"[\[\]{}]")
_TOO_DEEP = "it is nested too deeply or has too many values"
_LONGEST = 200_000
"""Characters of a text that somebody sends: the parser takes a second for some twenty thousand of them."""
_MOST_MARKS = 20_000
"""The same for the marks between values, which are what takes the time."""
_MOST_MERGES = 20
"""`<<` copies a map, or each of a list of them."""
_MOST_MERGED = 1_000
_MOST_OPEN = 200
"""Brackets: the parser's time grows with the square of their depth."""


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a file: its data and where things stand in it."""

    file: str
    data: Any
    tree: Any = None
    """The same data as the YAML parser's own containers, which hold positions."""
    first_line: int = 1
    text: str = field(default="", repr=False)
    """All of the file, as written."""

    @property
    def folder(self) -> Path:
        """Where relative paths begin; what came over the network has no folder of its own."""
        return Path.cwd() if is_url(self.file) else Path(self.file).resolve().parent

    @property
    def origin(self) -> str:
        """The file or address for good, wherever the process goes."""
        return self.file if is_url(self.file) else str(Path(self.file).resolve())

    def place(self, path: KeyPath) -> tuple[int | None, int | None]:
        """Line and column (from 1) of the deepest key of `path` that is in the document."""
        here, place = self.tree, None
        for part in path:
            marks = getattr(getattr(here, "lc", None), "data", None) or {}
            if part in marks:
                place = (marks[part][0] + 1, marks[part][1] + 1)
            try:
                here = here[part]
            except (KeyError, IndexError, TypeError):
                break
        if place is not None:
            return place
        return (None, None) if self.tree is None else (self.first_line, 1)

    def problem(self, path: KeyPath, message: str, **details: Any) -> Problem:
        """A problem at a key of this document."""
        line, column = self.place(path)
        return Problem(message=message, file=self.file, line=line, column=column, path=dotted(path), **details)


@dataclass(slots=True)
class Reading:
    """What a file gave: the documents before its first syntax error, and that error."""

    documents: list[Document] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def read_documents(file: Path | str) -> Reading:
    """Read a file or address; empty documents are left out."""
    name = mask_url(str(file))
    try:
        text = fetch(str(file)) if is_url(str(file)) else Path(file).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        return Reading([], [Problem(file=name, message=f"is not UTF-8 text (byte {error.start})")])
    except OSError as error:
        return Reading([], [Problem(file=name, message=f"cannot be read: {error.strerror or type(error).__name__}")])
    parsers: dict[str, Callable[[str, str], Reading]] = {".json": _json, ".toml": _toml}
    reading = parsers.get(suffix_of(name), _yaml)(name, text)
    if not reading.documents and not reading.problems:
        reading.problems.append(Problem(file=name, line=1, column=1, message="is empty"))
    return reading


def read_text(name: str, text: str) -> Reading:
    """Documents of a YAML (or JSON) text that is in no file; `name` stands where its file would."""
    too_much = _too_much(text)
    reading = Reading([], [Problem(file=name, line=1, message=too_much)]) if too_much else _yaml(name, text)
    if not reading.documents and not reading.problems:
        reading.problems.append(Problem(file=name, line=1, column=1, message="is empty"))
    return reading


def _too_much(text: str) -> str | None:
    """Why reading it would keep everybody else waiting; None: it would not."""
    if len(text) > _LONGEST:
        return f"is too large: {len(text):,} characters, at most {_LONGEST:,} are taken"
    merges, aliases = text.count("<<"), text.count("*")
    marks = sum(text.count(mark) for mark in ",:\n[{")
    open_now = accumulate(1 if found[0] in "[{" else -1 for found in _BRACKET.finditer(text))
    counts = (
        ("keys and values", marks, _MOST_MARKS),
        ("merges (<<)", merges, _MOST_MERGES),
        ("aliases (*) beside merges", aliases if merges else 0, _MOST_MERGED),
        ("brackets within each other", max(open_now, default=0), _MOST_OPEN),
    )
    said = (
        f"is too large: about {found:,} {what}, at most {most:,} are taken"
        for what, found, most in counts
        if found > most
    )
    return next(said, None)


def _yaml(file: str, text: str) -> Reading:
    reading = Reading()
    try:
        for tree, line in _trees(text):
            reading.documents.append(Document(file, _Plain().of(tree), tree, line, text))
    except MarkedYAMLError as error:
        reading.problems.append(_yaml_problem(file, error))
    except (YAMLError, ValueError) as error:
        reading.problems.append(Problem(file=file, line=1, message=f"is not valid YAML: {error}"))
    return reading


def _trees(text: str, version: str | None = None) -> Iterator[tuple[Any, int]]:
    parser = YAML(typ="rt", pure=True)
    parser.version = version
    trees = parser.load_all(StringIO(text))
    while True:
        try:
            tree = next(trees)
        except StopIteration:
            return
        except (YAMLError, ValueError):
            raise
        except RecursionError:
            raise ValueError(_TOO_DEEP) from None
        except Exception as error:  # the parser stumbles over `-_`, `!!int ''`, `!!bool x`, `!!set x` and the like
            raise ValueError("a value is not of the kind that its tag or its sign says") from error
        if tree is not None:
            yield tree, (getattr(getattr(tree, "lc", None), "line", None) or 0) + 1


def as_yaml_1_1(document: Document) -> Any:
    """The document's data as YAML 1.1 parsers read it, to whom `yes` and `on` are no texts."""
    try:
        for tree, line in _trees(document.text, "1.1"):
            if line == document.first_line:
                return _Plain().of(tree)
    except (YAMLError, ValueError):
        pass
    return document.data


def _yaml_problem(file: str, error: MarkedYAMLError) -> Problem:
    mark = error.problem_mark or error.context_mark
    what = (error.problem or error.context or "it cannot be parsed").splitlines()[0].strip()
    if isinstance(error, DuplicateKeyError):
        # The parser's own text repeats both values, which may be secrets.
        what = re.sub(r'^.*?duplicate key "(.*?)" with value.*$', r"the key '\1' is written twice", what)
    return Problem(
        file=file,
        line=mark.line + 1 if mark else None,
        column=mark.column + 1 if mark else None,
        message=f"is not valid YAML: {what}",
    )


def _json(file: str, text: str) -> Reading:
    if not text.strip():
        return Reading()
    try:
        data = json.loads(text)
    except RecursionError:
        return Reading([], [Problem(file=file, line=1, message=f"is not valid JSON: {_TOO_DEEP}")])
    except json.JSONDecodeError as error:
        problem = Problem(file=file, line=error.lineno, column=error.colno, message=f"is not valid JSON: {error.msg}")
        return Reading([], [problem])
    try:
        # JSON is YAML too; read once more as that, it tells the lines.
        tree = next((tree for tree, _ in _trees(text)), None)
    except (YAMLError, ValueError):
        tree = None
    return Reading([Document(file, data, tree)])


def _toml(file: str, text: str) -> Reading:
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"^(.*?) \(at line (\d+), column (\d+)\)$", str(error))
        message, line, column = (found[1], int(found[2]), int(found[3])) if found else (str(error), None, None)
        problem = Problem(file=file, line=line, column=column, message=f"is not valid TOML: {message}")
        return Reading([], [problem])
    return Reading([Document(file, data)] if data else [])


class _Plain:
    """Turns the parser's containers and scalars into plain ones, and refuses what aliases blow up."""

    def __init__(self) -> None:
        self._left = _MOST_VALUES

    def of(self, value: Any, depth: int = 0) -> Any:
        self._left -= 1
        if self._left < 0 or depth > _DEEPEST:
            raise ValueError(_TOO_DEEP)
        if isinstance(value, (CommentedMap, Mapping)):
            return {_key(self.of(key, depth + 1)): self.of(item, depth + 1) for key, item in value.items()}
        if isinstance(value, (CommentedSeq, list, tuple)):
            return [self.of(item, depth + 1) for item in value]
        return _scalar(value)


def _key(key: Any) -> Any:
    return str(key) if isinstance(key, (dict, list)) else key


def _scalar(value: Any) -> Any:
    if isinstance(value, datetime):
        # The parser's own kind of time cannot be pickled everywhere.
        return datetime.combine(value.date(), value.timetz())
    if value is None or isinstance(value, (bool, date)):
        return value
    if isinstance(value, bytes):
        return bytes(value)
    if isinstance(value, str) and _HALF.search(value):
        # Written as `\ud800`: no store, client or answer can encode it.
        raise ValueError("a text has half of a surrogate pair in it, which is no Unicode character")
    for kind in (str, int, float):
        if isinstance(value, kind):
            return kind(value)
    # ScalarBoolean and tagged scalars; a tag of an unknown kind says nothing here.
    return bool(value) if type(value).__name__ == "ScalarBoolean" else str(value)
