"""Compiles a trigger to the pipeline that takes its messages in."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from penstock.config.secret_values import REFERENCE, Resolved, is_kept
from penstock.config.spec import PipelineSpec
from penstock.config.trigger import DEFAULT_CONNECT_TIMEOUT, hosts_text, start_of
from penstock.config.trigger_environment import TriggerDefaults
from penstock.config.trigger_fields import SASL_MECHANISMS
from penstock.core.declarations import is_path_of_pem
from penstock.core.errors import ConfigError
from penstock.core.secrets import find_secrets
from penstock.service.secrets import SecretBox
from penstock.store.work.model import ProjectRow, TriggerRow, WorkflowRow
from penstock.workflows.recovery import STORAGE_KEY

PREFIX: Final = "trigger-"
_LONGEST_CONNECT: Final = 2_147_483
"""Seconds: as many milliseconds as the client can count."""
_CERTIFICATES: Final = (("ssl_ca", "ssl.ca"), ("ssl_certificate", "ssl.certificate"), ("ssl_key", "ssl.key"))


def pipeline_name(trigger_id: str) -> str:
    """The pipeline that a trigger runs as."""
    return f"{PREFIX}{trigger_id}"


def compile_trigger(
    trigger: TriggerRow,
    workflow: WorkflowRow,
    project: ProjectRow,
    *,
    box: SecretBox,
    store_url: str,
    defaults: TriggerDefaults,
) -> PipelineSpec:
    """The pipeline of a trigger, its secrets put in place; raises `ConfigError` where one cannot be.

    What may change without a new consumer is not in it: the workflow's steps, and the limits of the project.
    """
    kafka, own = box.resolved(trigger.kafka_configuration), trigger.options
    _refuse_paths(trigger.kafka_configuration, kafka)
    # Not the store's own key: it travels to the executors.
    secret = box.needed().derived(STORAGE_KEY).text if defaults.alternate_storage and defaults.encrypts_copies else None
    action = {
        "url": store_url,
        "trigger": trigger.id,
        "workflow": workflow.id,
        "project": project.id,
        "names": {"project": project.name, "workflow": workflow.name, "trigger": trigger.name},
        "alternate_storage": str(defaults.alternate_storage) if defaults.alternate_storage else None,
        "storage_secret": secret,
        **{key: own.get(key) for key in ("accept", "tombstones", "ordering", "limits", "backlog")},
    }
    data = {
        "name": pipeline_name(trigger.id),
        "source": {"type": "kafka", "config": source_of(kafka)},
        "action": {"type": "work_order", "config": {key: item for key, item in action.items() if item is not None}},
        "options": {
            "rate_limit": own.get("rate", defaults.rate),
            "parallelism": _parallelism(own, defaults),
            # A topic full of what is no JSON is its own affair; each of its messages can be seen and replayed.
            "breaker": {"enabled": False},
        },
    }
    return PipelineSpec.model_validate(data).with_secrets(kafka.secrets | ({secret} if secret else set()))


def _refuse_paths(written: dict[str, Any], kafka: Resolved) -> None:
    """A secret holds a certificate or key itself. The path of a file is written out by those who may name files."""
    for name, _ in _CERTIFICATES:
        if is_kept(written.get(name)) and REFERENCE in written[name] and is_path_of_pem(kafka.value.get(name)):
            secret = str(written[name][REFERENCE])
            message = f"{name}: the secret {secret!r} holds no PEM text; the path of a file is not taken from a secret"
            raise ConfigError(message, received=secret, hint="keep the PEM text itself as the secret")


def with_store(spec: PipelineSpec, store_url: str) -> PipelineSpec:
    """A pipeline of a file whose action makes work orders, knowing the store that its workflow is in."""
    if spec.action.type != "work_order" or spec.action.config.get("url"):
        return spec
    config = spec.action.config | {"url": store_url}
    action = spec.action.model_copy(update={"config": config})
    return spec.model_copy(update={"action": action}).with_secrets(find_secrets(config))


def _parallelism(own: dict[str, Any], defaults: TriggerDefaults) -> int | None:
    hints = (own.get("consumers", defaults.consumers), own.get("concurrency", defaults.processors))
    return max((hint for hint in hints if hint is not None), default=None)


def source_of(kafka: Resolved) -> dict[str, Any]:
    """The source of a pipeline that reads what a `kafka_configuration` says."""
    config: dict[str, Any] = kafka.value
    topics: dict[str, Any] = (
        {"topic_pattern": config["topic_pattern"]} if config.get("topic_pattern") else {"topics": config["topics"]}
    )
    return {
        "connection": {"bootstrap": hosts_text(config).replace(" ", ""), "consumer_config": client_properties(config)},
        "group": config["group_id"],
        "format": "raw",
        "start": start_of(config),
        **topics,
    }


def client_properties(config: dict[str, Any]) -> dict[str, Any]:
    """Kafka's client properties for Lightning's fields."""
    sasl, ssl = config.get("sasl"), bool(config.get("ssl"))
    seconds = min(config.get("connect_timeout") or DEFAULT_CONNECT_TIMEOUT, _LONGEST_CONNECT)
    properties: dict[str, Any] = {"socket.connection.setup.timeout.ms": max(seconds, 1) * 1000}
    if sasl or ssl:
        properties["security.protocol"] = ("SASL_" if sasl else "") + ("SSL" if ssl else "PLAINTEXT")
    if sasl:
        properties |= {
            "sasl.mechanisms": SASL_MECHANISMS[sasl],
            "sasl.username": config.get("username"),
            "sasl.password": config.get("password"),
        }
    for key, name in _CERTIFICATES:
        if written := config.get(key):
            properties[f"{name}.{'pem' if '-----BEGIN' in written else 'location'}"] = _path_or_pem(written)
    if config.get("ssl_key_password"):
        properties["ssl.key.password"] = config["ssl_key_password"]
    return properties | (config.get("properties") or {})


def _path_or_pem(written: str) -> str:
    return written if "-----BEGIN" in written else str(Path(written).expanduser())
