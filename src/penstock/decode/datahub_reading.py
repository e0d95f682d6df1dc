"""Readers of DataHub's records, written as Python source for one writer schema and compiled.

A reader works on the value's bytes with an index. It takes the fields that the light record has, by their names, skips
all others, and makes the record at once. Slices never complain about their end, so a value that was cut off is noticed
once, behind the last field.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.core.errors import DecodeError
from penstock.datahub.records import DictWrapper, Field, GenericPayloadClass, Kind, required
from penstock.decode.datahub_numbers import LENGTHS, BadBytes, block, length, number
from penstock.decode.framing import HEADER

_FITTING: dict[str, tuple[str, ...]] = {
    "text": ("string", "enum"),
    "integer": ("int", "long"),
    "bytes": ("bytes", "fixed"),
    "fixed": ("bytes", "fixed"),
    "map": ("map",),
}


class Writer:
    """Writes the source of functions for one writer schema.

    Each method adds lines that move `i` behind a value in `b`. A record has a function of its own, so a schema may
    refer to itself.
    """

    def __init__(self, schema: Any) -> None:
        self.names: dict[str, Any] = {
            "L": LENGTHS,
            "number": number,
            "length": length,
            "block": block,
            "BadBytes": BadBytes,
        }
        self._names = 0
        self._lines: list[str] = []
        self._named: dict[str, Any] = schema.get("__named_schemas", {}) if isinstance(schema, dict) else {}
        self._functions: dict[Any, str] = {}
        self._sources: list[str] = []

    def fresh(self, letter: str) -> str:
        """A name that nothing has yet."""
        self._names += 1
        return f"{letter}_{self._names}"

    def constant(self, value: Any) -> str:
        """A name for a value within the source."""
        name = self.fresh("c")
        self.names[name] = value
        return name

    def add(self, indent: int, *lines: str) -> None:
        self._lines += ["    " * indent + line for line in lines]

    def compile(self, name: str) -> Callable[..., Any]:
        """The function of this name, which was the last one written."""
        source = "\n".join([*self._sources, *self._lines])
        exec(compile(source, "<reader of a schema>", "exec"), self.names)  # noqa: S102 - names of fields never become code
        made: Callable[..., Any] = self.names[name]
        return made

    def kind_of(self, schema: Any) -> tuple[str, Any]:
        """The type's name, and the schema with names resolved."""
        if isinstance(schema, list):
            return "union", schema
        if isinstance(schema, str):
            found = self._named.get(schema)
            return (found["type"], found) if found is not None else (schema, {})
        inner = schema["type"]
        return self.kind_of(inner) if isinstance(inner, (dict, list)) else (inner, schema)

    # -- reading ---------------------------------------------------------------------------

    def check(self, schema: Any, kind: Kind, where: str) -> None:
        """Raise `DecodeError` unless values of the schema can be read as this kind."""
        name, found = self.kind_of(schema)
        if name == "union":
            for branch in found:
                if self.kind_of(branch)[0] != "null":
                    self.check(branch, kind, where)
            return
        wanted = _FITTING[kind] if isinstance(kind, str) else ("record",)
        if name not in wanted:
            raise DecodeError(f"the field {where} is of type {name}", received=name, allowed=list(wanted))
        if name == "map":
            self.check(found["values"], "text", f"{where} (its values)")

    def read(self, indent: int, schema: Any, kind: Kind, target: str, default: Any = None) -> None:
        """Lines that put the value into `target`; null reads as the default."""
        name, found = self.kind_of(schema)
        match name:
            case "union":
                self._union(indent, found, lambda at, branch: self.read(at, branch, kind, target), target, default)
            case "null":
                self.add(indent, f"{target} = {self._literal(default)}")
            case "string":
                self.slice(indent)
                self.add(indent, f"{target} = b[i:j].decode()", "i = j")
            case "bytes":
                self.slice(indent)
                self.add(indent, f"{target} = b[i:j]", "i = j")
            case "fixed":
                self.add(indent, f"j = i + {int(found['size'])}", f"{target} = b[i:j]", "i = j")
            case "enum":
                self._small(indent)
                self.add(indent, f"{target} = {self.constant(tuple(found['symbols']))}[n]")
            case "int" | "long":
                self.add(indent, f"{target} = b[i]", f"if {target} < 128:")
                self.add(indent + 1, "i += 1", f"{target} = ({target} >> 1) ^ -({target} & 1)")
                self.add(indent, "else:")
                self.add(indent + 1, f"{target}, i = number(b, i)")
            case "map":
                self._map(indent, found, target)
            case _:
                self.add(indent, f"{target}, i = {self._record_reader(found, kind)}(b, i)")

    def slice(self, indent: int) -> None:
        """Lines that put the ends of a text or of bytes into `i` and `j`."""
        self._small(indent)
        self.add(indent, "j = i + n")

    def _small(self, indent: int) -> None:
        """Lines that put a number, mostly of one byte and never negative, into `n`."""
        self.add(indent, "n = L[b[i]]", "if n < 0:")
        self.add(indent + 1, "n, i = length(b, i)")
        self.add(indent, "else:")
        self.add(indent + 1, "i += 1")

    def _literal(self, value: Any) -> str:
        return repr(value) if value is None or isinstance(value, (int, str, bytes)) else self.constant(value)

    def _union(
        self, indent: int, branches: list[Any], each: Callable[[int, Any], None], target: str | None, default: Any
    ) -> None:
        # The number of one of the first 64 branches is a byte, twice itself.
        if len(branches) <= 64:
            self.add(indent, "n = b[i]", "i += 1")
        else:
            self.add(indent, "n, i = number(b, i)", "n *= 2")
        for index, branch in enumerate(branches):
            self.add(indent, f"{'el' if index else ''}if n == {2 * index}:")
            if self.kind_of(branch)[0] == "null":
                self.add(indent + 1, "pass" if target is None else f"{target} = {self._literal(default)}")
            else:
                each(indent + 1, branch)
        self.add(indent, "else:")
        self.add(indent + 1, "raise BadBytes('a union has no such branch')")

    def _map(self, indent: int, schema: Any, target: str) -> None:
        self.add(indent, f"{target} = {{}}", "m, i = block(b, i)", "while m:")
        self.add(indent + 1, "for _ in range(m):")
        self.slice(indent + 2)
        self.add(indent + 2, "k = b[i:j].decode()", "i = j")
        self.read(indent + 2, schema["values"], "text", "v")
        self.add(indent + 2, f"{target}[k] = v")
        self.add(indent + 1, "m, i = block(b, i)")

    def _record_reader(self, schema: Any, kind: Kind) -> str:
        key = (schema["name"], kind)
        name = self._functions.get(key)
        if name is None:
            assert not isinstance(kind, str)  # noqa: S101 - `check` has seen it
            name = self._functions[key] = self.fresh("read")
            outer, self._lines = self._lines, []
            self.add(0, f"def {name}(b, i):")
            self.fields(1, schema, kind)
            self.add(1, f"return {self.made(kind)}, i")
            self._sources.append("\n".join(self._lines))
            self._lines = outer
        return name

    def fields(self, indent: int, schema: Any, kind: type[DictWrapper]) -> None:
        """Lines that put a record's fields into variables named after them, with `f_` before."""
        known = {field.name: field for field in kind.FIELDS}
        for field in missing(schema, kind):
            self.add(indent, f"f_{field.name} = {self._literal(field.default)}")
        for written in schema["fields"]:
            if written["name"] not in known:
                self.skip(indent, written["type"])
                continue
            field = known[written["name"]]
            self.check(written["type"], field.kind, field.name)
            self.read(indent, written["type"], field.kind, f"f_{field.name}", field.default)

    def made(self, kind: type[DictWrapper]) -> str:
        """The expression that makes the record of its variables."""
        names = {field.name for field in kind.FIELDS}
        given = ", ".join(f"f_{name}" for name in kind.__struct_fields__ if name in names)
        return f"{self.constant(kind)}({given})"

    # -- skipping --------------------------------------------------------------------------

    def skip(self, indent: int, schema: Any) -> None:
        """Lines that leave a value behind."""
        name, found = self.kind_of(schema)
        match name:
            case "union":
                self._union(indent, found, self.skip, None, None)
            case "null":
                self.add(indent, "pass")
            case "string" | "bytes":
                self.slice(indent)
                self.add(indent, "i = j")
            case "boolean":
                self.add(indent, "i += 1")
            case "int" | "long" | "enum":
                self.add(indent, "while b[i] > 127:")
                self.add(indent + 1, "i += 1")
                self.add(indent, "i += 1")
            case "float" | "double" | "fixed":
                size = {"float": 4, "double": 8}.get(name) or int(found["size"])
                self.add(indent, f"i += {size}")
            case "array" | "map":
                self._skip_items(indent, name, found)
            case _:
                self.add(indent, f"i = {self._record_skipper(found)}(b, i)")

    def _skip_items(self, indent: int, name: str, schema: Any) -> None:
        self.add(indent, "m, i = block(b, i)", "while m:")
        self.add(indent + 1, "if m > len(b):")
        self.add(indent + 2, "raise BadBytes('more items than there are bytes')")
        self.add(indent + 1, f"i = {self._item_skipper(name, schema)}(b, i, m)", "m, i = block(b, i)")

    def _item_skipper(self, name: str, schema: Any) -> str:
        # A function of its own: loops within loops must not share their counters.
        function = self.fresh("skip")
        outer, self._lines = self._lines, []
        self.add(0, f"def {function}(b, i, count):")
        self.add(1, "for _ in range(count):")
        if name == "map":
            self.slice(2)
            self.add(2, "i = j")
        self.skip(2, schema["values" if name == "map" else "items"])
        self.add(1, "return i")
        self._sources.append("\n".join(self._lines))
        self._lines = outer
        return function

    def _record_skipper(self, schema: Any) -> str:
        name = self._functions.get(schema["name"])
        if name is None:
            name = self._functions[schema["name"]] = self.fresh("skip")
            outer, self._lines = self._lines, []
            self.add(0, f"def {name}(b, i):")
            for field in schema["fields"]:
                self.skip(1, field["type"])
            self.add(1, "return i")
            self._sources.append("\n".join(self._lines))
            self._lines = outer
        return name


def missing(schema: Any, kind: type[DictWrapper]) -> list[Field]:
    """Fields of the light record that the schema does not have; `DecodeError` where one of them is required."""
    written = {field["name"] for field in schema["fields"]}
    lacking = [field for field in kind.FIELDS if field.name not in written]
    for field in lacking:
        if field.required:
            raise DecodeError(
                f"the schema {schema['name']} is not that of a {kind.FULL_NAME}: it has no field {field.name}",
                received=schema["name"],
            )
    return lacking


def require_record(schema: Any, kind: type[DictWrapper]) -> Any:
    """The record's schema, or `DecodeError`."""
    name = schema.get("type") if isinstance(schema, dict) else schema if isinstance(schema, str) else "union"
    if name != "record":
        raise DecodeError(f"the schema is not that of a {kind.FULL_NAME} but of type {name}", received=name)
    return schema


def reader_of(schema: Any, kind: type[DictWrapper]) -> Callable[[bytes], Any]:
    """A function from a framed value to the light record."""
    record = require_record(schema, kind)
    writer = Writer(schema)
    writer.add(0, "def read(b):")
    writer.add(1, f"i = {HEADER}")
    writer.fields(1, record, kind)
    writer.add(1, "if i > len(b):")
    writer.add(2, "raise BadBytes('the value ends too early')")
    writer.add(1, f"return {writer.made(kind)}")
    return writer.compile("read")


class PlatformEventRecord(DictWrapper, eq=False, gc=False):
    """What is wanted of a platform event; its header is not."""

    name: str
    payload: GenericPayloadClass

    FULL_NAME = "com.linkedin.pegasus2avro.mxe.PlatformEvent"
    FIELDS = (required("name", "text"), required("payload", GenericPayloadClass))
