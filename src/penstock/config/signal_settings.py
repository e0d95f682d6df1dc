"""Settings of the signals that go out to other systems: lineage, errors, figures."""

from __future__ import annotations

from pydantic import Field, field_validator

from penstock.config.model import Model
from penstock.core.durations import Duration
from penstock.core.secrets import Secret


def _address(url: str | None) -> str | None:
    if url is not None and not url.startswith(("http://", "https://")):
        raise ValueError("an address that begins with http:// or https:// is wanted")
    return url


class LineageSettings(Model):
    """OpenLineage events of pipelines; needs `penstock[openlineage]`."""

    url: str | None = None
    """Where OpenLineage events are sent (`http://marquez:5000`); absent: nowhere."""
    endpoint: str = "api/v1/lineage"
    """Path below the address."""
    api_key: Secret | None = None
    """Sent as bearer token."""
    namespace: str = Field(default="penstock", min_length=1)
    """Namespace of the jobs, each of which is a pipeline."""
    every: Duration = Field(default=60.0, ge=1.0)
    """A pipeline that runs is reported again after this time, if it has read anything."""

    _checked = field_validator("url")(_address)


class SentrySettings(Model):
    """Errors to Sentry; needs `penstock[sentry]`."""

    dsn: Secret | None = None
    """Sentry's address for the project; absent: nothing is sent."""
    environment: str = "production"
    """Name of the environment that the errors are filed under."""


class OtelSettings(Model):
    """Figures to OpenTelemetry; needs `penstock[otel]`."""

    enabled: bool = False
    """True: the metrics are offered to the meter provider of the process, as `opentelemetry-instrument` sets one up."""
