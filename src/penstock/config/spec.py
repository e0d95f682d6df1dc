"""`PipelineSpec`: the one validated model that every dialect compiles to."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from penstock.core.durations import Duration, Rate


class Model(BaseModel):
    """Base of all configuration models: frozen, unknown keys are errors, docstrings under fields become the reference."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class StepSpec(Model):
    """A filter, transform or action: its registered type or import path, and its own configuration."""

    type: str
    """Registered name (`penstock plugins` lists them), import path `package.module:Class`, or file path `./file.py:Class`."""
    config: dict[str, Any] = Field(default_factory=dict)
    """The plug-in's own keys."""


class ConnectionSpec(Model):
    """Where the Kafka cluster and its schema registry are, and how to be let in."""

    bootstrap: str = "localhost:9092"
    """Comma list of `host[:port]`."""
    schema_registry_url: str | None = None
    """Registry base URL; several, separated by commas, are tried in turn."""
    schema_registry_config: dict[str, Any] = Field(default_factory=dict)
    """Registry client settings, for instance `basic.auth.user.info` or `ssl.ca.location`."""
    client_timeout_seconds: int = 60
    """Accepted for DataHub's sake; not used."""
    consumer_config: dict[str, Any] = Field(default_factory=dict)
    """Kafka client properties, librdkafka's or Java's names."""


class KafkaSourceConfig(Model):
    """What a pipeline reads, in which format, and from where on."""

    connection: ConnectionSpec = Field(default_factory=ConnectionSpec)
    """The cluster and its registry."""
    group: str | None = None
    """Consumer group; default: the pipeline's name."""
    topics: list[str] | None = None
    """Topics to read."""
    topic_pattern: str | None = None
    """Regular expression beginning with `^`; topics that match later are picked up."""
    format: Literal["json", "avro", "text", "raw", "datahub", "wherehows"] | None = None
    """How record values are read; default `datahub` where neither `topics` nor `topic_pattern` is given, else `json`."""
    start: str | int | None = None
    """Where to begin when the group has no offset: `earliest`, `latest`, an ISO time, or epoch milliseconds. Default `latest`."""
    stateless: bool = False
    """True: no consumer group, every instance sees every event, always beginning at `start`."""
    schema_grace: Duration = 10.0
    """How long an id that the registry does not know is asked for again before the record counts as bad."""
    topic_routes: dict[str, str] | None = None
    """DataHub: route name to topic; a given map replaces the defaults."""
    async_commit_enabled: bool | None = None
    """DataHub: accepted; Penstock commits once per window, after the work is done."""
    async_commit_interval: int | None = None
    """DataHub: accepted; Penstock commits once per window."""
    commit_retry_count: int | None = None
    """DataHub: accepted; Penstock retries a commit until it succeeds or the partition is lost."""
    commit_retry_backoff: float | None = None
    """DataHub: accepted; see `commit_retry_count`."""
    enable_mcl_pre_deserialization_filter: bool = True
    """DataHub: filters that need only a few fields are answered before the full decode."""


class SourceSpec(Model):
    """Where events come from."""

    type: str = "kafka"
    """`kafka`."""
    config: KafkaSourceConfig = Field(default_factory=KafkaSourceConfig)
    """The source's own keys."""


class RetrySpec(Model):
    """How often, and how soon, a failed event is tried again."""

    attempts: int = Field(default=1, ge=1)
    """Attempts in all, the first one included."""
    backoff: Duration = 1.0
    """Wait before the second attempt."""
    factor: float = Field(default=2.0, ge=1.0)
    """Each further wait is longer by this factor."""
    max_backoff: Duration = 60.0
    """No wait is longer than this."""
    jitter: float = Field(default=0.2, ge=0.0, le=1.0)
    """Each wait is moved at random by up to this share of itself."""
    max_age: Duration | None = None
    """No attempt begins later than this after the first one."""


class DeadLetterSpec(Model):
    """Where failed events go besides the store."""

    topic: str | None = None
    """Also produce dead letters to this topic."""
    file: str | None = None
    """Also append dead letters to this JSON-lines file."""


class BreakerSpec(Model):
    """When a pipeline pauses itself because too much fails."""

    enabled: bool = True
    """False: never pause by itself."""
    ratio: float = Field(default=0.5, gt=0.0, le=1.0)
    """Share of failures at which the pipeline pauses."""
    window: int = Field(default=50, ge=1)
    """Number of latest events over which the share is taken."""
    resume_after: Duration | None = None
    """Resume with a trial window after this time; absent: a person resumes."""


class WindowSpec(Model):
    """How long and how large one window of the pipeline may be."""

    deadline: Duration = 1.0
    """A window ends after this time, and its work is committed."""
    linger: Duration = 0.1
    """How long a batch action waits for more events before it acts on what it has."""
    max_records: int = Field(default=100_000, ge=1)
    """A window reads no more events than this per unit."""


class OptionsSpec(Model):
    """How the pipeline runs."""

    failure_mode: Literal["CONTINUE", "THROW"] = "CONTINUE"
    """After a failure: write a dead letter and go on, or stop the pipeline at the event."""
    retry: RetrySpec = Field(default_factory=RetrySpec)
    """Retries."""
    timeout: Duration = 30.0
    """An event that is acted on for longer fails."""
    deferral_timeout: Duration = 300.0
    """How long an event whose acknowledgement was deferred may stay open."""
    drain_timeout: Duration = 15.0
    """How long a revoked partition may take to finish its work."""
    concurrency: int = Field(default=1, ge=1, le=10_000)
    """Events acted on side by side in one unit."""
    ordering: Literal["partition", "key", "none"] | None = None
    """What stays in order; default `partition`, or `key` where `concurrency` is above 1."""
    parallelism: int | None = Field(default=None, ge=1)
    """Number of action objects of a class plug-in per instance; default 1. Built-in actions are spread as the load asks."""
    rate_limit: Rate | None = None
    """Events per second over all instances."""
    dead_letter: DeadLetterSpec = Field(default_factory=DeadLetterSpec)
    """Further homes of dead letters."""
    breaker: BreakerSpec = Field(default_factory=BreakerSpec)
    """The breaker."""
    window: WindowSpec = Field(default_factory=WindowSpec)
    """Window limits."""
    retry_count: int | None = Field(default=None, ge=0)
    """DataHub: retries after the first attempt."""
    failed_events_dir: str | None = None
    """DataHub: folder of `failed_events.log` files."""


class PipelineSpec(Model):
    """One named flow: source, filters, transforms, action, options."""

    name: str = Field(min_length=1)
    """Unique; also the consumer group, unless `source.config.group` says otherwise."""
    enabled: bool = True
    """False: the pipeline is not started."""
    source: SourceSpec
    """Where events come from."""
    filters: list[StepSpec] = Field(default_factory=list)
    """All must let an event pass."""
    transform: list[StepSpec] = Field(default_factory=list)
    """Applied in order."""
    action: StepSpec
    """What is done with each event."""
    options: OptionsSpec = Field(default_factory=OptionsSpec)
    """How the pipeline runs."""
    datahub: dict[str, Any] | None = None
    """DataHub: client of the catalogue, given to plug-ins as `ctx.graph`."""

    _origin: str | None = PrivateAttr(default=None)

    @property
    def group(self) -> str:
        """The consumer group."""
        return self.source.config.group or self.name

    @property
    def ordering(self) -> Literal["partition", "key", "none"]:
        """What stays in order, default resolved."""
        return self.options.ordering or ("key" if self.options.concurrency > 1 else "partition")

    @property
    def origin(self) -> str | None:
        """The file this spec was read from."""
        return self._origin

    def with_origin(self, origin: str | None) -> PipelineSpec:
        """The same spec, knowing its file."""
        spec = self.model_copy()
        spec._origin = origin
        return spec
