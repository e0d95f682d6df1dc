"""Triggers that come through the API: what callers may not name is refused, secrets that they leave out are kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.config.http_settings import Allowed
from penstock.config.problems import InvalidConfigError, Problem
from penstock.config.references import References, find_references
from penstock.config.secret_values import REFERENCE, SECRET, is_kept, is_reference
from penstock.config.trigger import FieldError, check_kafka
from penstock.config.trigger_fields import SECRET_FIELDS
from penstock.config.trigger_model import KafkaConfiguration
from penstock.core.declarations import MOST_HOSTS, walk
from penstock.core.secrets import MASK, is_secret_key
from penstock.pipeline.policy import Policy, confidential_places
from penstock.service.refusals import Limits

_AT: Final = "kafka_configuration"
_LOG_IN: Final = ("username", "password")
_MOST: Final = {"hosts": MOST_HOSTS, "topics": 1_000}
_DESTINATION: Final = ("ssl", "sasl", "ssl_ca", "properties")
"""With the hosts: what decides where secrets are sent, and who can read them on the way."""
_TOPICS: Final = ("topics", "topic_pattern")
"""What is read by somebody else's credentials."""


@dataclass(slots=True)
class Draft:
    """A configuration in its normal form; secrets are as they were given or stored."""

    configuration: dict[str, Any]
    warnings: list[str] = field(default_factory=list)


def checked_draft(
    given: Mapping[str, Any], limits: Limits, stored: Mapping[str, Any] | None = None, group_id: str | None = None
) -> Draft:
    """The configuration, or `InvalidConfigError` with all that is wrong, each at its field."""
    before = dict(stored or {})
    errors = list(_refusals(given, limits, before))
    kept = _kept(given, before)
    written = {name: value for name, value in given.items() if name not in kept.values}
    base = {name: before[name] for name in ("group_id", "initial_offset_reset_policy") if name in before}
    found = check_kafka(written, base | kept.values, group_id)
    errors += found.errors
    if not errors:
        errors += _sent_elsewhere(found.configuration, before, kept, limits)
    errors += _too_many(found.configuration)
    if not errors:
        errors += _addresses(found.configuration, before, limits)
    if errors:
        raise InvalidConfigError([_problem(error) for error in errors])
    return Draft(found.configuration, [f"{each.field}: {each.message}" for each in found.warnings])


@dataclass(slots=True)
class _Kept:
    """What is not said anew."""

    values: dict[str, Any] = field(default_factory=dict)
    """Fields, as they are stored."""
    secrets: dict[str, Any] = field(default_factory=dict)
    """By their place below the configuration."""


def _kept(given: Mapping[str, Any], stored: Mapping[str, Any]) -> _Kept:
    kept = _Kept()
    for name in SECRET_FIELDS:
        before = stored.get(name)
        wanted = bool(given.get("sasl")) if name in _LOG_IN else True
        if before is not None and wanted and given.get(name, MASK) in (MASK, before):
            kept.values[name] = kept.secrets[name] = before
    properties, known = given.get("properties"), stored.get("properties") or {}
    if isinstance(properties, Mapping):
        again = {
            name: known[name] for name, value in properties.items() if name in known and value in (MASK, known[name])
        }
        kept.secrets |= {f"properties.{name}": value for name, value in again.items() if is_secret_key(name)}
        if again:
            kept.values["properties"] = {**properties, **again}
    return kept


def _refusals(given: Mapping[str, Any], limits: Limits, stored: Mapping[str, Any]) -> Iterator[FieldError]:
    """What is said anew and may not be said, by what the fields declare. Hosts are looked at in their normal form."""
    known = stored.get("properties") or {}
    new = {str(name): value for name, value in given.items() if not _is_same(value, stored.get(name))}
    if isinstance(new.get("properties"), Mapping):
        own = {str(name): value for name, value in new["properties"].items() if not _is_same(value, known.get(name))}
        new["properties"] = own
        yield from _each(own, limits, "properties.")
    yield from _each({name: value for name, value in new.items() if name != "properties"}, limits)
    places = list(walk(KafkaConfiguration, new))
    allows = confidential_places(places)
    for path, secret in find_references(new):
        name = ".".join(map(str, path))
        if not allows(path):
            yield FieldError(name, "the reference of a secret is not taken here")
        elif wrong := limits.reference_problem(secret):
            yield FieldError(name, wrong[0], hint=wrong[1])
    referred = dict(find_references(new))
    resolved = References(limits.secrets(referred)).put(new)
    told = {name: value for name, value in resolved.items() if name not in ("hosts", "hosts_string")}
    yield from _refused(limits.policy(referred), told)


def _is_same(value: Any, before: Any) -> bool:
    """Whether a field says nothing new: it is left out, masked, or as it is stored. References are told anew only where
    they change."""
    return value is None or (value == MASK and before is not None) or (before is not None and value == before)


def _each(new: Mapping[str, Any], limits: Limits, under: str = "") -> Iterator[FieldError]:
    for name, value in new.items():
        place = f"{under}{name}"
        if value == MASK:
            yield FieldError(place, "the mask is not the secret", hint="give the secret itself")
        elif isinstance(value, str) and is_reference(value):
            need: Allowed = "env-file" if "${file:" in value else "env"
            if need not in limits.allowed:
                hint = f"only admins may, and only where PENSTOCK_API_ALLOW lists {need}"
                yield FieldError(place, "a variable is not taken from API callers", hint=hint)
        elif isinstance(value, Mapping) and SECRET in value:
            yield FieldError(place, "an encrypted text is not taken from callers", hint="give the secret itself")
        elif under and isinstance(value, (Mapping, list)) and not is_kept(value):
            yield FieldError(place, "a text, a number or a truth value is wanted")


def _refused(policy: Policy, configuration: Mapping[str, Any]) -> Iterator[FieldError]:
    for path, message, received, hint in policy.refusals(KafkaConfiguration, configuration):
        name = str(path[0]) if path[0] in ("properties", "hosts") else ".".join(map(str, path))
        yield FieldError(name, message, received, hint=hint)


def _sent_elsewhere(
    configuration: Mapping[str, Any], stored: Mapping[str, Any], kept: _Kept, limits: Limits
) -> Iterator[FieldError]:
    """A secret that somebody else gave must not be led to where it was not meant for."""
    hosts = {tuple(host) for host in configuration.get("hosts") or ()}
    same = hosts <= {tuple(host) for host in stored.get("hosts") or ()} and not _changed(
        configuration, stored, _DESTINATION
    )
    other_topics = _changed(configuration, stored, _TOPICS)
    for place, secret in kept.secrets.items():
        named = isinstance(secret, Mapping) and REFERENCE in secret
        looked_up = isinstance(secret, str) and is_reference(secret)
        if (named and limits.may_refer(str(secret[REFERENCE]))) or (looked_up and "env" in limits.allowed):
            continue
        if not same:
            message = "give it again: where it is sent to has changed"
            yield FieldError(place, message, hint="secrets that are kept are not sent elsewhere")
        elif other_topics and (named or looked_up):
            message = "give a secret of your own: the topics have changed, and this one is not yours"
            yield FieldError(place, message, hint="who may refer to it can change the topics")


def _changed(configuration: Mapping[str, Any], stored: Mapping[str, Any], names: tuple[str, ...]) -> bool:
    return any((configuration.get(name) or None) != (stored.get(name) or None) for name in names)


def _too_many(configuration: Mapping[str, Any]) -> Iterator[FieldError]:
    """Each of them is looked up and tried one after the other."""
    for name, most in _MOST.items():
        number = len(configuration.get(name) or ())
        if number > most:
            yield FieldError(name, f"at most {most} are taken", number)


def _addresses(configuration: Mapping[str, Any], stored: Mapping[str, Any], limits: Limits) -> Iterator[FieldError]:
    """Those that are new; others were let through when they were saved, or saved by whoever sits at the machine."""
    known = {(host, str(port)) for host, port in stored.get("hosts") or ()}
    new = [[host, port] for host, port in configuration.get("hosts") or () if (host, str(port)) not in known]
    yield from _refused(limits.policy(), {"hosts": new})


def _problem(error: FieldError) -> Problem:
    path = f"{_AT}.{error.field}" if error.field else _AT
    secret = any(is_secret_key(part) or part in SECRET_FIELDS for part in error.field.split("."))
    return Problem(
        path=path,
        message=error.message,
        received=MASK if secret and error.received is not None else error.received,
        allowed=error.allowed,
        hint=error.hint,
    )
