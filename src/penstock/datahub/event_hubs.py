"""The token callback for Azure Event Hubs, named `datahub_actions.utils.kafka_eventhubs_auth:oauth_cb` in files."""

from __future__ import annotations

import os
from typing import Any

from penstock.core.errors import ConfigError, PluginError

_NAMESPACE = "AZURE_EVENT_HUBS_NAMESPACE"


def oauth_cb(oauth_config: Any) -> tuple[str, float]:  # noqa: ARG001 - the Kafka client's signature
    """A token of Azure's default credentials and when it ends, in epoch seconds."""
    try:
        from azure.identity import DefaultAzureCredential  # noqa: PLC0415 - an extra
    except ImportError as error:
        hint = "install azure-identity or penstock[datahub]"
        raise PluginError("tokens for Azure Event Hubs need azure-identity", hint=hint) from error
    namespace = os.environ.get(_NAMESPACE)
    if not namespace:
        raise ConfigError(f"{_NAMESPACE} is not set", hint="it is the part before .servicebus.windows.net")
    host = namespace if "." in namespace else f"{namespace}.servicebus.windows.net"
    token = DefaultAzureCredential().get_token(f"https://{host}/.default")
    return token.token, float(token.expires_on)
