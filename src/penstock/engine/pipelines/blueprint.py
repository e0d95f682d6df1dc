"""What executors need to build a pipeline, and whether they may build it more than once."""

from __future__ import annotations

from penstock.act.registry import action_class
from penstock.config.spec import PipelineSpec
from penstock.kafka.client import KafkaClientConfig
from penstock.pipeline.messages import Blueprint


def blueprint_of(spec: PipelineSpec, client: KafkaClientConfig | None = None) -> Blueprint:
    return Blueprint(spec, client or KafkaClientConfig.of(spec.source.config.connection), spec.folder)


def parallel_safe(spec: PipelineSpec) -> bool:
    """Whether the action may run in several objects at once without being asked to."""
    return bool(getattr(action_class(spec.action.type, spec.action.config, spec.folder), "parallel_safe", False))
