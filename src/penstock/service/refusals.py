"""What a spec may not name when it comes through the API: code, files, variables, secrets, addresses."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from penstock.config.documents import Document
from penstock.config.http_settings import Allowed
from penstock.config.problems import Path as KeyPath
from penstock.config.problems import Problem
from penstock.config.secret_values import NOT_KEPT
from penstock.core.errors import PenstockError
from penstock.core.net.guard import AddressGuard
from penstock.core.secrets import find_secrets, is_secret_key
from penstock.kafka.network_probe import addresses
from penstock.kafka.properties import refuse_dangerous
from penstock.service.secrets import owner_of
from penstock.tables.target import DatabaseAddress, database_address

_REFERENCE: Final = "$ref"
_STEPS: Final = ("filters", "filter", "transform", "transforms")
_NEEDS: Final[dict[str, Allowed]] = {"python": "python", "command": "command", "file": "file"}
_CODE: Final = ("callable", "processor")
_REGISTRY: Final = ("basic.auth.", "bearer.auth.token", "bearer.auth.credentials.source")
"""Settings of the registry's client that load nothing and lead nowhere."""
_OPTIONS: Final[dict[str, tuple[str, ...]]] = {
    "sslmode": ("require", "verify-ca", "verify-full", "prefer", "allow", "disable"),
    "sslrootcert": ("system",),
    "charset": ("utf8mb4", "utf8"),
}
"""Of a database's address: what reads no file and names no host."""
_LIST: Final = re.compile(r"[,;\s]+")
_ADDRESSES: Final = ("url", "urls", "webhook_url", "server", "schema_registry_url", "http")

Need = tuple[Allowed, KeyPath, str]


@dataclass(frozen=True, slots=True)
class Limits:
    """What a caller may name."""

    allowed: frozenset[str] = frozenset()
    """Of `api.allow`, where the caller is an admin; nothing for others."""
    outbound: AddressGuard = field(default_factory=AddressGuard)
    environ: MutableMapping[str, str] = field(default_factory=dict)
    """Variables of this machine."""
    named: Mapping[str, str] | None = None
    """Secrets of the store by name; None: what they say does not matter, for nothing is run."""
    owners: frozenset[str] | None = None
    """Projects whose secrets may be referred to; None: anybody's."""
    known: frozenset[str] | None = None
    """Names of the store's secrets; None: whether there is one is found out when it is used."""

    @property
    def variables(self) -> MutableMapping[str, str]:
        """Those that a document may have: none of this machine's leaves it where they are not allowed."""
        return self.environ if "env" in self.allowed else {}

    def may_refer(self, secret: str) -> bool:
        """Whoever refers to a secret can send it to a server of their choice."""
        return self.owners is None or owner_of(secret) in self.owners

    def reference_problem(self, secret: str) -> tuple[str, str] | None:
        """Why a secret cannot be referred to, and what to do; None: it can."""
        if not self.may_refer(secret):
            mine = ", ".join(f"{owner}/NAME" for owner in sorted(self.owners or ()))
            return f"the secret {secret!r} is not one of your project", f"those are called {mine}; its admins set them"
        if self.known is not None and secret not in self.known:
            return f"there is no secret named {secret!r}", NOT_KEPT
        return None


def is_secret_reference(value: object) -> bool:
    """`{$ref: NAME}`: a named secret of the store."""
    return isinstance(value, Mapping) and set(value) == {_REFERENCE}


def refusals(document: Document, limits: Limits) -> Iterator[Problem]:
    """All that the document names and its sender may not."""
    places = [*_walk(document.data), (("source", "config", "connection", "bootstrap"), _cluster(document))]
    yield from _refused(document, limits, _kinds(document.data), places)


def step_refusals(document: Document, limits: Limits, needs: Iterable[Need]) -> Iterator[Problem]:
    """The same for a document of workflow steps, whose kinds have these `needs`."""
    yield from _refused(document, limits, needs, list(_walk(document.data)))


def _refused(
    document: Document, limits: Limits, needs: Iterable[Need], places: Sequence[tuple[KeyPath, Any]]
) -> Iterator[Problem]:
    for need, path, what in (*needs, *_values(document.data)):
        if need not in limits.allowed:
            message = f"{what} is not taken from API callers"
            hint = f"only admins may, and only where PENSTOCK_API_ALLOW lists {need}"
            yield document.problem(path, message, hint=hint)
    for path, message in _written_secrets(document.data):
        yield document.problem(path, message, hint="keep it in the store, and write {$ref: NAME}")
    for path, secret in _references(document.data):
        if wrong := limits.reference_problem(secret):
            yield document.problem(path, wrong[0], hint=wrong[1])
    yield from _client_properties(document)
    yield from _databases(document, limits)
    if "private" not in limits.allowed:
        yield from _addresses(document, limits.outbound, places)


def _kinds(data: dict[str, Any]) -> Iterator[Need]:
    for key in ("dialect", "kind"):
        if data.get(key, "pipeline") != "pipeline":
            yield "import", (key,), f"{key} {data[key]!r}"
    for path, step in _steps(data):
        yield from type_needs(str(step.get("type") or ""), (*path, "type"))


def type_needs(kind: str, path: KeyPath) -> Iterator[Need]:
    """What the type of a plug-in, written at this place, takes."""
    if kind in _NEEDS:
        yield _NEEDS[kind], path, f"the type {kind!r}"
    elif "." in kind or ":" in kind:
        yield "import", path, "an import path"


def _values(data: dict[str, Any]) -> Iterator[Need]:
    for path, value in _walk(data):
        key = str(path[-1]) if path else ""
        if "allow_private" in path and value:
            yield "private", path, "allow_private"
        elif not isinstance(value, str):
            continue
        elif "${file:" in value:
            yield "env-file", path, "${file:…}"
        elif "${" in value or value.startswith("$"):
            yield "env", path, "a variable"
        elif key in _CODE and ("." in value or ":" in value):
            yield "import", path, "an import path"
        elif _is_file(path, value):
            yield "file", path, "a file"


def _is_file(path: KeyPath, value: str) -> bool:
    key = str(path[-1])
    if path[0] == "datahub":
        return key.endswith("_path")
    named = path[:2] == ("options", "dead_letter") and key == "file"
    return named or key == "failed_events_dir" or (key == "url" and value.lower().startswith("sqlite"))


def _steps(data: dict[str, Any]) -> Iterator[tuple[KeyPath, dict[str, Any]]]:
    for key in ("action", "source"):
        if isinstance(data.get(key), dict):
            yield (key,), data[key]
    for key in _STEPS:
        steps = data.get(key)
        if isinstance(steps, list):
            yield from (((key, index), step) for index, step in enumerate(steps) if isinstance(step, dict))


def _written_secrets(data: Any) -> Iterator[tuple[KeyPath, str]]:
    for path, value in _walk(data):
        if isinstance(value, str) and (not value or "${" in value or value.startswith("$")):
            continue  # looked up where it is used, if the caller may have that
        if isinstance(value, (str, int, float)) and not isinstance(value, bool):
            secret = any(is_secret_key(str(key)) for key in path)
            if secret or find_secrets(value):
                yield path, "a secret is written out"


def _references(value: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, str]]:
    if is_secret_reference(value):
        yield path, str(value[_REFERENCE])
        return
    inside = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inside:
        yield from _references(item, (*path, key))


def _client_properties(document: Document) -> Iterator[Problem]:
    for path, value in _walk(document.data, inner=True):
        if not path or not isinstance(value, Mapping):
            continue
        if path[-1] == "consumer_config":
            try:
                refuse_dangerous(value)
            except PenstockError as error:
                named = str(error.received[0]) if isinstance(error.received, Sequence) and error.received else ""
                yield document.problem((*path, named), error.message, hint=error.hint)
        elif path[-1] == "schema_registry_config":
            bad = sorted(str(name) for name in value if not str(name).startswith(_REGISTRY))
            if bad:
                message = f"not taken from API callers: {', '.join(bad)}"
                yield document.problem((*path, bad[0]), message, allowed=_REGISTRY)


def _addresses(document: Document, outbound: AddressGuard, places: Iterable[tuple[KeyPath, Any]]) -> Iterator[Problem]:
    for path, value in places:
        if not isinstance(value, str) or not path:
            continue
        for host, port in _hosts(path, value):
            try:
                outbound.check_host(host, port)
            except PenstockError as error:
                yield document.problem(path, error.message, received=host, hint=error.hint)


def _cluster(document: Document) -> str | None:
    """The cluster that is meant where none is named."""
    here: Any = document.data
    for key in ("source", "config", "connection", "bootstrap"):
        here = here.get(key) if isinstance(here, Mapping) else None
    return "localhost" if here is None else None


def _hosts(path: KeyPath, value: str) -> Iterator[tuple[str, int | None]]:
    """Hosts that are named at a place; brokers with their ports."""
    keys = [key for key in path if isinstance(key, str)]
    try:
        if keys[-1] == "bootstrap":
            yield from _brokers(value)
        elif keys[-1] in _ADDRESSES and _database(keys[-1], value) is None:
            for url in _LIST.split(value):
                parts = urlsplit(url.strip())
                if parts.hostname and parts.scheme != "mock":
                    yield parts.hostname, None
    except ValueError:
        return  # the models say what is wrong with it


def _brokers(bootstrap: str) -> Sequence[tuple[str, int | None]]:
    try:
        return addresses(bootstrap)
    except ValueError:
        return [(bootstrap, None)]  # no host has such a name: it is refused as that


def _database(key: str, value: str) -> DatabaseAddress | None:
    """The address of a database, if it is one."""
    try:
        return database_address(value) if key == "url" else None
    except PenstockError:
        return None


def _databases(document: Document, limits: Limits) -> Iterator[Problem]:
    """Drivers take hosts, sockets and files of keys from all parts of an address."""
    for path, value in _walk(document.data):
        found = _database(str(path[-1]), value) if path and isinstance(value, str) else None
        if found is None or found.is_file:
            continue  # a file is another need
        bad = sorted(name for name, given in found.options.items() if given not in _OPTIONS.get(name, (given,)))
        bad += sorted(name for name in found.options if name not in _OPTIONS)
        if bad:
            yield document.problem(path, f"not taken from API callers: {', '.join(bad)}", allowed=list(_OPTIONS))
        if "private" in limits.allowed:
            continue
        for host in found.hosts or ("localhost",):  # without a host it is a socket of this machine
            try:
                limits.outbound.check_host(host)
            except PenstockError as error:
                yield document.problem(path, error.message, received=host, hint=error.hint)


def _walk(value: Any, path: KeyPath = (), *, inner: bool = False) -> Iterator[tuple[KeyPath, Any]]:
    """Every value at the end of a path; with `inner`, every map instead."""
    if isinstance(value, Mapping):
        if is_secret_reference(value):
            return
        if inner:
            yield path, value
        for key, item in value.items():
            yield from _walk(item, (*path, str(key)), inner=inner)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _walk(item, (*path, index), inner=inner)
    elif not inner:
        yield path, value
