"""Reads WhereHows' properties files as documents: keys with their lines, variables in place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.config.dialects.wherehows_job import JobDocument
from penstock.config.java_properties import Properties
from penstock.config.problems import Problem

_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


class _Lines(dict[str, str]):
    """Tells lines as the YAML parser's maps do."""

    lc: Any = None


@dataclass(frozen=True, slots=True)
class _Places:
    data: dict[str, tuple[int, int]]


def gathered(parsed: Properties, *, joined: bool) -> tuple[dict[str, str], _Lines]:
    """Keys once each: of one written several times the last value, as Java has it, or all, joined by commas."""
    data: dict[str, str] = {}
    lines: dict[str, tuple[int, int]] = {}
    for entry in parsed.entries:
        data[entry.key] = f"{data[entry.key]},{entry.value}" if joined and entry.key in data else entry.value
        lines[entry.key] = (entry.line - 1, 0)
    tree = _Lines(data)
    tree.lc = _Places(lines)
    return data, tree


def resolved(
    document: JobDocument, environ: Mapping[str, str], *, each_part: bool
) -> tuple[dict[str, str], list[Problem]]:
    """Values, or parts of them, that are nothing but a variable are replaced by what it holds; with warnings."""
    warnings: list[Problem] = []

    def resolve(key: str, text: str) -> str:
        match = _VARIABLE.fullmatch(text.strip())
        if match is None:
            return text
        name = match[1] or match[2]
        if name not in environ:
            message = f"variable {name} is not set; the text stays as it is"
            warnings.append(document.problem((key,), message))
        return environ.get(name, text)

    return {
        key: ",".join(resolve(key, part) for part in value.split(",")) if each_part else resolve(key, value)
        for key, value in document.data.items()
    }, warnings
