"""Filters answered from bytes: which step, if any, drops a record, found out before the record is made.

A step says what it wants of an event type: None lets all pass, else any of the predicates must match. The answer is the
number of the step that drops the record, or `KEPT`. Only what has to be read for the answer is looked at: whether the
rest of a dropped record could be decoded is never asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from penstock.core.plugin import Wanted
from penstock.core.predicate import compile_predicate
from penstock.datahub.records import DictWrapper, Field
from penstock.decode.datahub_reading import Writer, missing, require_record
from penstock.decode.framing import HEADER

KEPT = -1

Judge = Callable[[bytes], int]
"""From a framed value, or a payload, to the step that drops it."""


def dropped_by(steps: Sequence[Wanted], event_type: str) -> int:
    """The first step that lets nothing of this type pass, whatever is in it."""
    found = enumerate(step(event_type) for step in steps)
    return next((number for number, wanted in found if wanted is not None and not wanted), KEPT)


def looks_into(steps: Sequence[Wanted], event_type: str) -> bool:
    """Whether what is in an event of this type decides about it."""
    return any(step(event_type) for step in steps)


def judge_of(schema: Any, kind: type[DictWrapper], steps: Sequence[Wanted], event_type: str) -> Judge:
    """For framed values of one schema: read as far as the steps need it. `DecodeError` where the schema is another
    record's."""
    record = require_record(schema, kind)
    known = {field.name: field for field in kind.FIELDS}
    absent = {field.name: field.default for field in missing(record, kind)}
    writer = Writer(schema)
    tests = _Tests(writer, steps, event_type)
    writer.add(0, "def judge(b):")
    writer.add(1, f"i = {HEADER}")
    waiting = {name for name in tests.fields if name in known and name not in absent}
    for name in tests.fields.keys() - waiting:
        tests.settle(name, absent.get(name))
    for written in record["fields"]:
        if not waiting:
            break
        name = written["name"]
        if name not in waiting:
            writer.skip(1, written["type"])
            continue
        waiting.discard(name)
        writer.check(written["type"], known[name].kind, name)
        _read(writer, tests, written["type"], known[name])
        # A value that was cut off is not dropped for what its end does not say.
        tests.answer(name, f"if i <= len(b) else {KEPT}")
    writer.add(1, f"return {KEPT}")
    return writer.compile("judge")


def _read(writer: Writer, tests: _Tests, schema: Any, field: Field) -> None:
    if writer.kind_of(schema)[0] == "string" and all(_is_text(test.want) for test in tests.fields[field.name]):
        # Equal bytes are equal texts.
        writer.slice(1)
        writer.add(1, "f = b[i:j]", "i = j")
        tests.test(field.name, as_bytes=True)
    else:
        writer.read(1, schema, field.kind, "f", field.default)
        tests.test(field.name)


def payload_judge_of(kind: type[DictWrapper], steps: Sequence[Wanted], event_type: str) -> Judge:
    """For JSON payloads: read just the fields that the steps need. Raises where one of them is not as it should be:
    then the whole event decides."""
    written = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    writer = Writer(None)
    tests = _Tests(writer, steps, event_type)
    wanted = {name: f"f{number}" for number, name in enumerate(tests.fields) if name in written}
    shape: list[Any] = []
    for name, attribute in wanted.items():
        field = written[name]
        shape.append((attribute, field.type) if field.required else (attribute, field.type, field.default))
    shape.sort(key=len)
    rename = {attribute: name for name, attribute in wanted.items()}
    part = msgspec.defstruct("Part", shape, rename=rename, gc=False)
    writer.add(0, "def judge(b):")
    writer.add(1, f"part = {writer.constant(msgspec.json.Decoder(part).decode)}(b)")
    for name in tests.fields:
        if name in wanted:
            # Empty parameters count as none.
            writer.add(1, f"f = part.{wanted[name]}" + (" or None" if name == "parameters" else ""))
            tests.test(name)
            tests.answer(name)
        else:
            tests.settle(name, None)
    writer.add(1, f"return {KEPT}")
    return writer.compile("judge")


@dataclass(slots=True)
class _Test:
    """What one predicate wants of one field."""

    step: int
    want: Any
    result: str = ""
    """The variable that holds the answer, once it is known."""


class _Tests:
    """The tests of all steps, by field; writes their lines, and those that answer as soon as an answer is certain."""

    def __init__(self, writer: Writer, steps: Sequence[Wanted], event_type: str) -> None:
        self.fields: dict[str, list[_Test]] = {}
        self._writer = writer
        self._steps: dict[int, list[list[_Test]]] = {}
        for number, step in enumerate(steps):
            self._steps[number] = predicates = []
            for wanted in step(event_type) or ():
                tests = {name: _Test(number, want) for name, want in wanted.items()}
                predicates.append(list(tests.values()))
                for name, test in tests.items():
                    self.fields.setdefault(name, []).append(test)

    def test(self, field: str, *, as_bytes: bool = False) -> None:
        """Lines that try the field's value, which is in `f`."""
        for test in self.fields[field]:
            self._set(test, self._expression(test.want, as_bytes=as_bytes))

    def settle(self, field: str, value: Any) -> None:
        """Tests of a field that no record has: one answer for all."""
        for test in self.fields[field]:
            self._set(test, str(compile_predicate(test.want)(value)))
        self.answer(field)

    def _set(self, test: _Test, expression: str) -> None:
        test.result = self._writer.fresh("t")
        self._writer.add(1, f"{test.result} = {expression}")

    def _expression(self, want: Any, *, as_bytes: bool) -> str:
        if not _is_text(want):
            return f"{self._writer.constant(compile_predicate(want))}(f)"
        texts = [want] if isinstance(want, str) else want
        made = [text.encode("utf-8", "surrogatepass") if as_bytes else text for text in texts]
        if len(made) == 1:
            return f"f == {self._writer.constant(made[0])}"
        return f"type(f) in (str, bytes) and f in {self._writer.constant(frozenset(made))}"

    def answer(self, field: str, provided: str = "") -> None:
        """Lines that return a step which cannot let the record pass, by all that is known now."""
        for step in sorted({test.step for test in self.fields[field]}):
            parts = [" and ".join(test.result for test in tests if test.result) for tests in self._steps[step]]
            if all(parts):
                self._writer.add(1, f"if not ({' or '.join(parts)}):")
                self._writer.add(2, f"return {step} {provided}".rstrip())


def _is_text(want: Any) -> bool:
    return isinstance(want, str) or (isinstance(want, list) and all(isinstance(each, str) for each in want))
