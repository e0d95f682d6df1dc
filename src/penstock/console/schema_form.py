"""Forms made from a JSON Schema: a field for each property, what it means below it, what is wrong with it on it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import orjson
from nicegui import ui
from nicegui.elements.mixins.validation_element import ValidationElement
from nicegui.elements.mixins.value_element import ValueElement

from penstock.console import words
from penstock.core.visible import visible

Kind = Literal["text", "number", "flag", "choice", "object", "secret"]
_KEPT: Final = "One is kept and not shown; write here to replace it."


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """One property of a schema, as a form asks for it."""

    name: str
    label: str
    kind: Kind
    about: str
    choices: tuple[str, ...] = ()
    default: Any = None


def field_of(
    schema: Mapping[str, Any], name: str, *, label: str | None = None, about: str | None = None, secret: bool = False
) -> FieldSpec:
    """What the schema says of a property, unless it is said better."""
    said: Mapping[str, Any] = schema["properties"][name]
    ways = [way for way in said.get("anyOf", [said]) if way.get("type") != "null"]
    choices = tuple(str(choice) for way in ways for choice in way.get("enum", ()))
    about = about or " ".join(str(said.get("description", "")).replace("`", "").split())
    kind: Kind = "secret" if secret else "choice" if choices else _kind(set(_types(ways)))
    return FieldSpec(name, label or name.replace("_", " ").capitalize(), kind, about, choices, said.get("default"))


def _types(ways: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for way in ways:
        named = way.get("type", "object" if "$ref" in way else "string")
        yield from [named] if isinstance(named, str) else named


def _kind(types: set[str]) -> Kind:
    kinds: dict[str, Kind] = {"boolean": "flag", "integer": "number", "object": "object"}
    return kinds.get(types.pop(), "text") if len(types) == 1 else "text"


class Form:
    """Fields of one object; what is shown, what was written, and what is wrong with it."""

    def __init__(self, fields: Sequence[FieldSpec], values: Mapping[str, Any], kept: Collection[str] = ()) -> None:
        """`kept` names the secrets that are there already: they are not shown, and stay unless something is written."""
        self._fields = {each.name: each for each in fields}
        self._shown = {
            each.name: _show(each, values.get(each.name, each.default), is_kept=each.name in kept) for each in fields
        }

    def on_change(self, name: str, act: Callable[[], None]) -> None:
        self._shown[name].on_value_change(lambda _: act())

    def value(self, name: str) -> Any:
        return self._shown[name].value

    def show_if(self, name: str, wanted: bool) -> None:  # noqa: FBT001 - what the method is for
        """A field that is not shown means nothing; what is written in it does not count."""
        self._shown[name].visible = wanted

    def written(self) -> dict[str, Any]:
        """What is said; an empty field says nothing of a secret, and None of everything else."""
        found: dict[str, Any] = {}
        for name, field in self._fields.items():
            shown = self._shown[name]
            value = shown.value if shown.visible else None
            if field.kind == "flag":
                found[name] = bool(value)
            elif value or field.kind != "secret" or not shown.visible:
                found[name] = _typed(field, str(value or ""))
        return found

    def wrong(self, errors: Mapping[str, str]) -> dict[str, str]:
        """Put each error on its field; those that are of none of them are given back."""
        left = dict(errors)
        for name, shown in self._shown.items():
            if isinstance(shown, ValidationElement) and shown.visible:
                said = left.pop(name, None)
                shown.error = None if said is None else visible(said)
        return left


def _show(field: FieldSpec, value: Any, *, is_kept: bool) -> ValueElement[Any]:
    if field.kind == "flag":
        flag = ui.checkbox(field.label, value=bool(value))
        flag.tooltip(field.about)
        return flag
    made: ValidationElement[Any]
    if field.kind == "choice":
        # Nothing is a choice where the property has no value of its own.
        nothing = {} if field.default in field.choices else {"": "none"}
        options = nothing | {choice: choice for choice in field.choices}
        made = ui.select(options, label=field.label, value=value or field.default or "")
    elif field.kind == "object":
        made = ui.textarea(field.label, value=words.json_text(value) if value else "").classes("mono").props("rows=2")
    else:
        written = "" if value is None or field.kind == "secret" else str(value)
        made = ui.input(field.label, value=written, password=field.kind == "secret")
    made.classes("field").props("outlined dense hide-bottom-space")
    made.props["hint"] = f"{_KEPT} {field.about}" if is_kept else field.about
    if field.kind == "secret":
        # What a browser remembers is a person's own password, not a cluster's.
        made.props("autocomplete=new-password")
    return made


def _typed(field: FieldSpec, written: str) -> Any:
    written = written.strip()
    if not written:
        return None
    # What is not of its kind goes on as it is written: whoever checks it says what is wrong.
    if field.kind == "number" and written.lstrip("-").isdecimal():
        return int(written)
    if field.kind == "object":
        try:
            return orjson.loads(written)
        except orjson.JSONDecodeError:
            return written
    return written
