"""Holds the steps of workflows that came through the API to the policy of the instance that runs them: what they refer
to may say something else than when they were saved."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.core.net.guard import AddressGuard, HostUnknown
from penstock.pipeline.policy import Policy, Refusal, Step, opened_config
from penstock.workflows.definitions import REFUSED


class StepPolicy:
    """Of one instance, by its `api.allow` and `api.networks`."""

    def __init__(self, allowed: Iterable[str], networks: Iterable[str]) -> None:
        self._networks = tuple(networks)
        self._guard = AddressGuard(self._networks)
        self._policy = Policy(frozenset(allowed), self._check_host, hides=True)

    def prepared(self, step: dict[str, Any]) -> dict[str, Any]:
        """The step as it is run: `allow_private` is set by the instance, and one that names what it may not fails."""
        kind, config = step["kind"], step["config"]
        own = config.get("config") or {} if kind == "action" else config
        found = Step(kind, str(config.get("type", kind)), own, (kind,), ("config",))
        refusals = list(self._policy.step_refusals(found))
        if refusals:
            return {**step, REFUSED: "; ".join(map(_said, refusals))}
        opened = opened_config(found, self._networks)
        return {**step, "config": {**config, "config": opened} if kind == "action" else opened}

    def _check_host(self, host: str, port: int | None) -> None:
        try:
            self._guard.check_host(host, port)
        except HostUnknown:
            return  # L6: a name server that is away refuses nothing; the request itself fails of it


def _said(refusal: Refusal) -> str:
    return f"{refusal.path[-1]}: {refusal.message}"
