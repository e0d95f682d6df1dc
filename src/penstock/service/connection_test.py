"""Tries the connection of a trigger, saved or not, each step apart, and looks at its last messages as it would take
them in. Nothing is changed on the cluster, and nothing is connected to that callers may not name."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Final, Literal

import orjson
from pydantic import Field

from penstock.config.spec import PipelineSpec
from penstock.core.deadline import Deadline
from penstock.core.errors import PenstockError
from penstock.core.event import RecordLike
from penstock.core.net.guard import AddressGuard, AddressRefused
from penstock.core.secrets import Scrubber
from penstock.kafka.admin import ClusterView
from penstock.kafka.client import KafkaClientConfig
from penstock.kafka.network_probe import addresses
from penstock.kafka.probe import Finding, Step, probe
from penstock.service.masking import Masking
from penstock.service.operations.models import View
from penstock.service.topic_browser import browse
from penstock.workflows.message import InvalidData, MessageReader

_NOT_USED: Final[dict[Step, str]] = {
    "tls": "not used: ssl is off",
    "sasl": "not used: sasl is off",
    "registry": "not used: triggers take JSON in as it is",
}
_ORDER: Final[tuple[Step, ...]] = (
    *("config", "dns", "tcp", "tls", "sasl", "metadata", "advertised", "topic", "group", "registry"),
)
_SKIPPED: Final = "skipped: a step before it failed"
_LARGEST: Final = 100_000
"""Characters of a body that are shown."""
_TOPICS: Final = 20
"""Topics of a preview; a pattern may match thousands."""
_SECONDS: Final = 5.0
_WHOLE: Final = 20.0
"""Seconds after which no further topic is looked at."""


class StepReport(View):
    """How one step of reaching a cluster went."""

    step: Step
    target: str
    ok: bool | None = None
    """Null: not tried, because a step before it failed, or because it is not used."""
    detail: str
    hint: str | None = None
    millis: int = 0


class ConnectionReport(View):
    """How a connection went, step by step."""

    ok: bool
    steps: list[StepReport] = Field(default_factory=list)


class MessagePreview(View):
    """What would become of a message."""

    topic: str
    partition: int
    offset: int
    timestamp: int | None = None
    """Epoch milliseconds."""
    outcome: Literal["work order", "dead letter", "skipped"]
    why: str | None = None
    """Why it is no work order, or not shown."""
    body: Any = None
    """What a run would see as `data`."""
    request: Any = None
    """What a run would see as `request`."""
    masked: bool = False


def try_connection(spec: PipelineSpec, guard: AddressGuard, timeout: float) -> ConnectionReport:
    """Every step, also those that are not used, in the order of their dependence. Addresses that brokers advertise are
    checked as those that are typed."""
    scrub = Scrubber(spec.secrets).scrub
    # Asked before there is a client: making one may already connect.
    found = list(_refused(spec, guard))
    if not found:
        findings = probe(spec, timeout, guard)
        found = [_report(finding, scrub) for finding in findings]
    tried = {report.step for report in found}
    bootstrap = spec.source.config.connection.bootstrap
    protocol = str(spec.source.config.connection.consumer_config.get("security.protocol", "")).upper()
    for step, why in _NOT_USED.items():
        if step not in tried:
            used = (step == "tls" and protocol.endswith("SSL")) or (step == "sasl" and protocol.startswith("SASL"))
            found.append(StepReport(step=step, target=bootstrap, detail=_SKIPPED if used else why))
    found.sort(key=lambda report: _ORDER.index(report.step))
    return ConnectionReport(ok=all(report.ok is not False for report in found), steps=found)


def preview_messages(
    spec: PipelineSpec, guard: AddressGuard, masking: Masking, last: int, *, skips: bool
) -> list[MessagePreview]:
    """The last messages of the topics, newest first, as the trigger would take them in; `skips`: tombstones are left
    out."""
    source = spec.source.config
    if not guard.allow_private:
        _check_cluster(spec, guard)
    cluster = ClusterView(KafkaClientConfig.of(source.connection), _SECONDS)
    topics = source.subscribed(list(cluster.topics())) if source.topic_pattern else list(source.subscription)
    config = spec.action.config
    reader = MessageReader(config.get("accept", "object"))
    deadline = Deadline.after(_WHOLE)
    found = [
        _preview(record, reader, masking, skips=skips)
        for topic in topics[:_TOPICS]
        if not deadline.expired
        for record in browse(source.connection, topic, limit=last, seconds=_SECONDS).records
    ]
    return sorted(found, key=lambda each: (each.timestamp or 0, each.offset), reverse=True)[:last]


def _check_cluster(spec: PipelineSpec, guard: AddressGuard) -> None:
    """Raise where the cluster, or a broker that it names, is none that callers may name."""
    connection = spec.source.config.connection
    known = addresses(connection.bootstrap)
    for address in known:
        guard.check_host(address.host, address.port)
    for host, port in ClusterView(KafkaClientConfig.of(connection), _SECONDS).brokers():
        if (host, port) not in known:
            guard.check_host(host, port)


def _refused(spec: PipelineSpec, guard: AddressGuard) -> Iterator[StepReport]:
    source = spec.source.config
    refused: list[tuple[str, AddressRefused]] = []
    for address in addresses(source.connection.bootstrap):
        try:
            guard.check_host(address.host, address.port)
        except AddressRefused as error:
            refused.append((str(address), error))
        except PenstockError:
            continue  # without an address there is nothing to refuse; the step itself says so
    for target, why in refused:
        yield StepReport(step="dns", target=target, ok=False, detail=why.message, hint=why.hint)
    if refused:
        skipped: tuple[Step, ...] = ("tcp", "metadata", "topic", "group")
        for step in skipped:
            yield StepReport(step=step, target=source.connection.bootstrap, detail=_SKIPPED)


def _report(finding: Finding, scrub: Any) -> StepReport:
    return StepReport(
        step=finding.step,
        target=finding.target,
        ok=finding.ok,
        detail=scrub(finding.detail),
        hint=scrub(finding.hint) if finding.hint else None,
        millis=finding.millis,
    )


def _preview(record: RecordLike, reader: MessageReader, masking: Masking, *, skips: bool) -> MessagePreview:
    topic, kind_and_time = record.topic(), record.timestamp()
    data: dict[str, Any] = {
        "topic": topic,
        "partition": record.partition(),
        "offset": record.offset(),
        "timestamp": kind_and_time[1] if kind_and_time[0] else None,
        "request": _loaded(reader.request(record)),
        "masked": masking.applies(topic),
    }
    if skips and record.value() is None:
        return MessagePreview(**data, outcome="skipped", why="it is a tombstone")
    try:
        message = reader.read(record)
    except InvalidData as error:
        return MessagePreview(**data, outcome="dead letter", why=masking.words(topic, record.value())(error.message))
    if len(message.body) > _LARGEST:
        return MessagePreview(**data, outcome="work order", why=f"its {len(message.body):,} characters are not shown")
    return MessagePreview(**data, outcome="work order", body=masking.value(topic, _loaded(message.body)))


def _loaded(text: str) -> Any:
    with contextlib.suppress(orjson.JSONDecodeError):
        return orjson.loads(text)
    return text
