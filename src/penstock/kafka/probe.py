"""Tries every connection of a pipeline step by step and reports each result: `penstock dry-run`, trigger forms."""

from __future__ import annotations

import re
import ssl
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from penstock.config.spec import KafkaSourceConfig, PipelineSpec
from penstock.config.wire import RegistryDialect, WireSpec
from penstock.core.errors import PenstockError
from penstock.core.net.guard import UNGUARDED, AddressGuard
from penstock.kafka.admin import ClusterView
from penstock.kafka.client import KafkaClientConfig
from penstock.kafka.errors import AuthenticationFailed, NotAuthorized
from penstock.kafka.network_probe import Address, addresses, connect, handshake
from penstock.kafka.registry.client import Registry
from penstock.kafka.registry.dialects import DialectRegistry

Step = Literal["config", "dns", "tcp", "tls", "sasl", "metadata", "advertised", "topic", "group", "registry"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one step."""

    step: Step
    target: str
    ok: bool | None
    """None: skipped, because a step that it depends on failed, or because it cannot be tried."""
    detail: str
    hint: str | None = None
    millis: int = 0

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


_Work = Callable[[], str]


def probe(spec: PipelineSpec, timeout: float = 5.0, guard: AddressGuard = UNGUARDED) -> Iterator[Finding]:
    """Every step in the order of its dependence; nothing is changed on the cluster, and no group is joined.

    Only addresses that the guard allows are connected to, advertised ones included."""
    source = spec.source.config
    if spec.source.is_foreign:
        yield Finding("config", f"source {spec.source.type}", None, "a source of its own is not touched")
        return
    try:
        config = KafkaClientConfig.of(source.connection)
    except PenstockError as error:
        yield Finding("config", "client properties", False, error.message, error.hint)
        yield from _skipped(spec, "the client configuration is wrong")
    else:
        yield Finding("config", "client properties", True, "; ".join(config.warnings) or "accepted by the client")
        pins: dict[Address, list[str]] = {}
        reached = yield from _network(config, timeout, guard, pins)
        if reached:
            yield from _cluster(spec, pinned(config, pins), timeout, guard)
        else:
            yield from _skipped(spec, "no broker address can be reached")
    if source.connection.schema_registry_url and source.format == "wherehows":
        yield from _dialects(source, timeout, guard)
    elif source.connection.schema_registry_url:
        yield _registry(source.connection.schema_registry_url, source.connection.schema_registry_config, timeout, guard)


def pinned(config: KafkaClientConfig, pins: dict[Address, list[str]]) -> KafkaClientConfig:
    """The same cluster by the IP addresses that were allowed: a name may resolve differently the next time.

    Where the broker's certificate is checked against its name, the name stays: no other host has that certificate."""
    if not pins:
        return config
    properties = dict(config.properties)
    verified = properties.get("enable.ssl.certificate.verification", "true").lower() != "false"
    named = properties.get("ssl.endpoint.identification.algorithm", "https").lower() == "https"
    if _is_secured(properties) and verified and named:
        return config
    places = [str(Address(each, address.port)) for address, found in pins.items() for each in found]
    changed = properties | {"bootstrap.servers": ",".join(places)}
    return replace(config, properties=tuple(sorted(changed.items())))


def _is_secured(properties: dict[str, str]) -> bool:
    return properties.get("security.protocol", "plaintext").lower().endswith("ssl")


def _network(
    config: KafkaClientConfig, timeout: float, guard: AddressGuard, pins: dict[Address, list[str]]
) -> Generator[Finding, None, bool]:
    properties = dict(config.properties)
    reached = False
    for address in addresses(config.bootstrap):
        good, found = True, list[str]()
        for finding in _address(address, properties if _is_secured(properties) else None, timeout, guard, found):
            good = good and finding.ok is True
            yield finding
        if good and found:
            pins[address] = found
        reached = reached or good
    return reached


def _address(
    address: Address, properties: dict[str, str] | None, timeout: float, guard: AddressGuard, pins: list[str]
) -> Iterator[Finding]:
    def resolved() -> str:
        pins.extend(guard.addresses(address.host, address.port))
        return ", ".join(pins)

    steps: list[tuple[Step, _Work]] = [("dns", resolved), ("tcp", lambda: _connected(address, timeout, pins))]
    if properties is not None:
        steps.append(("tls", lambda: handshake(address, properties, timeout, pins)))
    failed: Step | None = None
    for step, work in steps:
        if failed:
            yield Finding(step, str(address), None, f"skipped: {failed} failed")
            continue
        finding = _tried(step, str(address), work)
        failed = None if finding.ok else step
        yield finding


def _connected(address: Address, timeout: float, pins: list[str]) -> str:
    connect(address, timeout, pins)
    return "the port answers"


def _cluster(spec: PipelineSpec, config: KafkaClientConfig, timeout: float, guard: AddressGuard) -> Iterator[Finding]:
    sasl = dict(config.properties).get("security.protocol", "").lower().startswith("sasl")
    begin = time.monotonic()
    view = ClusterView(config, timeout)
    try:
        topics, brokers = view.topics(), view.brokers()
    except PenstockError as error:
        millis = _since(begin)
        refused = isinstance(error, AuthenticationFailed)
        if sasl:
            yield Finding("sasl", config.bootstrap, False if refused else None, error.message, error.hint, millis)
        why = "skipped: the log-in failed" if sasl and refused else error.message
        yield Finding("metadata", config.bootstrap, None if sasl and refused else False, why, error.hint, millis)
        yield from _skipped(spec, "the cluster did not answer", past=("metadata",))
        return
    millis = _since(begin)
    if sasl:
        mechanism = dict(config.properties).get("sasl.mechanisms", "GSSAPI")
        yield Finding("sasl", config.bootstrap, True, f"logged in by {mechanism}", None, millis)
    yield Finding("metadata", config.bootstrap, True, f"{len(brokers)} brokers, {len(topics)} topics", None, millis)
    known = set(addresses(spec.source.config.connection.bootstrap))
    named = [_advertised(Address(host, port), timeout, guard) for host, port in brokers if (host, port) not in known]
    yield from named
    if not guard.allow_private and any(finding.ok is False for finding in named):
        # The client would go to any of them by itself.
        yield from _skipped(spec, "a broker names an address that cannot be used", past=("metadata",))
        return
    yield from _topics(spec, view, topics)
    yield _group(spec, view)


def _advertised(address: Address, timeout: float, guard: AddressGuard) -> Finding:
    hint = "the broker names this address to its clients (advertised.listeners); it must be reachable from here"

    def reached() -> str:
        return _connected(address, timeout, guard.addresses(address.host, address.port))

    return _tried("advertised", str(address), reached, hint)


def _topics(spec: PipelineSpec, view: ClusterView, known: dict[str, int]) -> Iterator[Finding]:
    pattern = spec.source.config.topic_pattern
    if pattern:
        matching = spec.source.config.subscribed(known)
        detail = (
            f"{len(matching)} topics match now: {', '.join(sorted(matching)[:10])}" if matching else "none matches yet"
        )
        yield Finding("topic", pattern, True, detail)
        return
    for name in spec.source.config.subscription:
        yield _tried("topic", name, lambda name=name: _topic(view, name))  # type: ignore[misc]  # the default binds the name


def _topic(view: ClusterView, name: str) -> str:
    count = view.existing([name])[name]
    if not view.may_read_topic(name):
        raise NotAuthorized(f"no right to read topic {name}", hint="the broker's ACL lacks READ for this user")
    return f"{count} partitions"


def _group(spec: PipelineSpec, view: ClusterView) -> Finding:
    if spec.source.config.stateless:
        return Finding("group", spec.group, True, "not used: the source is stateless")
    return _tried("group", spec.group, lambda: _group_rights(view, spec.group))


def _group_rights(view: ClusterView, name: str) -> str:
    if not view.may_join_group(name):
        raise NotAuthorized(f"no right to join group {name}", hint="the broker's ACL lacks READ for this user")
    group = view.group(name)
    if group.members and group.assignor not in ("", "cooperative-sticky"):
        raise NotAuthorized(
            f"group {name} is in use with the assignor {group.assignor}",
            hint="stop the old consumer first; it and Penstock cannot share a group",
        )
    return f"may join; state {group.state}, {len(group.members)} members"


def _registry(url: str, config: dict[str, Any], timeout: float, guard: AddressGuard) -> Finding:
    def asked() -> str:
        registry = Registry(url, config, timeout, guard)
        try:
            return f"{registry.check()} subjects"
        finally:
            registry.close()

    return _tried("registry", _shown(url), asked)


def _dialects(source: KafkaSourceConfig, timeout: float, guard: AddressGuard) -> Iterator[Finding]:
    wire, connection = source.wherehows or WireSpec(), source.connection
    url = connection.schema_registry_url or ""
    for dialect in dict.fromkeys(wire.of(topic)[1] for topic in source.topics or ()):

        def asked(dialect: RegistryDialect = dialect) -> str:
            return DialectRegistry(url, dialect, connection.schema_registry_config, timeout, guard).check()

        yield _tried("registry", _shown(url), asked)


def _shown(url: str) -> str:
    return re.sub(r"//[^/@]*@", "//", url)


def _tried(step: Step, target: str, work: _Work, hint: str | None = None) -> Finding:
    begin = time.monotonic()
    try:
        return Finding(step, target, True, work(), None, _since(begin))
    except PenstockError as error:
        return Finding(step, target, False, error.message, error.hint or hint, _since(begin))
    except ssl.SSLCertVerificationError as error:
        advice = hint or "is the broker's authority in ssl.ca.location, and the name in its certificate?"
        return Finding(step, target, False, f"certificate refused: {error.verify_message}", advice, _since(begin))
    except OSError as error:
        return Finding(step, target, False, str(error.strerror or error), hint, _since(begin))


def _since(begin: float) -> int:
    return round((time.monotonic() - begin) * 1000)


def _skipped(spec: PipelineSpec, why: str, past: tuple[Step, ...] = ()) -> Iterator[Finding]:
    steps: list[tuple[Step, str]] = [("metadata", spec.source.config.connection.bootstrap)]
    steps += [("topic", name) for name in spec.source.config.subscription]
    steps.append(("group", spec.group))
    yield from (Finding(step, target, None, f"skipped: {why}") for step, target in steps if step not in past)
