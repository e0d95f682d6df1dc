"""Fenced blocks of the README and the docs, with what their fences say about them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])

_FENCE = re.compile(
    r"^(?P<ticks>```+)(?P<language>\w*)[ ]*(?:\{(?P<attributes>[^}\n]*)\})?[ ]*$(?P<code>.*?)^(?P=ticks)$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Snippet:
    """One block. Attributes are written `{ .needs-broker }` or `{ .as=orders.yaml }` behind the language."""

    page: Path
    line: int
    language: str
    attributes: dict[str, str]
    code: str

    @property
    def id(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def snippets() -> list[Snippet]:
    return [snippet for page in PAGES for snippet in _of_page(page)]


def _of_page(page: Path) -> list[Snippet]:
    text = page.read_text()
    found = []
    for match in _FENCE.finditer(text):
        pairs = (part.removeprefix(".").partition("=") for part in (match["attributes"] or "").split())
        attributes = {name: value for name, _, value in pairs}
        line = text.count("\n", 0, match.start()) + 1
        found.append(Snippet(page, line, match["language"], attributes, match["code"].strip("\n") + "\n"))
    return found
