"""What a pipeline reads: the connection, topics, format and start position, each brought to its normal form."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    BeforeValidator,
    Field,
    SerializeAsAny,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
    field_validator,
    model_serializer,
    model_validator,
)

from penstock.config.model import Model, ProblemAt
from penstock.config.wire import WireSpec
from penstock.core.clock import parse_time
from penstock.core.declarations import PRIVATE, Address, Needs, Plain, Properties
from penstock.core.durations import Duration
from penstock.core.net.guard import AllowPrivate
from penstock.core.pattern import Pattern
from penstock.core.secrets import mask_url

Format = Literal["json", "avro", "text", "raw", "datahub", "wherehows"]
StartPosition = Literal["earliest", "latest"] | int

MANAGED_PROPERTIES = frozenset(
    {
        "group.instance.id",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "auto.commit.interval.ms",
        "partition.assignment.strategy",
    }
)
"""Client properties that Penstock sets itself, because its promises rest on them; given ones are dropped, warned of."""

DATAHUB_ROUTES = {
    "mcl": "MetadataChangeLog_Versioned_v1",
    "mcl_timeseries": "MetadataChangeLog_Timeseries_v1",
    "pe": "PlatformEvent_v1",
}
"""DataHub's routes and topics, used where `topic_routes` names none."""

_RESET_WORDS: dict[str, Literal["earliest", "latest"]] = {
    "earliest": "earliest",
    "smallest": "earliest",
    "beginning": "earliest",
    "latest": "latest",
    "largest": "latest",
    "end": "latest",
}
_START_WANTED = "earliest, latest, a time like 2026-01-01T00:00:00Z, or epoch milliseconds"
_PORT = re.compile(r":\d+$")
_LOOPBACK = re.compile(r"^(127\.0\.0\.1|\[::1\]):")
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def parse_start(start: Any) -> Any:
    """`earliest`, `latest`, or epoch milliseconds."""
    if isinstance(start, bool):
        raise ValueError(f"{_START_WANTED} is wanted, not {start!r}")
    if isinstance(start, int):
        if start < 0:
            raise ValueError(f"{_START_WANTED} is wanted, not {start!r}")
        return start
    if isinstance(start, date):
        return parse_time(start)
    written = str(start).strip()
    if written.lower() in ("earliest", "latest"):
        return written.lower()
    if written.isdecimal():
        return int(written)
    try:
        return parse_time(written)
    except ValueError:
        raise ValueError(f"{_START_WANTED} is wanted, not {start!r}") from None


Start = Annotated[
    Literal["earliest", "latest"] | int,
    BeforeValidator(parse_start),
    WithJsonSchema({"type": ["string", "integer"], "description": f"a position: {_START_WANTED}"}),
]


def check_topic(topic: str) -> str:
    """The topic, if a broker would accept its name."""
    if not _TOPIC.fullmatch(topic) or topic in (".", ".."):
        raise ValueError(f"{topic!r} is no legal topic name: letters, digits, '.', '_' and '-', at most 249 of them")
    return topic


class ConnectionSpec(Model):
    """Where the Kafka cluster and its schema registry are, and how to be let in."""

    bootstrap: Annotated[str, Address("brokers")] = "localhost:9092"
    """Comma list of `host[:port]`."""
    schema_registry_url: Annotated[str | None, Address("urls")] = None
    """Registry base URL; several, separated by commas, are tried in turn."""
    schema_registry_config: Annotated[dict[str, Any], Properties("registry")] = Field(default_factory=dict)
    """Registry client settings, for instance `basic.auth.user.info` or `ssl.ca.location`."""
    allow_private: Annotated[AllowPrivate, PRIVATE] = True
    """False: the registry is contacted at public addresses only; a list of networks and host names opens these as well.
    The instance sets it for documents that come from its store."""
    client_timeout_seconds: int = 60
    """Accepted for DataHub's sake; not used."""
    consumer_config: Annotated[dict[str, Any], Properties("kafka")] = Field(default_factory=dict)
    """Kafka client properties by librdkafka's or Java's names; those for commits, assignor, static membership drop."""

    @field_validator("bootstrap")
    @classmethod
    def _hosts(cls, bootstrap: str) -> str:
        hosts = [host.strip() for host in bootstrap.split(",") if host.strip()]
        if not hosts:
            raise ValueError("a comma list of host:port is wanted, not an empty text")
        for host in hosts:
            if "://" in host:
                raise ValueError(
                    "host:port without a scheme is wanted; say how to connect by consumer_config.security.protocol"
                )
            name, colon, port = host.rpartition(":")
            if colon and not host.endswith("]") and (not name or not port.isdecimal() or not 0 < int(port) < 65536):
                raise ValueError(f"a comma list of host:port is wanted, not {host!r}")
        return ",".join(hosts)

    @field_validator("schema_registry_url")
    @classmethod
    def _addresses_of_registries(cls, urls: str | None) -> str | None:
        for url in (urls or "").split(",") if urls else ():
            parts = urlsplit(url.strip())
            if parts.scheme not in ("http", "https", "mock") or not parts.netloc:
                raise ValueError(f"a URL like http://localhost:8081 is wanted, not {mask_url(url)!r}")
        return urls

    @field_validator("consumer_config")
    @classmethod
    def _without_managed(cls, properties: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in properties.items() if name not in MANAGED_PROPERTIES}

    def shares_cluster(self, other: ConnectionSpec) -> bool:
        """Whether both name a broker that is the same, as far as addresses tell."""
        return not self._addresses().isdisjoint(other._addresses())

    def _addresses(self) -> set[str]:
        hosts = (host.lower() if _PORT.search(host) else f"{host.lower()}:9092" for host in self.bootstrap.split(","))
        return {_LOOPBACK.sub("localhost:", host) for host in hosts}


class KafkaSourceConfig(Model):
    """What a pipeline reads, in which format, and from where on."""

    connection: ConnectionSpec = Field(default_factory=ConnectionSpec)
    """The cluster and its registry."""
    group: str | None = Field(default=None, min_length=1)
    """Consumer group; default: the pipeline's name."""
    topics: list[str] | None = Field(default=None, min_length=1)
    """Topics to read; one name or a list."""
    topic_pattern: str | None = None
    """Regular expression beginning with `^`; topics that match later are picked up."""
    format: Format | None = None
    """How record values are read; default `json`, or `datahub` where neither `topics` nor `topic_pattern` is given."""
    start: Start | None = None
    """Where to begin without a committed offset: `earliest`, `latest` (default), an ISO time, or epoch milliseconds."""
    stateless: bool = False
    """True: no consumer group, every instance sees every event, always beginning at `start`."""
    schema_grace: Duration = 10.0
    """How long an id that the registry does not know is asked for again before the record counts as bad."""
    wherehows: WireSpec | None = None
    """WhereHows: kinds of schema ids and of registries, for `format: wherehows`."""
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

    @field_validator("topics", mode="before")
    @classmethod
    def _one_topic_is_a_list(cls, topics: Any) -> Any:
        return [topics] if isinstance(topics, str) else topics

    @field_validator("topics")
    @classmethod
    def _legal_topics(cls, topics: list[str] | None) -> list[str] | None:
        for topic in topics or ():
            check_topic(topic)
        return list(dict.fromkeys(topics)) if topics else topics

    @field_validator("topic_pattern")
    @classmethod
    def _compiles(cls, pattern: str | None) -> str | None:
        if pattern is None:
            return None
        if not pattern.startswith("^"):
            raise ValueError(f"a regular expression beginning with ^ is wanted, not {pattern!r}")
        Pattern(pattern)
        return pattern

    @model_validator(mode="after")
    def _one_subscription(self) -> Self:
        given = [name for name in ("topics", "topic_pattern", "topic_routes") if getattr(self, name)]
        kind = self.format or ("json" if self.topics or self.topic_pattern else "datahub")
        if len(given) > 1:
            raise ProblemAt([given[1]], f"give either {given[0]} or {given[1]}, not both")
        if kind == "datahub" and given and given != ["topic_routes"]:
            raise ProblemAt(
                given, "format datahub reads topic_routes", hint="name the topics in topic_routes: {mcl: …, pe: …}"
            )
        if kind != "datahub" and self.topic_routes:
            raise ProblemAt(["topic_routes"], "belongs to format datahub", hint="name the topics in topics")
        if kind != "wherehows" and self.wherehows is not None:
            raise ProblemAt(["wherehows"], "belongs to format wherehows")
        if kind != "datahub" and not given:
            raise ProblemAt(["topics"], "required: name the topics to read, or give a topic_pattern")
        self._settle(format=kind)
        return self

    @model_validator(mode="after")
    def _hoist_client_properties(self) -> Self:
        # What has a place of its own in the spec is taken from the client properties, so that nothing says it twice.
        properties = dict(self.connection.consumer_config)
        reset, group = properties.pop("auto.offset.reset", None), properties.pop("group.id", None)
        if reset is not None and self.start is None:
            word = _RESET_WORDS.get(str(reset).strip().lower())
            if word is None:
                path = ["connection", "consumer_config", "auto.offset.reset"]
                raise ProblemAt(path, f"{reset!r} is not allowed", received=reset, allowed=_RESET_WORDS)
            self._settle(start=word)
        if group is not None and self.group not in (None, str(group)):
            raise ProblemAt(["group"], f"says {self.group!r} but consumer_config says group.id {group!r}")
        if group is not None:
            self._settle(group=str(group))
        connection = self.connection.model_copy(update={"consumer_config": properties})
        self._settle(connection=connection)
        return self

    @property
    def start_position(self) -> StartPosition:
        """Where to begin when the group has no offset, default resolved: `earliest`, `latest` or epoch milliseconds."""
        return "latest" if self.start is None else self.start

    @property
    def routes(self) -> dict[str, str]:
        """DataHub's route names and topics, defaults resolved; empty for other formats."""
        return (self.topic_routes or dict(DATAHUB_ROUTES)) if self.format == "datahub" else {}

    @property
    def subscription(self) -> list[str]:
        """What a consumer subscribes to: topic names, or one pattern beginning with `^`."""
        if self.topic_pattern:
            return [self.topic_pattern]
        return list(self.topics) if self.topics else list(dict.fromkeys(self.routes.values()))

    def subscribed(self, topics: Iterable[str]) -> list[str]:
        """Those of these topics that a consumer gets to read."""
        if self.topic_pattern:
            pattern = Pattern(self.topic_pattern)
            return [name for name in topics if pattern.matches(name)]
        wanted = set(self.subscription)
        return [name for name in topics if name in wanted]

    @property
    def max_poll_interval(self) -> float:
        """Seconds after which the broker gives a silent member's partitions away."""
        written = self.connection.consumer_config.get("max.poll.interval.ms", 300_000)
        try:
            return int(str(written)) / 1000
        except ValueError:
            path = ["config", "connection", "consumer_config", "max.poll.interval.ms"]
            raise ProblemAt(["source", *path], f"a whole number of milliseconds is wanted, not {written!r}") from None


class ForeignSourceConfig(KafkaSourceConfig):
    """The keys of another source than Kafka, as only it knows them. To the rest of Penstock it is a source without
    topics, group and log."""

    connection: Annotated[ConnectionSpec, Plain("not used: the source has keys of its own")] = Field(
        default_factory=ConnectionSpec
    )
    """Not used."""
    own: dict[str, Any] = Field(default_factory=dict)
    """As written."""

    @model_validator(mode="before")
    @classmethod
    def _as_one(cls, data: Any) -> Any:
        return {"own": dict(data)} if isinstance(data, dict) else data

    @model_validator(mode="after")
    def _one_subscription(self) -> Self:
        self._settle(format="envelope", stateless=True)
        return self

    @model_serializer
    def _as_written(self) -> dict[str, Any]:
        return self.own


def _foreign_is_done(config: Any, check: ValidatorFunctionWrapHandler) -> Any:
    # What Kafka's keys must be like is no rule for another source's.
    return config if isinstance(config, ForeignSourceConfig) else check(config)


def is_foreign_type(written: object) -> bool:
    """Whether a `source.type` names another source than Kafka."""
    return isinstance(written, str) and written not in ("", "kafka")


class SourceSpec(Model):
    """Where events come from."""

    type: Annotated[str, Needs("import", "a source that a package brings", is_foreign_type)] = Field(
        default="kafka", min_length=1
    )
    """`kafka`; or a source written for DataHub: its registered name, `package.module:Class`, or `./file.py:Class`."""
    config: Annotated[SerializeAsAny[KafkaSourceConfig], WrapValidator(_foreign_is_done)] = Field(
        default_factory=KafkaSourceConfig
    )
    """The source's own keys; those of `kafka` are below."""

    @model_validator(mode="before")
    @classmethod
    def _keys_of_another(cls, data: Any) -> Any:
        # First: to the model of Kafka's keys those of another source would all be unknown.
        if not isinstance(data, dict) or not is_foreign_type(data.get("type")):
            return data
        config = data.get("config")
        if not isinstance(config, dict | KafkaSourceConfig | None):
            raise ProblemAt(["config"], f"a map is wanted, not {type(config).__name__}")
        return data | {"config": ForeignSourceConfig.model_validate({} if config is None else config)}

    @property
    def is_foreign(self) -> bool:
        """Whether events come from another source than Kafka."""
        return isinstance(self.config, ForeignSourceConfig)
