"""The form of a trigger: Lightning's fields first, the rest below; tried and previewed before it is saved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import ValidationError

from penstock.config.problems import InvalidConfigError
from penstock.console.parts import box, fold, problem
from penstock.console.schema_form import FieldSpec, Form, field_of
from penstock.core.errors import PenstockError
from penstock.service.operations.trigger_models import NewTrigger, TriggerChange, TriggerDetail

_SECRETS: Final = ("username", "password", "ssl_key", "ssl_key_password")
_CREDENTIALS: Final = ("username", "password")
_CERTIFICATES: Final = ("ssl_ca", "ssl_certificate", "ssl_key", "ssl_key_password")
_LABELS: Final = {
    "hosts_string": "Hosts",
    "topics_string": "Topics",
    "ssl": "Encrypted (SSL)",
    "sasl": "Authentication (SASL)",
    "username": "User name",
    "initial_offset_reset_policy": "Begin at, without a committed offset",
    "connect_timeout": "Connect timeout, seconds",
    "ssl_ca": "Certificate authority",
    "ssl_certificate": "Client certificate",
    "ssl_key": "Client key",
    "ssl_key_password": "Password of the client key",
    "properties": "Client properties (JSON)",
    "limits": "Limits (JSON)",
    "rate": "Messages per second",
    "group_id": "Consumer group to take over",
}
_ABOUT: Final = {
    "hosts_string": "Brokers, as host:port, host:port.",
    "topics_string": "As topic_1, topic_2; each named once.",
}
_FIRST: Final = ("hosts_string", "topics_string", "initial_offset_reset_policy", "ssl", "sasl", *_CREDENTIALS)
_NOT_ASKED: Final = ("hosts", "topics", "group_id", "kafka_configuration", "enabled", "name", "workflow", "steps")
"""Said by other fields, or elsewhere on the page."""
_PLACES: Final = {"hosts": "hosts_string", "topics": "topics_string"}
"""Fields on which what is wrong with others is shown."""
_DEFAULTS: Final = {"initial_offset_reset_policy": "earliest", "connect_timeout": 30}


class TriggerForm:
    """What a person says of a trigger."""

    def __init__(self, schema: Mapping[str, Any], known: TriggerDetail | None) -> None:
        kafka = schema["properties"]["kafka_configuration"]
        values: dict[str, Any] = dict(_DEFAULTS)
        options: dict[str, Any] = {}
        if known is not None:
            values = dict(known.kafka_configuration)
            values |= {"hosts_string": known.hosts, "topics_string": ", ".join(values.get("topics") or ())}
            options = known.options | {"comment": known.comment}
            if (rate := options.get("rate")) is not None:
                options["rate"] = f"{rate:g}/s"
        kept = [name for name in _SECRETS if known is not None and values.get(name) is not None]
        asked = [name for name in kafka["properties"] if name not in (*_FIRST, *_NOT_ASKED)]
        with box("fields"):
            self._kafka = Form(_fields(kafka, _FIRST), values, kept)
        with fold("More settings") as self._more, box("fields"):
            self._extra = Form(_fields(kafka, asked), values, kept)
            # A group is taken over once, when the trigger is made.
            group = ["group_id"] if known is None else []
            own = [name for name in schema["properties"] if name not in _NOT_ASKED]
            self._own = Form(_fields(schema, [*group, *own]), options)
        with box("stack") as self._errors:
            pass
        self._kafka.on_change("sasl", self._follow)
        self._kafka.on_change("ssl", self._follow)
        self._follow()

    def _follow(self) -> None:
        for name in _CREDENTIALS:
            self._kafka.show_if(name, bool(self._kafka.value("sasl")))
        for name in _CERTIFICATES:
            self._extra.show_if(name, bool(self._kafka.value("ssl")))

    def change(self) -> TriggerChange:
        """What was written."""
        return TriggerChange.model_validate(self._written())

    def new(self, workflow: str, name: str, *, enabled: bool) -> NewTrigger:
        about = {"workflow": workflow, "name": name, "enabled": enabled}
        return NewTrigger.model_validate(self._written() | about)

    def _written(self) -> dict[str, Any]:
        kafka = self._kafka.written() | self._extra.written()
        # An empty text is wrong and said to be; one that is not there would leave what is kept.
        kafka["hosts_string"] = kafka["hosts_string"] or ""
        if kafka.get("topic_pattern") and not kafka["topics_string"]:
            kafka |= {"topics": None, "topics_string": None}
        else:
            kafka["topics_string"] = kafka["topics_string"] or ""
        own = {name: value for name, value in self._own.written().items() if value is not None}
        return own | {"kafka_configuration": kafka}

    def forget_errors(self) -> None:
        self._show({}, None)

    def refused(self, error: PenstockError | ValidationError) -> None:
        """Each reason on its field; the others below."""
        found: dict[str, str] = {}
        if isinstance(error, InvalidConfigError):
            for each in error.problems:
                # The first says most: what is wrong in one way is often missing, too.
                found.setdefault(_field(each.path), _said(each.message, each.hint))
        elif isinstance(error, ValidationError):
            found = {_field(".".join(map(str, each["loc"]))): each["msg"] for each in error.errors()}
        self._show(found, None if found or isinstance(error, ValidationError) else error)

    def _show(self, found: Mapping[str, str], error: PenstockError | None) -> None:
        left = dict(found)
        for form in (self._kafka, self._extra, self._own):
            rest = form.wrong(left)
            if form is not self._kafka and len(rest) < len(left):
                self._more.open()
            left = rest
        self._errors.clear()
        with self._errors:
            for name, said in left.items():
                problem(f"{name}: {said}" if name else said)
            if error is not None:
                problem(error)


def _fields(schema: Mapping[str, Any], names: Any) -> list[FieldSpec]:
    return [
        field_of(schema, name, label=_LABELS.get(name), about=_ABOUT.get(name), secret=name in _SECRETS)
        for name in names
        if name in schema["properties"]
    ]


def _field(path: str) -> str:
    """The field that a path is of: its last part, but for lists."""
    parts = [part for part in path.replace("[", ".").split(".") if part and not part.rstrip("]").isdecimal()]
    name = parts[1] if len(parts) > 1 and parts[0] == "kafka_configuration" else parts[0] if parts else ""
    return _PLACES.get(name, name)


def _said(message: str, hint: str | None) -> str:
    return message if hint is None else f"{message}; {hint}"
