"""Registries of plug-ins: a name, import path or file path becomes a class of the right kind, imported lazily."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Generic, TypeVar, cast

from penstock.core.errors import PenstockError, PluginError
from penstock.core.loading import did_you_mean, load_installed, load_object
from penstock.core.plugin import Action, Decoder, Filter, PipelineContext, Transform

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class PluginInfo:
    """One line of `penstock plugins`."""

    name: str
    kind: str
    origin: str
    """`built in`, or the distribution that brings it."""
    disabled: str | None = None
    """Why it cannot be used here; None: it can."""


class Registry(Generic[T]):
    """All plug-ins of one kind: built in, from entry points, or named by a path."""

    def __init__(
        self,
        *,
        kind: str,
        base: type[T],
        builtin: Mapping[str, str],
        groups: Iterable[str] = (),
        foreign: Iterable[str] = (),
        adapter: Callable[[type], type[T]] | None = None,
        elsewhere: Mapping[str, str] | None = None,
    ) -> None:
        """`foreign`: other systems' base classes (`module:Class`), and `adapter`, which makes a class of our kind of
        one that extends them; `elsewhere`: known names and what brings them."""
        self.kind = kind
        self.base = base
        self.builtin = dict(builtin)
        self.groups = tuple(groups)
        self.foreign = tuple(foreign)
        self.adapter = adapter
        self.elsewhere = dict(elsewhere or {})

    def resolve(self, type: str, folder: str | None = None) -> type[T]:  # noqa: A002 - the configuration's own word
        """The class that `type` names."""
        if target := self.builtin.get(type):
            return self._checked(type, load_installed(target))
        if "." in type or ":" in type:
            return self._checked(type, load_object(type, folder))
        if entry := self._entry(type):
            return self._checked(type, self._load(type, entry))
        raise self._unknown(type)

    def create(self, type: str, config: Mapping[str, Any] | None, ctx: PipelineContext) -> T:  # noqa: A002 - as above
        """An object of the plug-in; whatever its `create` raises names the plug-in."""
        cls = cast("Any", self.resolve(type, ctx.folder))
        if self.adapter and not issubclass(cls, self.base):
            cls = self.adapter(cls)
        failed = f"the {self.kind} `{type}` could not be created"
        try:
            made = cls.create(dict(config or {}), ctx)
        except PenstockError:
            raise
        except Exception as error:
            raise PluginError(f"{failed}: {_described(error)}", received=type) from error
        if made is None:
            raise PluginError(f"{failed}: its `create` returned None", received=type)
        return cast("T", made)

    def accepts(self, found: object) -> bool:
        """Whether this is a class of the registry's kind."""
        return isinstance(found, type) and issubclass(found, (self.base, *self._foreign_bases()))

    def names(self) -> list[PluginInfo]:
        """Every registered plug-in, each imported to see whether it works here."""
        found = [self._info(name, "built in") for name in self.builtin if not name.startswith("__")]
        seen = set(self.builtin)
        for entry in self._entries():
            if entry.name not in seen:
                seen.add(entry.name)
                found.append(self._info(entry.name, entry.dist.name if entry.dist else entry.value))
        return sorted(found, key=lambda info: info.name)

    def _info(self, name: str, origin: str) -> PluginInfo:
        try:
            self.resolve(name)
        except PluginError as error:
            return PluginInfo(name=name, kind=self.kind, origin=origin, disabled=str(error))
        return PluginInfo(name=name, kind=self.kind, origin=origin)

    def _entries(self) -> list[metadata.EntryPoint]:
        return [entry for group in self.groups for entry in metadata.entry_points(group=group)]

    def _entry(self, name: str) -> metadata.EntryPoint | None:
        found = [entry for entry in self._entries() if entry.name == name]
        values = sorted({entry.value for entry in found})
        if len(values) > 1:
            raise PluginError(
                f"two {self.kind}s are registered as `{name}`: {' and '.join(values)}",
                received=name,
                hint="name the one you mean by its import path",
            )
        return found[0] if found else None

    def _load(self, name: str, entry: metadata.EntryPoint) -> object:
        try:
            return load_installed(entry.value.split("[")[0].strip())
        except PluginError as error:
            extras = f"{entry.dist.name}[{','.join(entry.extras) or name}]" if entry.dist else entry.value
            raise PluginError(
                f"the {self.kind} `{name}` is disabled: {error.message}",
                received=name,
                hint=error.hint or f"install {extras}",
            ) from error

    def _unknown(self, name: str) -> PluginError:
        known = sorted({*self.builtin, *(entry.name for entry in self._entries())})
        hint = self.elsewhere.get(name) or did_you_mean(name, known) or f"known are: {', '.join(known)}"
        places = ", ".join(("the built-in ones", *self.groups))
        return PluginError(
            f"there is no {self.kind} `{name}`; looked at {places}",
            received=name,
            allowed=known,
            hint=hint,
        )

    def _checked(self, name: str, found: object) -> type[T]:
        if not inspect.isclass(found):
            what = "a function" if inspect.isroutine(found) else f"a {type(found).__name__}"
            hint = f"use `type: python` with `callable: {name}`" if callable(found) and self.base is Action else None
            raise PluginError(f"`{name}` is {what}, not a class of kind {self.kind}", received=name, hint=hint)
        if not self.accepts(found):
            raise self._wrong_kind(name, found)
        if inspect.isabstract(found):
            missing = sorted(getattr(found, "__abstractmethods__", ()))
            lacking = ", ".join(f"`{method}`" for method in missing)
            raise PluginError(f"`{name}` cannot be used: {found.__name__} does not define {lacking}", received=name)
        return cast("type[T]", found)

    def _foreign_bases(self) -> tuple[type, ...]:
        # A class that extends one has imported its module; importing it here would make an extra a must.
        pairs = (path.split(":") for path in self.foreign)
        bases = (getattr(sys.modules.get(module), attribute, None) for module, attribute in pairs)
        return tuple(base for base in bases if isinstance(base, type))

    def _wrong_kind(self, name: str, cls: type) -> PluginError:
        for other in (Action, Filter, Transform, Decoder):
            if issubclass(cls, other):
                return PluginError(f"`{name}` is of kind {other.__name__.lower()}, not {self.kind}", received=name)
        return PluginError(
            f"`{name}` is no {self.kind}: {cls.__name__} does not extend {self.base.__name__}",
            received=name,
            hint=f"class {cls.__name__}(penstock.{self.base.__name__})",
        )


def _described(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
