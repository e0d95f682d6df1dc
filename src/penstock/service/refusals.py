"""What a caller of the API may name, and what is wrong with a document as it was written. What its values mean is
checked on the validated model (`pipeline.policy`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.config.documents import Document
from penstock.config.http_settings import Allowed
from penstock.config.problems import Path as KeyPath
from penstock.config.problems import Problem
from penstock.config.references import find_references, is_secret_reference
from penstock.config.secret_values import NOT_KEPT, is_reference
from penstock.core.declarations import Confidential, Place
from penstock.core.net.guard import AddressGuard
from penstock.core.secrets import MASK, Scrubber, find_secrets, is_secret_key
from penstock.pipeline.policy import Policy, Refusal, confidential_places
from penstock.service.secrets import owner_of

_MOST_ENTRIES: Final = 1_000
"""Entries of one list or map of a document: topics, headers, columns, steps."""

Named = Callable[[], Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Limits:
    """What a caller may name."""

    allowed: frozenset[str] = frozenset()
    """Of `api.allow`, where the caller is an admin; nothing for others."""
    outbound: AddressGuard = field(default_factory=AddressGuard)
    environ: MutableMapping[str, str] = field(default_factory=dict)
    """Variables of this machine."""
    named: Named = dict
    """Gives the store's secrets by name, in plain text; asked where a document refers to one."""
    owners: frozenset[str] | None = None
    """Projects whose secrets may be referred to; None: anybody's."""
    known: frozenset[str] | None = None
    """Names of the store's secrets; None: those of `named`."""

    @property
    def variables(self) -> MutableMapping[str, str] | None:
        """Those that a document may have; None: nothing in it is expanded."""
        if "env" in self.allowed:
            return self.environ
        return {} if "env-file" in self.allowed else None

    def policy(self, referred: Mapping[KeyPath, str] | None = None) -> Policy:
        """What validated models are held to. `referred` names the secrets at their places."""
        return Policy(self.allowed, self.outbound.check_host, referred or {})

    def secrets(self, referred: Mapping[KeyPath, str]) -> dict[str, str]:
        """The values of these secrets, as far as there are any."""
        if not referred:
            return {}
        named = self.named()
        return {name: named[name] for name in set(referred.values()) if name in named}

    def may_refer(self, secret: str) -> bool:
        """Whoever refers to a secret can send it to a server of their choice."""
        return self.owners is None or owner_of(secret) in self.owners

    def reference_problem(self, secret: str) -> tuple[str, str] | None:
        """Why a secret cannot be referred to, and what to do; None: it can."""
        if not self.may_refer(secret):
            mine = ", ".join(f"{owner}/NAME" for owner in sorted(self.owners or ()))
            return f"the secret {secret!r} is not one of your project", f"those are called {mine}; its admins set them"
        known = self.known if self.known is not None else self.named()
        return None if secret in known else (f"there is no secret named {secret!r}", NOT_KEPT)


def written_problems(document: Document, places: Iterable[Place], limits: Limits) -> Iterator[Problem]:
    """What is wrong with a document before anything of it is resolved: variables, references and secrets where they
    must not stand, truth values that are texts, and too much of anything. `places` are those of its models."""
    data, declared = document.data, list(places)
    yield from (document.problem(path, message, received=size) for path, message, size in _too_long(data))
    for need, path, what in _variables(data):
        if need not in limits.allowed:
            hint = f"only admins may, and only where PENSTOCK_API_ALLOW lists {need}"
            yield document.problem(path, f"{what} is not taken from API callers", hint=hint)
    for path, message in _written_secrets(data, declared):
        yield document.problem(path, message, hint="keep it in the store, and write {$ref: NAME}")
    allows = confidential_places(declared)
    for path, secret in find_references(data):
        if not allows(path):
            hint = "references stand where a secret may: passwords, tokens, headers, addresses that hold one"
            yield document.problem(path, "the reference of a secret is not taken here", hint=hint)
        elif wrong := limits.reference_problem(secret):
            yield document.problem(path, wrong[0], hint=wrong[1])
    for place in declared:
        if place.is_flag and _is_no_flag(place.value):
            yield document.problem(place.path, "true or false is wanted, without quotes", received=place.value)


def as_problems(document: Document, refusals: Iterable[Refusal]) -> list[Problem]:
    """Refusals at their places in a document."""
    return [document.problem(path, message, received=value, hint=hint) for path, message, value, hint in refusals]


def without_secrets(problems: Iterable[Problem], secrets: Iterable[str]) -> list[Problem]:
    """Problems that repeat nothing of these secrets (I8)."""
    scrubber = Scrubber(secrets)
    return [_scrubbed(problem, scrubber.scrub) for problem in problems]


def _scrubbed(problem: Problem, scrub: Callable[[str], str]) -> Problem:
    given = {name: getattr(problem, name) for name in problem.__slots__}
    shown = repr(problem.received)
    received = problem.received if scrub(shown) == shown else MASK
    hint = scrub(problem.hint) if problem.hint else None
    allowed = tuple(map(scrub, problem.allowed)) if problem.allowed else None
    return Problem(
        **given | {"message": scrub(problem.message), "received": received, "hint": hint, "allowed": allowed}
    )


def _variables(data: Any) -> Iterator[tuple[Allowed, KeyPath, str]]:
    for path, value in _walk(data):
        if isinstance(value, str) and "${file:" in value:
            yield "env-file", path, "${file:…}"
        elif isinstance(value, str) and is_reference(value):
            yield "env", path, "a variable"


def _written_secrets(data: Any, places: Sequence[Place]) -> Iterator[tuple[KeyPath, str]]:
    always = [place.path for place in places if (found := place.find(Confidential)) is not None and found.always]
    for path, value in _walk(data):
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            continue
        if isinstance(value, str) and (not value or is_reference(value)):
            continue  # looked up where it is used, if the caller may have that
        declared = any(path[: len(at)] == at for at in always)
        if declared or any(is_secret_key(str(key)) for key in path) or find_secrets(value):
            yield path, "a secret is written out"


def _is_no_flag(value: Any) -> bool:
    if isinstance(value, str):
        return not is_reference(value)  # a variable is looked up first, if the caller may have it
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _too_long(value: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, str, int]]:
    if not isinstance(value, (Mapping, list)):
        return
    if len(value) > _MOST_ENTRIES:
        yield path, f"{len(value):,} entries, at most {_MOST_ENTRIES:,} are taken", len(value)
        return
    for key, item in value.items() if isinstance(value, Mapping) else enumerate(value):
        yield from _too_long(item, (*path, key if isinstance(key, int) else str(key)))


def _walk(value: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Every value at the end of a path; references are none."""
    if is_secret_reference(value):
        return
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _walk(item, (*path, str(key)))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _walk(item, (*path, index))
    else:
        yield path, value
