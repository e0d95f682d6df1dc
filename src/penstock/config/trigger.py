"""`kafka_configuration` of a trigger: Lightning's rules in Lightning's order, and Penstock's additions."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.config.problems import did_you_mean
from penstock.config.trigger_fields import CASTS, SASL_MECHANISMS, SECRET_FIELDS, CastError, legal_topics, split_address
from penstock.core.secrets import MASK

GROUP_PREFIX: Final = "lightning-"
DEFAULT_CONNECT_TIMEOUT: Final = 30
"""Seconds."""

LIGHTNING_FIELDS: Final = (
    "hosts",
    "hosts_string",
    "topics",
    "topics_string",
    "initial_offset_reset_policy",
    "connect_timeout",
    "group_id",
    "ssl",
    "sasl",
    "username",
    "password",
)
EXTRA_FIELDS: Final = (
    "topic_pattern",
    "ssl_ca",
    "ssl_certificate",
    "ssl_key",
    "ssl_key_password",
    "properties",
)
"""Penstock's own: topics by a pattern; certificates as PEM text or as the path of a file; client properties by name,
which is the way to OAUTHBEARER, MSK IAM and GSSAPI."""
FIELDS: Final = LIGHTNING_FIELDS + EXTRA_FIELDS

_HOSTS_FORM: Final = "host:port, host:port"
_TOPICS_FORM: Final = "topic_1, topic_2"
_POLICY: Final = re.compile(r"earliest|latest|\d{13}", re.ASCII)
_MILLISECONDS_FROM: Final = 1000
"""Nobody waits that many seconds: Lightning's form asks for milliseconds and stores them as seconds."""


@dataclass(frozen=True, slots=True)
class FieldError:
    """What is wrong, or worth a warning, with one field."""

    field: str
    message: str
    received: object = None
    allowed: tuple[str, ...] | None = None
    hint: str | None = None

    def as_dict(self) -> dict[str, Any]:
        given = {"received": self.received, "allowed": self.allowed and list(self.allowed), "hint": self.hint}
        return {"field": self.field, "message": self.message} | {k: v for k, v in given.items() if v is not None}


@dataclass(slots=True)
class Checked:
    """A configuration in its normal form, with all that is wrong with it."""

    configuration: dict[str, Any] = field(default_factory=dict)
    """As the store keeps it: hosts as pairs of texts, `group_id` included."""
    errors: list[FieldError] = field(default_factory=list)
    warnings: list[FieldError] = field(default_factory=list)

    def refuse(self, name: str, message: str, received: object = None, **more: Any) -> None:
        self.errors.append(FieldError(name, message, received, **more))

    def has_error(self, name: str) -> bool:
        return any(error.field == name for error in self.errors)


def check_kafka(given: object, stored: Mapping[str, Any] | None = None, group_id: str | None = None) -> Checked:
    """Check a `kafka_configuration` as written, over what is `stored`: a field that is not given keeps its value.

    `group_id` is the group of a trigger that is taken over from elsewhere; one inside of `given` is not used.
    """
    checked = Checked()
    if not isinstance(given, Mapping):
        checked.refuse("", f"a map with hosts, topics and initial_offset_reset_policy is wanted, not {given!r}", given)
        return checked
    before = dict(stored or {})
    checked.configuration = {"connect_timeout": DEFAULT_CONNECT_TIMEOUT} | before
    _cast(given, checked)
    _hosts_string(given, checked)
    _topics_string(given, checked)
    _required(checked)
    _lengths(checked)
    _offset_policy(before, checked)
    _group(group_id, checked)
    _credentials(checked)
    _timeout(checked)
    checked.configuration["ssl"] = bool(checked.configuration.get("ssl"))
    return checked


def new_group_id() -> str:
    """Lightning's form of a group."""
    return f"{GROUP_PREFIX}{uuid.uuid4()}"


def hosts_text(configuration: Mapping[str, Any]) -> str:
    """`host:port, host:port`, for people."""
    return ", ".join(_address(host, port) for host, port in configuration.get("hosts") or ())


def topics_text(configuration: Mapping[str, Any]) -> str:
    """`topic_1, topic_2`, for people."""
    return ", ".join(configuration.get("topics") or ())


def start_of(configuration: Mapping[str, Any]) -> str | int:
    """Where to begin where the group has no offset: `earliest`, `latest` or epoch milliseconds."""
    policy = str(configuration.get("initial_offset_reset_policy") or "")
    if policy.isdecimal() and policy.isascii():
        return int(policy)
    return "earliest" if policy == "earliest" else "latest"


def _address(host: str, port: str) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _cast(given: Mapping[str, Any], checked: Checked) -> None:
    for name, value in given.items():
        if name not in FIELDS:
            checked.refuse(str(name), "unknown key", hint=did_you_mean(name, FIELDS), allowed=FIELDS)
        elif name not in ("hosts_string", "topics_string", "group_id"):
            _cast_field(str(name), value, checked)


def _cast_field(name: str, value: Any, checked: Checked) -> None:
    try:
        checked.configuration[name] = None if value is None else CASTS[name](value)
    except CastError as error:
        checked.refuse(name, str(error), MASK if name in SECRET_FIELDS else value, **error.more)
        checked.configuration[name] = None


def _hosts_string(given: Mapping[str, Any], checked: Checked) -> None:
    written = given.get("hosts_string")
    if written is None:
        if not checked.configuration.get("hosts") and not checked.has_error("hosts"):
            checked.refuse("hosts_string", f"must be given as {_HOSTS_FORM}")
        return
    if not isinstance(written, str) or not written.strip():
        checked.refuse("hosts_string", f"must be given as {_HOSTS_FORM}", written)
        return
    try:
        checked.configuration["hosts"] = [split_address(piece) for piece in written.split(",")]
    except CastError as error:
        checked.refuse("hosts_string", f"must be given as {_HOSTS_FORM}: {error}", written, **error.more)


def _topics_string(given: Mapping[str, Any], checked: Checked) -> None:
    written = given.get("topics_string")
    by_pattern = bool(checked.configuration.get("topic_pattern"))
    if written is None:
        if not checked.configuration.get("topics") and not checked.has_error("topics") and not by_pattern:
            checked.refuse("topics_string", f"must be given as {_TOPICS_FORM}")
        return
    pieces = [piece.strip() for piece in written.split(",") if piece.strip()] if isinstance(written, str) else []
    if not pieces:
        checked.refuse("topics_string", f"must be given as {_TOPICS_FORM}", written)
        return
    try:
        checked.configuration["topics"] = legal_topics(pieces)
    except CastError as error:
        checked.refuse("topics_string", str(error), written)


def _required(checked: Checked) -> None:
    for name in ("connect_timeout", "hosts", "initial_offset_reset_policy", "topics"):
        if name == "topics" and checked.configuration.get("topic_pattern"):
            continue
        if checked.configuration.get(name) is None and not checked.has_error(name):
            checked.refuse(name, "required")


def _lengths(checked: Checked) -> None:
    for name in ("hosts", "topics"):
        if checked.configuration.get(name) == [] and not (
            name == "topics" and checked.configuration.get("topic_pattern")
        ):
            checked.refuse(name, "at least one is wanted", [])
    if checked.configuration.get("topics") and checked.configuration.get("topic_pattern"):
        checked.refuse("topic_pattern", "give either topics or topic_pattern, not both")


def _offset_policy(before: Mapping[str, Any], checked: Checked) -> None:
    policy = checked.configuration.get("initial_offset_reset_policy")
    if policy is None or policy == before.get("initial_offset_reset_policy") or _POLICY.fullmatch(policy):
        return
    hint = f"it has {len(policy)} digits" if policy.isdecimal() else None
    message = f"earliest, latest or a time in epoch milliseconds (exactly 13 digits) is wanted, not {policy!r}"
    checked.refuse("initial_offset_reset_policy", message, policy, hint=hint)


def _group(group_id: str | None, checked: Checked) -> None:
    checked.configuration["group_id"] = checked.configuration.get("group_id") or group_id or new_group_id()


def _credentials(checked: Checked) -> None:
    sasl = checked.configuration.get("sasl")
    if checked.has_error("sasl"):
        return
    for name in ("username", "password"):
        present = bool(checked.configuration.get(name))
        if checked.has_error(name):
            continue
        if sasl and not present:
            checked.refuse(name, f"required with SASL ({sasl})")
        elif present and not sasl:
            checked.refuse(
                name, "needs SASL: no mechanism is chosen", MASK, allowed=tuple(SASL_MECHANISMS), hint="set sasl"
            )


def _timeout(checked: Checked) -> None:
    seconds = checked.configuration.get("connect_timeout")
    if seconds is None:
        return
    if seconds <= 0:
        checked.refuse("connect_timeout", f"a number of seconds above 0 is wanted, not {seconds}", seconds)
    elif seconds >= _MILLISECONDS_FROM:
        message = f"{seconds} seconds were probably meant as milliseconds"
        hint = f"say {max(1, seconds // 1000)} for that"
        checked.warnings.append(FieldError("connect_timeout", message, seconds, hint=hint))


def in_seconds(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration with a timeout that was meant in milliseconds divided by 1000."""
    seconds = configuration.get("connect_timeout")
    if not isinstance(seconds, int) or seconds < _MILLISECONDS_FROM:
        return dict(configuration)
    return dict(configuration) | {"connect_timeout": max(1, seconds // 1000)}


def missing_secrets(configuration: Mapping[str, Any]) -> Iterator[str]:
    """Credentials that SASL wants and that are not there."""
    if configuration.get("sasl"):
        yield from (name for name in ("username", "password") if not configuration.get(name))
