"""Triggers that come through the API: what callers may not name is refused, secrets that they leave out are kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.config.http_settings import Allowed
from penstock.config.problems import InvalidConfigError, Problem
from penstock.config.secret_values import REFERENCE, SECRET, is_kept, is_reference
from penstock.config.trigger import FieldError, check_kafka
from penstock.config.trigger_fields import SECRET_FIELDS
from penstock.core.errors import PenstockError
from penstock.core.secrets import MASK, is_secret_key
from penstock.kafka.properties import refuse_dangerous
from penstock.service.refusals import Limits

_AT: Final = "kafka_configuration"
_LOG_IN: Final = ("username", "password")
_FILES: Final = ("ssl_ca", "ssl_certificate", "ssl_key")
_MOST: Final = {"hosts": 20, "topics": 1_000}
_DESTINATION: Final = ("ssl", "sasl", "ssl_ca", "properties")
"""With the hosts: what decides where secrets are sent, and who can read them on the way."""


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
    if not errors and "private" not in limits.allowed:
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
    for name, value in given.items():
        if value in (MASK, None) or (value == stored.get(name) and not is_kept(value)):
            if value == MASK and stored.get(name) is None:
                yield FieldError(str(name), "the mask is not the secret", hint="give the secret itself")
            continue
        if isinstance(value, str) and is_reference(value):
            need: Allowed = "env-file" if "${file:" in value else "env"
            yield from _needed(str(name), need, "a variable", limits)
        elif isinstance(value, Mapping) and SECRET in value:
            yield FieldError(str(name), "an encrypted text is not taken from callers", hint="give the secret itself")
        elif is_kept(value):
            if value != stored.get(name):
                yield from _referred(str(name), value, limits)
        elif name in _FILES and isinstance(value, str) and value and "-----BEGIN" not in value:
            yield from _needed(str(name), "file", "a file", limits)
        elif name == "properties" and isinstance(value, Mapping):
            yield from _properties(value, limits, stored.get("properties") or {})


def _needed(name: str, need: Allowed, what: str, limits: Limits) -> Iterator[FieldError]:
    if need not in limits.allowed:
        hint = f"only admins may, and only where PENSTOCK_API_ALLOW lists {need}"
        yield FieldError(name, f"{what} is not taken from API callers", hint=hint)


def _referred(name: str, value: Mapping[str, Any], limits: Limits) -> Iterator[FieldError]:
    secret = str(value[REFERENCE])
    if wrong := limits.reference_problem(secret):
        yield FieldError(name, wrong[0], hint=wrong[1])


def _properties(given: Mapping[str, Any], limits: Limits, stored: Mapping[str, Any]) -> Iterator[FieldError]:
    new = {name: value for name, value in given.items() if stored.get(name) != value or name not in stored}
    try:
        refuse_dangerous({name: value for name, value in new.items() if value != MASK or name not in stored})
    except PenstockError as error:
        yield FieldError("properties", error.message, hint=error.hint)
    for name, value in new.items():
        place = f"properties.{name}"
        if value == MASK and name not in stored:
            yield FieldError(place, "the mask is not the secret", hint="give the secret itself")
        elif isinstance(value, str) and is_reference(value):
            yield from _needed(place, "env-file" if "${file:" in value else "env", "a variable", limits)
        elif is_kept(value) and REFERENCE in value:
            yield from _referred(place, value, limits)
        elif isinstance(value, (Mapping, list)):
            yield FieldError(place, "a text, a number or a truth value is wanted")


def _sent_elsewhere(
    configuration: Mapping[str, Any], stored: Mapping[str, Any], kept: _Kept, limits: Limits
) -> Iterator[FieldError]:
    """A secret that somebody else gave must not be led to where it was not meant for."""
    hosts = {tuple(host) for host in configuration.get("hosts") or ()}
    same = hosts <= {tuple(host) for host in stored.get("hosts") or ()}
    if same and all((configuration.get(name) or None) == (stored.get(name) or None) for name in _DESTINATION):
        return
    message, hint = "give it again: where it is sent to has changed", "secrets that are kept are not sent elsewhere"
    for place, secret in kept.secrets.items():
        named = isinstance(secret, Mapping) and REFERENCE in secret and limits.may_refer(str(secret[REFERENCE]))
        looked_up = isinstance(secret, str) and is_reference(secret) and "env" in limits.allowed
        if not named and not looked_up:
            yield FieldError(place, message, hint=hint)


def _too_many(configuration: Mapping[str, Any]) -> Iterator[FieldError]:
    """Each of them is looked up and tried one after the other."""
    for name, most in _MOST.items():
        number = len(configuration.get(name) or ())
        if number > most:
            yield FieldError(name, f"at most {most} are taken", number)


def _addresses(configuration: Mapping[str, Any], stored: Mapping[str, Any], limits: Limits) -> Iterator[FieldError]:
    known = {(host, str(port)) for host, port in stored.get("hosts") or ()}
    for host, port in configuration.get("hosts") or ():
        if (host, str(port)) in known:
            continue  # let through when it was saved, or saved by whoever sits at the machine
        try:
            limits.outbound.check_host(host, int(port))
        except PenstockError as error:
            yield FieldError("hosts", error.message, f"{host}:{port}", hint=error.hint)


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
