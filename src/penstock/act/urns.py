"""Names and kinds of things in a catalogue, read from their URNs."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote

_SYSTEM = "__datahub_system"
_KINDS = {"dataFlow": "flow", "dataJob": "task", "schemaField": "column", "corpuser": "user", "corpGroup": "group"}


@dataclass(frozen=True, slots=True)
class Urn:
    """`urn:li:<type>:<id>`, where the id is one text or several parts in brackets."""

    text: str
    type: str
    parts: tuple[str, ...]

    @property
    def name(self) -> str:
        """What people call it: the dataset's name without platform and environment, a task's own name, and so on."""
        if self.type in ("dataset", "dataFlow", "dataJob", "schemaField", "chart", "dashboard") and len(self.parts) > 1:
            return unquote(self.parts[1])
        plain = unquote(",".join(self.parts))
        return "System" if plain == _SYSTEM else plain

    @property
    def kind(self) -> str:
        """What it is, with the platform it is on where the URN tells."""
        word = _KINDS.get(self.type, self.type)
        owner = self.parts[0] if len(self.parts) > 1 else ""
        if self.type == "dataJob":
            owner = parse_urn(owner).parts[0]
        elif self.type == "dataset":
            owner = parse_urn(owner).name
        return word if self.type == "schemaField" or not owner else f"{owner} {word}"

    @property
    def parent(self) -> Urn:
        """What a column belongs to."""
        return parse_urn(self.parts[0])


def parse_urn(text: str) -> Urn:
    """The URN's pieces; a text that is none is its own name."""
    pieces = text.split(":", 3)
    if len(pieces) < 4 or pieces[:2] != ["urn", "li"]:
        return Urn(text, "", (text,))
    kind, rest = pieces[2], pieces[3]
    inner = rest[1:-1] if rest.startswith("(") and rest.endswith(")") else None
    return Urn(text, kind, (rest,) if inner is None else tuple(_split(inner)))


def _split(inner: str) -> list[str]:
    """At commas that are in no brackets."""
    parts, depth = [""], 0
    for letter in inner:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts
