"""`PipelineSpec`: the one validated model that every dialect compiles to."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import orjson
from pydantic import Field, PrivateAttr, field_validator, model_validator

from penstock.config.model import Model, ProblemAt
from penstock.config.remote import is_url
from penstock.config.source import ConnectionSpec, Format, KafkaSourceConfig, SourceSpec, StartPosition, check_topic
from penstock.core.declarations import FILE, REFERABLE, SECRET, Address, Keys, Needs, Plugins
from penstock.core.durations import Duration, Rate
from penstock.core.secrets import Scrubber, find_secrets, masked
from penstock.core.sizes import Size

__all__ = [
    "DATAHUB_KEYS",
    "BreakerSpec",
    "ConnectionSpec",
    "DeadLetterSpec",
    "Format",
    "KafkaSourceConfig",
    "Model",
    "OptionsSpec",
    "PipelineSpec",
    "RetrySpec",
    "SourceSpec",
    "StartPosition",
    "StepSpec",
    "WindowSpec",
]

DATAHUB_KEYS = frozenset(
    {
        "auth",
        "ca_certificate_path",
        "client_certificate_path",
        "client_key_path",
        "client_mode",
        "datahub_component",
        "default_emit_mode",
        "disable_ssl_verification",
        "extra_headers",
        "openapi_ingestion",
        "pool_connections",
        "pool_maxsize",
        "respect_mcp_sync_marker",
        "retry_max_times",
        "retry_status_codes",
        "server",
        "server_config_refresh_interval",
        "tcp_keepalive",
        "timeout_sec",
        "token",
    }
)
"""Keys of the `datahub` block."""
_DATAHUB = Keys(
    {
        "auth": (Needs("import", "a way to log in that a package brings"),),
        "ca_certificate_path": (FILE,),
        "client_certificate_path": (FILE,),
        "client_key_path": (FILE,),
        "extra_headers": (REFERABLE,),
        "server": (Address("url"), REFERABLE),
        "token": (SECRET,),
    }
)

_EXCEPTION = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_LONGEST = 86_400.0
"""No event is waited for longer than a day: it would hold its partition, and a mistake in the unit is likelier."""
_REVOKE_MARGIN = 10.0
"""Seconds that a revoke may take beyond `drain_timeout`: cancelling, settling, committing; of a short poll interval, a
quarter."""


class StepSpec(Model):
    """A filter, transform or action: its registered type or import path, and its own configuration."""

    type: str = Field(min_length=1)
    """Registered name (`penstock plugins` lists them), import path `package.module:Class`, or `./file.py:Class`."""
    config: dict[str, Any] = Field(default_factory=dict)
    """The plug-in's own keys."""


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
    on: list[str] = Field(default_factory=list)
    """Exceptions that are tried again, by class name, with its module or without; absent: all but terminal ones."""
    never: list[str] = Field(default_factory=list)
    """Exceptions that are not tried again, by class name; stronger than `on`."""
    scope: Literal["stage", "chain"] = "stage"
    """What a retry repeats: the stage that failed, or the whole chain from an unchanged copy of the event."""

    @field_validator("on", "never", mode="before")
    @classmethod
    def _one_is_a_list(cls, names: Any) -> Any:
        return [names] if isinstance(names, str) else names

    @field_validator("on", "never")
    @classmethod
    def _class_names(cls, names: list[str]) -> list[str]:
        for index, name in enumerate(names):
            if not _EXCEPTION.fullmatch(name):
                raise ProblemAt([index], f"the name of an exception's class is wanted, not {name!r}", received=name)
        return names

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if self.max_backoff < self.backoff:
            to_blame = "max_backoff" if "max_backoff" in self.model_fields_set else "backoff"
            raise ProblemAt(
                [to_blame], f"the longest wait, {self.max_backoff:g} s, is shorter than the first, {self.backoff:g} s"
            )
        for name in self.on:
            if name in self.never:
                raise ProblemAt(["never", self.never.index(name)], f"{name} is in `on` too", received=name)
        return self


class DeadLetterSpec(Model):
    """Where failed events go besides the store."""

    topic: str | None = None
    """Also produce dead letters to this topic."""
    file: Annotated[str | None, FILE] = None
    """Also append dead letters to this JSON-lines file; a relative path starts at the pipeline file's folder."""
    rotate: Size = 100_000_000
    """A file that would grow beyond this is renamed to `file.1`, `file.2`, … (the highest is the newest)."""

    @field_validator("topic")
    @classmethod
    def _legal(cls, topic: str | None) -> str | None:
        return check_topic(topic) if topic else None


class BreakerSpec(Model):
    """When a pipeline pauses itself because too much fails."""

    enabled: bool = True
    """False: never pause by itself."""
    ratio: float = Field(default=0.5, gt=0.0, le=1.0)
    """Share of failures at which the pipeline pauses."""
    window: int = Field(default=50, ge=1)
    """Number of latest events over which the share is taken."""
    resume_after: Duration | None = Field(default=None, gt=0)
    """Resume with a trial window after this time; absent: a person resumes."""


class WindowSpec(Model):
    """How long and how large one window of the pipeline may be."""

    deadline: Duration = Field(default=1.0, gt=0)
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
    timeout: Duration = Field(default=30.0, gt=0, le=_LONGEST)
    """An event that is acted on for longer fails."""
    deferral_timeout: Duration = Field(default=300.0, gt=0, le=_LONGEST)
    """How long an event whose acknowledgement was deferred may stay open."""
    drain_timeout: Duration = 15.0
    """How long a revoked partition may take to finish its work."""
    concurrency: int = Field(default=1, ge=1, le=10_000)
    """Events acted on side by side in one unit."""
    ordering: Literal["partition", "key", "none"] | None = None
    """What stays in order; default `partition`, or `key` where `concurrency` is above 1."""
    parallelism: int | None = Field(default=None, ge=1)
    """Number of action objects of a class plug-in per instance; default 1. Built-in actions spread as the load asks."""
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
    failed_events_dir: Annotated[str | None, FILE] = None
    """DataHub: folder of `failed_events.log` files."""

    @field_validator("failure_mode", mode="before")
    @classmethod
    def _any_case(cls, mode: Any) -> Any:
        return mode.strip().upper() if isinstance(mode, str) else mode

    @model_validator(mode="after")
    def _count_attempts(self) -> Self:
        if self.retry_count is None:
            return self
        attempts = self.retry_count + 1
        if "attempts" in self.retry.model_fields_set and self.retry.attempts != attempts:
            raise ProblemAt(
                ["retry_count"],
                f"{self.retry_count} retries contradict retry.attempts, which is {self.retry.attempts}",
                hint="attempts count the first one too",
            )
        self._settle(retry=self.retry.model_copy(update={"attempts": attempts}))
        return self

    @model_validator(mode="after")
    def _leaves_room_for_retries(self) -> Self:
        retry = self.retry
        if retry.attempts > 1 and retry.max_age is not None and retry.max_age < retry.backoff:
            raise ProblemAt(
                ["retry", "max_age"],
                f"{retry.max_age:g} s is over before the second attempt, which waits {retry.backoff:g} s",
                hint="raise max_age, or shorten backoff",
            )
        return self


class PipelineSpec(Model):
    """One named flow: source, filters, transforms, action, options."""

    name: str = Field(min_length=1)
    """Unique; also the consumer group, unless `source.config.group` says otherwise."""
    enabled: bool = True
    """False: the pipeline is not started."""
    source: SourceSpec
    """Where events come from."""
    filters: Annotated[list[StepSpec], Plugins("filter")] = Field(default_factory=list)
    """All must let an event pass."""
    transform: Annotated[list[StepSpec], Plugins("transform")] = Field(default_factory=list)
    """Applied in order."""
    action: Annotated[StepSpec, Plugins("action")]
    """What is done with each event."""
    options: OptionsSpec = Field(default_factory=OptionsSpec)
    """How the pipeline runs."""
    datahub: Annotated[dict[str, Any] | None, _DATAHUB] = None
    """DataHub: client of the catalogue, given to plug-ins as `ctx.graph`."""

    _origin: str | None = PrivateAttr(default=None)
    _secrets: frozenset[str] = PrivateAttr(default=frozenset())

    @field_validator("name")
    @classmethod
    def _visible(cls, name: str) -> str:
        if name != name.strip() or not name.isprintable():
            raise ValueError(f"a name without blanks around it and without control characters is wanted, not {name!r}")
        return name

    @field_validator("datahub")
    @classmethod
    def _known_keys(cls, datahub: dict[str, Any] | None) -> dict[str, Any] | None:
        for key in datahub or ():
            if key not in DATAHUB_KEYS:
                raise ProblemAt([key], "unknown key", allowed=sorted(DATAHUB_KEYS))
        if datahub is not None and not datahub.get("server"):
            raise ProblemAt(["server"], "required")
        if datahub is not None and datahub.get("token") and datahub.get("auth"):
            raise ProblemAt(["auth"], "give either token or auth, not both")
        return datahub

    @model_validator(mode="after")
    def _drains_before_eviction(self) -> Self:
        limit = self.source.config.max_poll_interval
        margin = _REVOKE_MARGIN if limit >= 3 * _REVOKE_MARGIN else limit / 4
        if self.options.drain_timeout + margin >= limit:
            raise ProblemAt(
                ["options", "drain_timeout"],
                f"{self.options.drain_timeout:g} s is too long for max.poll.interval.ms, which is {limit:g} s",
                hint=f"it must stay more than {margin:g} s below",
            )
        return self

    @model_validator(mode="after")
    def _as_a_foreign_source_can(self) -> Self:
        if not self.source.is_foreign:
            return self
        for key in ("concurrency", "parallelism"):
            if (getattr(self.options, key) or 1) > 1:
                path = ["options", key]
                raise ProblemAt(path, f"a source of type {self.source.type!r} gives one event after the other")
        if self.options.dead_letter.topic:
            path = ["options", "dead_letter", "topic"]
            raise ProblemAt(path, "belongs to pipelines that read from Kafka", hint="use dead_letter.file")
        return self

    def model_post_init(self, _context: Any) -> None:
        self._secrets = frozenset(find_secrets(self.model_dump()))

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
        """The file or address this spec was read from."""
        return self._origin

    @property
    def folder(self) -> str | None:
        """The folder of its file, where relative paths and modules are looked up first."""
        return None if self._origin is None or is_url(self._origin) else str(Path(self._origin).parent)

    def with_origin(self, origin: str | None) -> PipelineSpec:
        """The same spec, knowing its file."""
        spec = self.model_copy()
        spec._origin = origin  # noqa: SLF001 - a copy of its own kind
        return spec

    @property
    def secrets(self) -> frozenset[str]:
        """Secret values in this spec, for scrubbing whatever leaves the pipeline."""
        return self._secrets

    def with_secrets(self, secrets: Iterable[str]) -> PipelineSpec:
        """The same spec, knowing further secret values (those read from files, for instance)."""
        spec = self.model_copy()
        spec._secrets = self._secrets | frozenset(secrets)  # noqa: SLF001 - a copy of its own kind
        return spec

    @property
    def version(self) -> str:
        """Short hash of the content: the same for the same spec on every instance, another after any change."""
        content = orjson.dumps(self.model_dump(), default=str, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)
        return hashlib.sha256(content).hexdigest()[:12]

    def shown(self) -> dict[str, Any]:
        """The spec as plain data with its secrets masked, also where a reference has put one under a harmless name."""
        scrub = Scrubber(self.secrets).scrub
        shown: dict[str, Any] = _scrubbed(masked(self.model_dump(mode="json", exclude_none=True)), scrub)
        return shown


def _scrubbed(value: Any, scrub: Callable[[str], str]) -> Any:
    if isinstance(value, dict):
        return {key: _scrubbed(item, scrub) for key, item in value.items()}
    if isinstance(value, list):
        return [_scrubbed(item, scrub) for item in value]
    return scrub(value) if isinstance(value, str) else value
