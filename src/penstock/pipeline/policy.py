"""What a document that comes through API or console may name. One policy for pipelines, workflows and triggers: it
looks at what the fields of validated models declare (`core.declarations`), never at the names of keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from pydantic import BaseModel, ValidationError

from penstock.act.notify import service_of
from penstock.act.registry import actions
from penstock.config.spec import PipelineSpec
from penstock.core.declarations import (
    MOST_HOSTS,
    PRIVATE,
    Address,
    Confidential,
    Needs,
    Path,
    Place,
    Plugins,
    Properties,
    declarations_of,
    walk,
)
from penstock.core.errors import PenstockError
from penstock.core.loading import load_installed
from penstock.core.net.url import parse_url
from penstock.core.registry import Registry
from penstock.core.secrets import MASK, Secret, is_secret_key
from penstock.filter.registry import filters
from penstock.kafka.network_probe import addresses
from penstock.kafka.properties import refuse_dangerous
from penstock.transform.registry import transforms

CheckHost = Callable[[str, int | None], object]
"""Resolves a host and raises where it must not be contacted."""

_REGISTRIES: Final[dict[str, Registry[Any]]] = {"filter": filters, "transform": transforms, "action": actions}
_STEP_MODELS: Final = {
    "python": "penstock.workflows.steps.python:PythonStepConfig",
    "command": "penstock.workflows.steps.command:CommandStepConfig",
    "http": "penstock.workflows.steps.http:HttpStepConfig",
}
_MAIN_FIELDS: Final = {"python": "callable", "command": "argv", "http": "url", "action": "type"}
_REGISTRY_CLIENT: Final = ("basic.auth.", "bearer.auth.token", "bearer.auth.credentials.source")
"""Settings of the registry's client that load nothing and lead nowhere."""
_DATABASE_OPTIONS: Final[dict[str, tuple[str, ...]]] = {
    "sslmode": ("require", "verify-ca", "verify-full", "prefer", "allow", "disable"),
    "sslrootcert": ("system",),
    "charset": ("utf8mb4", "utf8"),
}
"""Of a database's address: what reads no file and names no host."""
_HOSTED: Final = frozenset(
    ["json", "jsons", "xml", "xmls", "form", "forms", "gotify", "gotifys", "mmost", "mmosts", "rocket", "rockets"]
)
_SERVICES: Final = _HOSTED | frozenset(["slack", "discord", "tgram", "pagerduty", "opsgenie", "pover", "zulip"])
"""Notification services that are asked over HTTP only, so that the address guard sees every request; those of `_HOSTED`
at a host that their address names."""
_FILE_ARGUMENT: Final = "template"
"""Of a notification's address: names a file."""
_CREDENTIALS: Final = ("sasl.username",)
"""Client properties that may be references besides those whose names say that they are secrets."""


class Refusal(NamedTuple):
    """What a caller may not name, and what to do about it."""

    path: Path
    message: str
    received: object = None
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """A plug-in or a step of a workflow, as it was written or as it was resolved."""

    kind: str
    """Kind of plug-in; or `http`, `python` and `command` of workflows."""
    type: str
    """Of a plug-in: its registered name or import path."""
    config: Any
    path: Path
    """Where the type stands."""
    config_path: Path
    main: tuple[str, Path] | None = None
    """A field of the configuration that stands elsewhere, and where."""

    def place(self, place: Place) -> Place:
        """A place of its configuration as a place of the document."""
        if self.main is not None and place.path[:1] == (self.main[0],):
            return place._replace(path=(*self.main[1], *place.path[1:]))
        return place._replace(path=(*self.config_path, *place.path))


@dataclass(frozen=True, slots=True)
class Policy:
    """What may be named. An empty one lets nothing but public addresses pass."""

    allowed: frozenset[str]
    """Of `api.allow`."""
    check_host: CheckHost
    referred: Mapping[Path, str] = field(default_factory=dict)
    """Names of the secrets that were put in place of references, which refusals must not repeat."""
    hides: bool = False
    """Any value may be a secret: refusals repeat none."""

    # -- what is looked at -----------------------------------------------------------------

    def refusals(self, model: type[BaseModel], data: Any) -> Iterator[Refusal]:
        """All that a model, or a map that cannot become one, names and may not."""
        for place in walk(model, data):
            yield from self._of_place(place)
            for step in plugin_steps(place):
                yield from self.step_refusals(step)

    def step_refusals(self, step: Step) -> Iterator[Refusal]:
        """The same for one step. Code that is not allowed is not loaded."""
        refused = list(self.type_refusals(step))
        yield from refused
        model = None if refused else config_model(step)
        if model is None or not isinstance(step.config, Mapping):
            return
        for place in walk(model, _parsed(model, step.config)):
            yield from self._of_place(step.place(place))

    def type_refusals(self, step: Step) -> Iterator[Refusal]:
        """Whether a step's type, as such, needs a permission: types that are not built in, and those that cannot do
        without a file, a program or code."""
        if step.kind in _REGISTRIES and step.type not in _REGISTRIES[step.kind].builtin:
            if not step.type or "import" in self.allowed:
                return  # an empty one is the model's to refuse
            yield self._needed("import", step.path, f"the type {step.type!r}, which is not built in,")
            return
        for permission in required_permissions(config_model(step)):
            if permission not in self.allowed:
                yield self._needed(permission, step.path, f"the type {step.type!r}")

    # -- one value -------------------------------------------------------------------------

    def _of_place(self, place: Place) -> Iterator[Refusal]:
        for declared in place.declared:
            if isinstance(declared, Needs):
                if place.is_given and declared.permission not in self.allowed and declared.when(place.value):
                    yield self._needed(declared.permission, place.path, declared.what)
            elif isinstance(declared, Properties):
                yield from _properties(place, declared)
            elif isinstance(declared, Address):
                yield from self._address(place, declared)

    def _address(self, place: Place, declared: Address) -> Iterator[Refusal]:
        value = place.value.reveal() if isinstance(place.value, Secret) else place.value
        if not value or (not place.is_given and not _is_this_machine(value)):
            return  # a default of Penstock's own is not a caller's choice; but this machine is never offered
        if declared.form == "database":
            yield from self._database(place, value)
            return
        try:
            hosts = _HOSTS[declared.form](value)
        except (ValueError, PenstockError) as error:
            said = error.message if isinstance(error, PenstockError) else str(error)
            yield self._refused(place, said, None)
            return
        yield from self._hosts(place, hosts)

    def _database(self, place: Place, value: Any) -> Iterator[Refusal]:
        try:
            from penstock.tables.target import database_address  # noqa: PLC0415 - imports SQLAlchemy, which few commands need

            found = database_address(str(value))
        except PenstockError as error:
            yield self._refused(place, error.message, None)
            return
        if found.is_file:
            if "file" not in self.allowed:
                yield self._needed("file", place.path, "a file")
            return
        bad = [name for name, given in found.options.items() if given not in _DATABASE_OPTIONS.get(name, ())]
        if bad:
            known = ", ".join(_DATABASE_OPTIONS)
            yield self._refused(place, f"not taken from API callers: {', '.join(sorted(bad))}", f"allowed: {known}")
        yield from self._hosts(place, [(host, None) for host in found.hosts or ("localhost",)])  # without one: a socket

    def _hosts(self, place: Place, hosts: Sequence[tuple[str, int | None]]) -> Iterator[Refusal]:
        if len(hosts) > MOST_HOSTS:
            yield Refusal(place.path, f"at most {MOST_HOSTS} hosts are taken", len(hosts))
            return
        if "private" in self.allowed:
            return
        for host, port in hosts:
            try:
                self.check_host(host, port)
            except PenstockError as error:
                unknown = "has no address" in error.message
                yield self._refused(place, error.message, error.hint, host, unknown=unknown)

    def _refused(
        self, place: Place, message: str, hint: str | None, host: str | None = None, *, unknown: bool = False
    ) -> Refusal:
        name = self._secret_at(place.path)
        if name is None and not self.hides:
            return Refusal(place.path, message, host, hint)
        # I8: what a secret says is not repeated, nor are the addresses behind it.
        if host is not None:
            message = "has no address" if unknown else "is not a public address"
        said = f"what the secret {name!r} says: {message}" if name is not None else message
        return Refusal(place.path, said, MASK, hint)

    def _secret_at(self, path: Path) -> str | None:
        return next((name for at, name in self.referred.items() if at[: len(path)] == path), None)

    def _needed(self, permission: str, path: Path, what: str) -> Refusal:
        hint = f"only admins may, and only where PENSTOCK_API_ALLOW lists {permission}"
        return Refusal(path, f"{what} is not taken from API callers", None, hint)


# -- plug-ins ------------------------------------------------------------------------------


def plugin_steps(place: Place) -> Iterator[Step]:
    """The plug-ins at a place, if it is one of plug-ins."""
    declared = place.find(Plugins)
    if declared is None:
        return
    many = isinstance(place.value, (list, tuple))
    for index, each in enumerate(place.value if many else (place.value,)):
        path = (*place.path, index) if many else place.path
        if isinstance(each, BaseModel):
            each = each.model_dump()  # noqa: PLW2901 - the same step
        if isinstance(each, Mapping):
            written = each.get("type")
            kind = written if isinstance(written, str) else ""
            config = {} if each.get("config") is None else each["config"]
            yield Step(declared.kind, kind, config, (*path, "type"), (*path, "config"))


def workflow_step(step: Mapping[str, Any], path: Path) -> Step | None:
    """A step of a workflow document; None where it has no kind, which its model says."""
    kind = next((each for each in _MAIN_FIELDS if step.get(each) is not None), None)
    config = step.get("config")
    if kind is None or not isinstance(config, Mapping | None):
        return None
    main, own = step[kind], dict(config or {})
    if kind == "action":
        written = main if isinstance(main, str) else ""
        return Step("action", written, own, (*path, kind), (*path, "config"))
    if kind == "python":
        return Step(kind, kind, {"callable": main, "config": own}, (*path, kind), path, ("callable", (*path, kind)))
    merged = {_MAIN_FIELDS[kind]: main} | own
    return Step(kind, kind, merged, (*path, kind), (*path, "config"), (_MAIN_FIELDS[kind], (*path, kind)))


def config_model(step: Step) -> type[BaseModel] | None:
    """The model of a built-in type's configuration; None: there is none, or the type is not built in."""
    if step.kind in _STEP_MODELS:
        found: Any = load_installed(_STEP_MODELS[step.kind])
        return found if isinstance(found, type) else None
    registry = _REGISTRIES.get(step.kind)
    if registry is None or step.type not in registry.builtin:
        return None
    model: type[BaseModel] | None = getattr(registry.resolve(step.type), "config_model", None)
    return model


def required_permissions(model: type[BaseModel] | None) -> list[str]:
    """Those without which no configuration of this model can be given."""
    fields = model.model_fields.values() if model is not None else ()
    required = [each for info in fields if info.is_required() for each in declarations_of(info)]
    return [each.permission for each in required if isinstance(each, Needs) and each.when is bool]


def _parsed(model: type[BaseModel], config: Mapping[str, Any]) -> Any:
    """The configuration as its model; as it was written where it cannot become one, which is said elsewhere."""
    try:
        return model.model_validate(dict(config))
    except (ValidationError, PenstockError):
        return config


# -- the instance decides ------------------------------------------------------------------


def with_networks(spec: PipelineSpec, networks: Sequence[str]) -> PipelineSpec:
    """The spec of a document from the store with `allow_private` as the instance has it: these networks and public
    addresses, wherever a field of the spec or of its plug-ins asks. What an admin was allowed to open stays open."""
    for place in walk(PipelineSpec, spec):
        if PRIVATE in place.declared and not (place.is_given and place.value is True):
            spec = _with_value(spec, place.path, list(networks))
    [step] = plugin_steps(Place(("action",), spec.action, (Plugins("action"),)))
    config = opened_config(step, networks)
    return spec.model_copy(update={"action": spec.action.model_copy(update={"config": config})})


def opened_config(step: Step, networks: Sequence[str]) -> dict[str, Any]:
    """The same for the configuration of one step."""
    config, model = dict(step.config), config_model(step)
    for place in walk(model, _parsed(model, config)) if model is not None else ():
        if PRIVATE in place.declared and not (place.is_given and place.value is True):
            config = _with_value(config, place.path, list(networks))
    return config


def _with_value(data: Any, path: Path, value: Any) -> Any:
    """A copy of a model or map with a value at a path."""
    key, *rest = path
    inner = getattr(data, str(key)) if isinstance(data, BaseModel) else data.get(key)
    new = _with_value(inner, tuple(rest), value) if rest else value
    return data.model_copy(update={str(key): new}) if isinstance(data, BaseModel) else {**data, key: new}


# -- references ----------------------------------------------------------------------------


def confidential_places(places: Iterable[Place]) -> Callable[[Path], bool]:
    """Whether a path is one at which a model allows references."""
    prefixes, properties = set[Path](), set[Path]()
    for place in places:
        if place.find(Confidential) is not None:
            prefixes.add(place.path)
        elif place.find(Properties) is not None:
            properties.add(place.path)

    def allows(path: Path) -> bool:
        if any(path[:end] in prefixes for end in range(1, len(path) + 1)):
            return True
        return path[:-1] in properties and (is_secret_key(str(path[-1])) or path[-1] in _CREDENTIALS)

    return allows


def written_places(model: type[BaseModel], data: Any) -> Iterator[Place]:
    """Every place of a document as it was written, with those of its plug-ins."""
    for place in walk(model, data):
        yield place
        for step in plugin_steps(place):
            yield from step_places(step)


def step_places(step: Step) -> Iterator[Place]:
    """Every place of a step's configuration as it was written. A plug-in that is not built in declares nothing: there,
    keys that are named like secrets are places of secrets."""
    model = config_model(step)
    if not isinstance(step.config, Mapping):
        return
    if model is not None:
        yield from (step.place(place) for place in walk(model, step.config))
        return
    for path, value in _leaves(step.config):
        declared = (Confidential(),) if any(is_secret_key(str(key)) for key in path) else ()
        yield Place((*step.config_path, *path), value, declared)


def _leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    yield path, value
    items = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from _leaves(item, (*path, key if isinstance(key, int) else str(key)))


# -- forms of addresses --------------------------------------------------------------------


def _properties(place: Place, declared: Properties) -> Iterator[Refusal]:
    if not isinstance(place.value, Mapping):
        return
    if declared.client == "kafka":
        try:
            refuse_dangerous(place.value)
        except PenstockError as error:
            named = str(error.received[0]) if isinstance(error.received, Sequence) and error.received else ""
            yield Refusal((*place.path, named), error.message, None, error.hint)
        return
    bad = sorted(str(name) for name in place.value if not str(name).startswith(_REGISTRY_CLIENT))
    if bad:
        allowed = ", ".join(f"{name}…" if name.endswith(".") else name for name in _REGISTRY_CLIENT)
        message = f"not taken from API callers: {', '.join(bad)}"
        yield Refusal((*place.path, bad[0]), message, None, f"allowed: {allowed}")


_Hosts = list[tuple[str, int | None]]


def _url(value: Any) -> _Hosts:
    """One URL is one URL, parsed as the library that sends the request parses it."""
    parsed = parse_url(str(value))
    return [(parsed.raw_host or "", None)]


def _urls(value: Any) -> _Hosts:
    found: _Hosts = []
    for url in str(value).split(","):
        if not url.strip().startswith("mock://"):
            found += _url(url.strip())
    return found


def _brokers(value: Any) -> _Hosts:
    return [(place.host, place.port) for place in addresses(str(value))]


def _pairs(value: Any) -> _Hosts:
    found: _Hosts = []
    for each in value:
        found += [(str(each[0]), int(each[1]))] if isinstance(each, (list, tuple)) else _brokers(each)
    return found


def _notifications(value: Any) -> _Hosts:
    found: _Hosts = []
    for url in [value] if isinstance(value, str) else value:
        scheme = str(url).partition(":")[0].lower()
        service = service_of(str(url)) if scheme in _SERVICES else None
        if service is None:
            raise ValueError(f"an address of one of these services is wanted: {', '.join(sorted(_SERVICES))}")
        if getattr(service, _FILE_ARGUMENT, None):
            raise ValueError(f"{_FILE_ARGUMENT} names a file, which is not taken from API callers")
        if scheme in _HOSTED:
            found.append((str(service.host or ""), None))
    return found


_HOSTS: Final[dict[str, Callable[[Any], _Hosts]]] = {
    "url": _url,
    "urls": _urls,
    "brokers": _brokers,
    "hosts": _pairs,
    "notification": _notifications,
}


def _is_this_machine(value: Any) -> bool:
    return isinstance(value, str) and "localhost" in value
