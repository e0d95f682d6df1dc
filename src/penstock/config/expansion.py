"""`${NAME}` and `${file:path}` in configuration values: variables by DataHub's rules, and secrets from files."""

from __future__ import annotations

import re
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import expandvars

from penstock.config.documents import Document
from penstock.config.problems import Path as KeyPath
from penstock.config.problems import Problem
from penstock.core.errors import ConfigError
from penstock.core.secrets import find_secrets, is_secret_key

_BRACED = re.compile(r"\$\{.+\}")
_EMPTY = re.compile(r"(?<!\\)(?:\\\\)*\$\{\}")
_FILE = re.compile(r"(?<!\\)((?:\\\\)*)\$\{file:((?:[^{}]|\$\{[^{}]*\})+)\}")
_FILE_VARIABLE = "__penstock_file_"
_PLACE = "\0{}\0"


class ExpansionError(ConfigError):
    """A value refers to something that cannot be put in its place."""

    code = "expansion"


class UnboundVariableError(ExpansionError):
    """A variable is not set and no default is given."""

    code = "unbound_variable"


class RequiredVariableError(ExpansionError):
    """A variable written as `${NAME:?message}` is not set or empty."""

    code = "required_variable"


@dataclass(frozen=True, slots=True)
class Text:
    """An expanded value and what went into it."""

    value: str
    variables: frozenset[str] = frozenset()
    """Values of environment variables; secret where the key says so."""
    files: frozenset[str] = frozenset()
    """Contents of files; always secret."""


def expand_text(text: str, environ: MutableMapping[str, str], folder: Path | None = None) -> Text:
    """The text with its variables and files put in place."""
    if _EMPTY.search(text):
        raise ExpansionError("'${}' names no variable", hint="write \\${} for the characters themselves")
    if not _BRACED.search(text) and not text.startswith("$"):
        return Text(text)
    paths: list[str] = []
    variables = _Environ(environ, paths)
    prepared = _FILE.sub(lambda match: match[1] + "${" + _file_variable(match[2], paths) + "}", text)
    try:
        value: str = expandvars.expand(prepared, nounset=True, environ=variables)  # type: ignore[no-untyped-call]  # it has none
    except expandvars.UnboundVariable as error:
        if not _BRACED.search(text):
            return Text(text)
        raise _unbound(_named(error)) from None
    except expandvars.InvalidIndirectExpansion as error:
        raise _unbound(_named(error)) from None
    except expandvars.ParameterNullOrNotSet as error:
        name, _, message = str(error.args[0]).partition(": ")
        raise RequiredVariableError(f"variable {name} is not set or empty: {message}", hint=f"set {name}") from None
    except expandvars.ExpandvarsException as error:
        raise _malformed(error) from None
    return _with_files(value, paths, variables, folder)


def _file_variable(path: str, paths: list[str]) -> str:
    paths.append(path)
    return f"{_FILE_VARIABLE}{len(paths) - 1}"


def _with_files(value: str, paths: list[str], variables: _Environ, folder: Path | None) -> Text:
    # Files are read after the expansion, and only those that are still in the text: an unused default need not exist.
    contents = set()
    for number, path in enumerate(paths):
        place = _PLACE.format(number)
        if place in value:
            content = _read(expand_text(path, variables.environ, folder).value, folder)
            contents.add(content)
            value = value.replace(place, content)
    return Text(value, frozenset(variables.used), frozenset(contents))


def _read(path: str, folder: Path | None) -> str:
    file = Path(path).expanduser()
    try:
        content = (folder / file if folder else file).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ExpansionError(f"file {path} is not UTF-8 text") from None
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ExpansionError(f"file {path} cannot be read: {reason}", received=path) from None
    return content.removesuffix("\n").removesuffix("\r")


def _named(error: Exception) -> str:
    return str(error.args[0]).partition(":")[0]


def _unbound(name: str) -> UnboundVariableError:
    return UnboundVariableError(
        f"variable {name} is not set", received=name, hint=f"set it, or write ${{{name}:-default}}"
    )


def _malformed(error: Exception) -> ExpansionError:
    # The package's own texts repeat the whole value, which may be a secret.
    if isinstance(error, expandvars.MissingClosingBrace):
        return ExpansionError("a '${' has no closing '}'")
    if isinstance(error, expandvars.MissingEscapedChar):
        return ExpansionError("ends in a single backslash", hint="write \\\\ for a backslash")
    return ExpansionError("a ${…} in it cannot be understood")


class _Environ(MutableMapping[str, str]):
    """The environment as the expansion sees it: remembers which values were used, and answers for files."""

    def __init__(self, environ: MutableMapping[str, str], paths: list[str]) -> None:
        self.environ = environ
        self.used: set[str] = set()
        self._paths = paths

    def __getitem__(self, name: str) -> str:
        if name.startswith(_FILE_VARIABLE):
            return _PLACE.format(name.removeprefix(_FILE_VARIABLE))
        value = self.environ[name]
        self.used.add(value)
        return value

    def __setitem__(self, name: str, value: str) -> None:
        self.environ[name] = value

    def __delitem__(self, name: str) -> None:
        del self.environ[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.environ)

    def __len__(self) -> int:
        return len(self.environ)


@dataclass(slots=True)
class Expanded:
    """A document's data after expansion."""

    data: Any = None
    secrets: set[str] = field(default_factory=set)
    problems: list[Problem] = field(default_factory=list)


def expand_document(document: Document, data: Any, environ: MutableMapping[str, str]) -> Expanded:
    """Expand every text value (never a key) of a document's data, and gather the secrets in it."""
    result = Expanded()
    result.data = _expand(data, (), document, environ, result)
    result.secrets |= find_secrets(result.data)
    return result


def _expand(value: Any, path: KeyPath, document: Document, environ: MutableMapping[str, str], result: Expanded) -> Any:
    if isinstance(value, dict):
        return {key: _expand(item, (*path, key), document, environ, result) for key, item in value.items()}
    if isinstance(value, list):
        return [_expand(item, (*path, index), document, environ, result) for index, item in enumerate(value)]
    if not isinstance(value, str):
        return value
    try:
        text = expand_text(value, environ, document.folder)
    except ExpansionError as error:
        result.problems.append(document.problem(path, error.message, hint=error.hint))
        return value
    result.secrets |= text.files
    if any(is_secret_key(str(key)) for key in path):
        result.secrets |= text.variables
    return text.value
