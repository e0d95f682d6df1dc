"""What the fields of a configuration model mean to whoever must decide whether a caller may set them.

A model declares its fields by `Annotated`: `url: Annotated[str, Address("url"), REFERABLE]`. `walk` pairs the values
of a model, or of a map that is to become one, with these declarations. A policy looks at declarations only, so that a
new field is covered by what it declares and not by its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from penstock.core.secrets import Secret

Path = tuple[str | int, ...]
"""Keys and list positions from the top of a configuration down to a value."""
Form = Literal["url", "urls", "brokers", "hosts", "database", "notification"]
PluginKind = Literal["filter", "transform", "action"]

MOST_HOSTS: Final = 20
"""Hosts of one list. Each is looked up, and each costs a client a thread and connections."""


@dataclass(frozen=True, slots=True)
class Address:
    """The field is where something connects to.

    `url`: one http(s) URL. `urls`: a comma list of them. `brokers`: a comma list of `host[:port]`. `hosts`: a list of
    `[host, port]` or `host:port`. `database`: one SQLAlchemy URL. `notification`: a list of apprise's addresses.
    """

    form: Form


@dataclass(frozen=True, slots=True)
class Needs:
    """The field holds a file, a program, code or a way around the address guard: a caller needs this permission of
    `api.allow` to set it."""

    permission: str
    what: str
    """How a refusal calls the value."""
    when: Callable[[Any], bool] = bool
    """Which values need it; by default all but empty ones and false."""


@dataclass(frozen=True, slots=True)
class Confidential:
    """The field, or what is in it, may be the reference of a secret."""

    always: bool = False
    """True: the value is a secret whatever it says, so that a caller writes a reference and never the value."""


@dataclass(frozen=True, slots=True)
class Properties:
    """The field holds properties of a client library, of which callers set those that are listed."""

    client: Literal["kafka", "registry"]


@dataclass(frozen=True, slots=True)
class Keys:
    """The field is a map with these declarations by key."""

    of: Mapping[str, tuple[Declaration, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plugins:
    """The field holds a step, or a list of steps, each with the `type` of a plug-in and its `config`."""

    kind: PluginKind


@dataclass(frozen=True, slots=True)
class Plain:
    """The field is called like an address, a file or a secret, and is none."""

    why: str


Declaration = Address | Needs | Confidential | Properties | Keys | Plugins | Plain
_KINDS: Final = (Address, Needs, Confidential, Properties, Keys, Plugins, Plain)

FILE: Final = Needs("file", "a file")
SECRET: Final = Confidential(always=True)
REFERABLE: Final = Confidential()

PRIVATE: Final = Needs("private", "allow_private")
"""For documents from the store the instance sets such a field, by `api.networks`."""


def is_path_of_pem(written: Any) -> bool:
    """Whether a certificate or key is given as the path of a file, and not as the PEM text itself."""
    return isinstance(written, str) and bool(written) and "-----BEGIN" not in written


class Place(NamedTuple):
    """A value of a configuration."""

    path: Path
    value: Any
    declared: tuple[Declaration, ...]
    is_flag: bool = False
    """The field is a truth value."""
    is_given: bool = True
    """False: nobody wrote it, the value is the model's default."""

    def find(self, kind: type[Any]) -> Any:
        """The declaration of this kind; None: there is none."""
        return next((each for each in self.declared if isinstance(each, kind)), None)


def walk(model: type[BaseModel], data: Any, path: Path = ()) -> Iterator[Place]:
    """Every field that has a value, with its declarations, also those of models within. `data` is an object of the
    model, or a map as it was written, of which unknown keys are passed over."""
    if isinstance(data, BaseModel):
        model = type(data)
    for name, info in model.model_fields.items():
        key = info.alias or name
        if isinstance(data, BaseModel):
            value, is_given = getattr(data, name), name in data.model_fields_set
        else:
            value, is_given = data.get(key), True
        if value is None:
            continue
        here = (*path, key)
        declared = declarations_of(info)
        yield Place(here, value, declared, _is_flag(info.annotation), is_given)
        yield from _below(info, declared, value, here)


def declarations_of(info: FieldInfo) -> tuple[Declaration, ...]:
    """Those of a field. A field of the type `Secret` is one by its type."""
    found = tuple(each for each in info.metadata if isinstance(each, _KINDS))
    return (*found, SECRET) if _mentions(info.annotation, Secret) else found


def _below(info: FieldInfo, declared: tuple[Declaration, ...], value: Any, path: Path) -> Iterator[Place]:
    for keys in (each for each in declared if isinstance(each, Keys)):
        if isinstance(value, Mapping):
            for name, item in value.items():
                yield Place((*path, str(name)), item, keys.of.get(str(name), ()))
    if any(isinstance(each, (Keys, Plugins, Plain)) for each in declared):
        return  # plug-ins are known to those above
    inner = model_in(info.annotation)
    if inner is None:
        return
    items: Any = [((), value)]
    if isinstance(value, Mapping) and not _is_model_map(info.annotation, inner):
        items = [((str(key),), item) for key, item in value.items()]
    elif isinstance(value, (list, tuple)):
        items = [((index,), item) for index, item in enumerate(value)]
    for below, item in items:
        if isinstance(item, (BaseModel, Mapping)):
            yield from walk(inner, item, (*path, *below))


def _is_model_map(annotation: Any, inner: type[BaseModel]) -> bool:
    """Whether a map at this field is the model itself, and not a map of models."""
    if annotation is inner:
        return True
    return any(_is_model_map(each, inner) for each in get_args(annotation)) and not _is_dict(annotation)


def _is_dict(annotation: Any) -> bool:
    return getattr(annotation, "__origin__", None) is dict


def model_in(annotation: Any) -> type[BaseModel] | None:
    """The model that an annotation names, if it names one."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for each in get_args(annotation) if (found := model_in(each))), None)


def _is_flag(annotation: Any) -> bool:
    return annotation is bool or any(each is bool or get_args(each)[:1] == (bool,) for each in get_args(annotation))


def _mentions(annotation: Any, wanted: type) -> bool:
    return annotation is wanted or any(_mentions(each, wanted) for each in get_args(annotation))
