"""The address guard for what API callers name."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.config.spec import PipelineSpec
from penstock.core.net.guard import AddressGuard, plain_name
from penstock.kafka.network_probe import addresses


def caller_guard(networks: Iterable[str], specs: Iterable[PipelineSpec]) -> AddressGuard:
    """Open are public addresses, `api.networks`, and the brokers of these pipelines at their very ports, as far as
    pipelines come from files: callers can make pipelines and triggers of their own, and let their names resolve to any
    address later."""
    used = [spec.source.config.connection.bootstrap for spec in specs if spec.origin and not spec.source.is_foreign]
    brokers = {(plain_name(place.host), place.port) for bootstrap in used for place in addresses(bootstrap)}
    return AddressGuard(tuple(networks), brokers=frozenset(brokers))
