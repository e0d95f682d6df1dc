"""DataHub's registries of plug-ins and events, for code that registers its own classes by name."""

from __future__ import annotations

import inspect
from typing import Any, Generic, TypeVar, cast

from penstock.core.loading import load_object
from penstock.datahub import bases
from penstock.datahub.events import EVENTS

T = TypeVar("T")


class PluginRegistry(Generic[T]):
    """Classes of one kind by name; the errors are those that DataHub's registry raises."""

    def __init__(self, base: type[T]) -> None:
        self._base = base
        self.mapping: dict[str, type[T]] = {}

    def register(self, key: str, cls: type[T], override: bool = False) -> None:  # noqa: FBT001 - DataHub's signature
        self._check(cls)
        if key in self.mapping and not override:
            raise KeyError(f"{key} is registered already")
        if _is_path(key):
            raise KeyError(f"a key has neither `.` nor `:`, which make an import path; received {key}")
        self.mapping[key] = cls

    def get(self, key: str) -> type[T]:
        """The class registered by this name, or the one that an import path names."""
        if _is_path(key):
            found: Any = load_object(key)
            self._check(found)
            return found  # type: ignore[no-any-return]  # checked the line before
        if key not in self.mapping:
            raise KeyError(f"no class is registered as {key}; known are: {', '.join(sorted(self.mapping))}")
        return self.mapping[key]

    def get_optional(self, key: str) -> type[T] | None:
        try:
            return self.get(key)
        except Exception:  # noqa: BLE001 - whatever keeps it from being loaded
            return None

    def is_enabled(self, key: str) -> bool:
        return key in self.mapping

    def _check(self, cls: Any) -> None:
        if inspect.isabstract(cls):
            lacking = ", ".join(sorted(cls.__abstractmethods__))
            raise ValueError(f"{cls.__name__} is abstract, it lacks {lacking}")
        if not (isinstance(cls, type) and issubclass(cls, self._base)):
            raise ValueError(f"a subclass of {self._base.__name__} is wanted, not {cls!r}")


def _is_path(key: str) -> bool:
    return "." in key or ":" in key


action_registry: PluginRegistry[bases.Action] = PluginRegistry(bases.Action)  # type: ignore[type-abstract]  # a base to check against
transformer_registry: PluginRegistry[bases.Transformer] = PluginRegistry(bases.Transformer)  # type: ignore[type-abstract]  # as above
filter_registry: PluginRegistry[bases.Filter] = PluginRegistry(bases.Filter)  # type: ignore[type-abstract]  # as above
event_source_registry: PluginRegistry[bases.EventSource] = PluginRegistry(bases.EventSource)  # type: ignore[type-abstract]  # as above
event_registry: PluginRegistry[bases.Event] = PluginRegistry(bases.Event)  # type: ignore[type-abstract]  # as above

for _type, _class in EVENTS.items():
    event_registry.register(_type, cast("type[bases.Event]", _class))
