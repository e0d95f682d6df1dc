"""Problems of a document say where they are, and show the line."""

from __future__ import annotations

import pytest

from penstock.console.spec_problems import excerpt, where
from penstock.service.operations.models import ProblemView

DOCUMENT = "name: a\nsource:\n  type: kafka\n"


@pytest.mark.parametrize(
    ("problem", "said"),
    [
        (ProblemView(message="m", line=3, column=9, path="source.type"), "line 3, column 9, source.type"),
        (ProblemView(message="m", line=3), "line 3"),
        (ProblemView(message="m", column=3, path="name"), "name"),
        (ProblemView(message="m"), ""),
    ],
)
def test_where(problem: ProblemView, said: str) -> None:
    assert where(problem) == said


def test_the_line_is_shown_with_a_mark_below_its_column() -> None:
    assert excerpt(DOCUMENT, ProblemView(message="m", line=3, column=9)) == "   3    type: kafka\n              ^"
    assert excerpt(DOCUMENT, ProblemView(message="m", line=1)) == "   1  name: a"
    assert excerpt(DOCUMENT, ProblemView(message="m", line=9, column=1)) == ""
    assert excerpt(DOCUMENT, ProblemView(message="m", path="name")) == ""
    assert len(excerpt("x" * 10_000, ProblemView(message="m", line=1, column=9_000))) == 206
