"""The token callback for Amazon MSK that configuration files name as `datahub_actions.utils.kafka_msk_iam:oauth_cb`."""

from __future__ import annotations

import os
from typing import Any

from penstock.core.errors import PluginError


def oauth_cb(oauth_config: Any) -> tuple[str, float]:  # noqa: ARG001 - the Kafka client's signature
    """A signed token and when it ends, in epoch seconds."""
    try:
        from aws_msk_iam_sasl_signer import MSKAuthTokenProvider  # noqa: PLC0415 - an extra
    except ImportError as error:
        hint = "install aws-msk-iam-sasl-signer-python or penstock[datahub]"
        raise PluginError("tokens for Amazon MSK need aws-msk-iam-sasl-signer-python", hint=hint) from error
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
    token, ends_ms = MSKAuthTokenProvider.generate_auth_token(region=region)
    return token, float(ends_ms) / 1000
