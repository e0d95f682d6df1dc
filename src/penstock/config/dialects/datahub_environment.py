"""Kafka client properties that DataHub takes from the environment."""

from __future__ import annotations

from collections.abc import Mapping

ENV_PREFIX = "KAFKA_PROPERTIES_"
_ENV_SWITCH = "DATAHUB_ACTIONS_KAFKA_ENV_PROPERTIES_ENABLED"
_ENV_NEVER = {
    "sasl.jaas.config",
    "sasl.client.callback.handler.class",
    "sasl.login.class",
    "sasl.login.callback.handler.class",
    "ssl.protocol",
    "ssl.enabled.protocols",
    "partition.assignment.strategy",
    "group.id",
}
_ENV_NEVER_PREFIXES = ("ssl.keystore", "ssl.truststore", "kafkastore.", "basic.auth.", "schema.registry.")


def env_properties(environ: Mapping[str, str]) -> dict[str, str]:
    """DataHub's `KAFKA_PROPERTIES_X_Y` variables as properties `x.y`, without empty ones and those it never takes."""
    if environ.get(_ENV_SWITCH, "true").strip().lower() == "false":
        return {}
    found: dict[str, str] = {}
    for name, value in environ.items():
        if not name.startswith(ENV_PREFIX) or not value:
            continue
        rest = name.removeprefix(ENV_PREFIX).lower()
        key = "oauth_cb" if rest == "oauth_cb" else rest.replace("_", ".")
        if key not in _ENV_NEVER and not key.startswith(_ENV_NEVER_PREFIXES):
            found[key] = value
    return found
