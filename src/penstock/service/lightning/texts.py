"""Jobs and edges that were kept as text, in the words of the file that is written: YAML names what JSON refers to by
id."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from penstock.service.workflows import stable_id

_CONDITION: Final = ("condition_type", "condition_label", "condition_expression", "enabled")


def key_of(name: str) -> str:
    """A name as a key of Lightning's maps."""
    return name.replace(" ", "-")


class Texts:
    """The jobs and edges of one workflow. `triggers` are names by id."""

    def __init__(self, workflow_id: str, kept: Mapping[str, Any], triggers: Mapping[str, str]) -> None:
        self._jobs: list[dict[str, Any]] = list(kept.get("jobs") or [])
        self._edges: list[dict[str, Any]] = list(kept.get("edges") or [])
        self._triggers = triggers
        self._keys = [_own_key(job, index) for index, job in enumerate(self._jobs)]
        made = [stable_id("job", workflow_id, key) for key in self._keys]
        self._ids = [str(job.get("id") or new) for job, new in zip(self._jobs, made, strict=True)]

    def as_maps(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Jobs and edges by key, as in YAML."""
        jobs = {key: _without_key(job) for key, job in zip(self._keys, self._jobs, strict=True)}
        edges = [self._by_name(edge) for edge in self._edges]
        keys = [
            str(edge.get("key") or f"{_source(named)}->{named.get('target_job')}") for edge, named in self._pairs(edges)
        ]
        return jobs, dict(zip(keys, edges, strict=True))

    def as_lists(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Jobs and edges with ids, as in JSON; a job that nothing refers to keeps what it has."""
        edges = [self._by_id(edge) for edge in self._edges]
        wanted = {edge.get(end) for edge in edges for end in ("source_job_id", "target_job_id")}
        jobs = [
            ({"id": identity} if identity in wanted else {}) | _without_key(job)
            for identity, job in zip(self._ids, self._jobs, strict=True)
        ]
        return jobs, edges

    def _pairs(self, edges: list[dict[str, Any]]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        return list(zip(self._edges, edges, strict=True))

    def _by_name(self, edge: dict[str, Any]) -> dict[str, Any]:
        if "target_job" in edge:
            return _without_key(edge)
        jobs = dict(zip(self._ids, self._keys, strict=True))
        ends = {
            "source_trigger": self._triggers.get(str(edge.get("source_trigger_id"))),
            "source_job": jobs.get(str(edge.get("source_job_id"))),
            "target_job": jobs.get(str(edge.get("target_job_id"))),
        }
        named = {name: value for name, value in ends.items() if value is not None}
        return named | {name: edge[name] for name in _CONDITION if edge.get(name) is not None}

    def _by_id(self, edge: dict[str, Any]) -> dict[str, Any]:
        if "target_job" not in edge:
            return _without_key(edge)
        jobs = dict(zip(self._keys, self._ids, strict=True))
        triggers = {name: identity for identity, name in self._triggers.items()}
        ends = {
            "source_trigger_id": triggers.get(str(edge.get("source_trigger"))),
            "source_job_id": jobs.get(str(edge.get("source_job"))),
            "target_job_id": jobs.get(str(edge.get("target_job"))),
        }
        found = {name: value for name, value in ends.items() if value is not None}
        return found | {name: edge[name] for name in _CONDITION if edge.get(name) is not None}


def _own_key(job: Mapping[str, Any], index: int) -> str:
    return str(job.get("key") or key_of(str(job.get("name") or index)))


def _source(edge: Mapping[str, Any]) -> str:
    return str(edge.get("source_trigger") or edge.get("source_job"))


def _without_key(item: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in item.items() if key != "key"}
