"""What is wrong with a document: each problem with its line, its column, and the line itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from penstock.console.parts import box, text
from penstock.service.operations.models import ProblemView

_SHOWN: Final = 100
"""Problems of one document that are listed."""


def where(problem: ProblemView) -> str:
    """`line 4, column 7, options.retry`; as much of it as is known."""
    parts = (
        f"line {problem.line}" if problem.line else "",
        f"column {problem.column}" if problem.line and problem.column else "",
        problem.path,
    )
    return ", ".join(part for part in parts if part)


def excerpt(document: str, problem: ProblemView) -> str:
    """The line with a mark below the column; empty where the problem has no line."""
    lines = document.splitlines()
    if not problem.line or problem.line > len(lines):
        return ""
    line = lines[problem.line - 1].replace("\t", " ")[:200]
    number = f"{problem.line:>4}  "
    mark = f"\n{' ' * (len(number) + problem.column - 1)}^" if problem.column and problem.column <= 200 else ""
    return f"{number}{line}{mark}"


def show_problems(document: str, problems: Sequence[ProblemView], warnings: Sequence[ProblemView]) -> None:
    """Problems, then warnings; a sentence where there are none."""
    if not problems and not warnings:
        text("No problem was found.", "muted")
    for found, tone, name in ((problems, "bad", "Problem"), (warnings, "warn", "Warning")):
        for each in found[:_SHOWN]:
            _show(document, each, tone, name)
        if len(found) > _SHOWN:
            text(f"… and {len(found) - _SHOWN} more", "muted")


def _show(document: str, problem: ProblemView, tone: str, name: str) -> None:
    with box(f"finding {tone}") as here:
        here.props("role=alert" if tone == "bad" else "role=note")
        text(f"{name}: {place}" if (place := where(problem)) else name, "place")
        text(problem.message, "wrap")
        for said, value in (("allowed", problem.allowed and ", ".join(problem.allowed)), ("try", problem.hint)):
            if value and value not in problem.message:
                text(f"{said}: {value}", "small")
        if line := excerpt(document, problem):
            text(line, "excerpt", "pre")
