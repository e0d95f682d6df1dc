"""Settings of an instance: `penstock.yaml`, and `PENSTOCK_<SECTION>_<KEY>` variables that go before it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, Field, PrivateAttr, ValidationError, field_validator, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from penstock.config.documents import Document, read_documents
from penstock.config.expansion import expand_document
from penstock.config.http_settings import ApiSettings, HttpSettings, MaskingSettings, OidcSettings
from penstock.config.model import Model, ProblemAt
from penstock.config.problems import InvalidConfigError, Problem, did_you_mean, dotted
from penstock.config.signal_settings import LineageSettings, OtelSettings, SentrySettings
from penstock.config.translation import problems_of
from penstock.core.durations import Duration
from penstock.core.secrets import MASK, Secret, find_secrets, masked
from penstock.core.sizes import Size

_PREFIX = "PENSTOCK_"
_SPARK_CONF = "PENSTOCK_SPARK_CONF_"
_FILE = "penstock.yaml"


class StoreSettings(Model):
    """Penstock's own database."""

    url: str | None = None
    """SQLAlchemy URL, SQLite or PostgreSQL; default `sqlite:///<home>/penstock.db`."""


class SparkSettings(Model):
    """The Spark that runs the windows."""

    master: str = Field(default="local", min_length=1)
    """`local` (Penstock chooses the number of threads), `local[N]`, `spark://host:port`, `yarn` or `k8s://…`."""
    conf: dict[str, str] = Field(default_factory=dict)
    """Spark properties; they go before Penstock's own. As variables: `PENSTOCK_SPARK_CONF_SPARK_UI_ENABLED` is
    `spark.ui.enabled`; where capitals matter, `PENSTOCK_SPARK_CONF_spark__driver__bindAddress` keeps them."""

    @field_validator("conf", mode="before")
    @classmethod
    def _texts(cls, conf: Any) -> Any:
        if not isinstance(conf, dict):
            return conf
        for name in conf:
            if not str(name).startswith("spark."):
                raise ProblemAt([str(name)], "is no Spark property", hint="their names begin with spark.")
        spoken = {True: "true", False: "false"}
        return {name: spoken[value] if isinstance(value, bool) else str(value) for name, value in conf.items()}


class EngineSettings(Model):
    """How the instance spreads its work."""

    carpool_lanes: int | None = Field(default=None, ge=1)
    """Lanes that carry the warm pipelines; default: chosen from the number of cores."""
    hot_lanes: int | None = Field(default=None, ge=0)
    """Lanes for pipelines with a backlog; default: chosen from the number of cores."""
    pinned_lanes: int | None = Field(default=None, ge=0)
    """Lanes for action objects of class plug-ins; default: chosen from their number."""
    session_timeout: Duration = Field(default=10.0, gt=0)
    """The broker gives a silent instance's partitions away after this time."""
    stop_timeout: Duration = 30.0
    """A stop takes no longer than this."""
    reload: Duration = 30.0
    """Pipeline files are watched, and pipelines that have changed are restarted; WhereHows jobs in a database are
    looked at again after this time. 0: neither."""
    worker_memory: Size | None = Field(default=None, ge=256_000_000)
    """Memory that a worker process may take, on local masters; an event that wants more fails. Default: a
    quarter of the machine's."""


def carpool_lanes(engine: EngineSettings) -> int:
    """Lanes for the warm pipelines on this machine, default resolved."""
    return engine.carpool_lanes or min(os.cpu_count() or 1, 4)


class DeadLetterSettings(Model):
    """How the store keeps dead letters."""

    inline_size: Size = 1_000_000
    """Larger values are kept as files beside a SQLite store, in `payloads`; PostgreSQL keeps them itself."""
    keep_for: Duration | None = Field(default=None, gt=0)
    """Replayed and discarded letters are deleted when nothing has happened to them for this time; absent: never."""
    keep_count: int | None = Field(default=None, ge=0)
    """Beyond so many letters, the oldest replayed and discarded ones are deleted; absent: no limit."""
    delete_open: bool = False
    """True: `keep_for` and `keep_count` also delete letters that are new or parked, and their events are lost."""
    max_replays: int = Field(default=3, ge=1)
    """A letter is parked when so many replays of it have failed."""


class SmtpSettings(Model):
    """The mail server by which admins of projects are told of failures."""

    url: str | None = None
    """`smtp://user:password@host:587?starttls=yes` or `smtps://…`; `&from=` names the sender. Absent: no mails."""


class LogSettings(Model):
    """What the instance says about itself."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """Least important kind of message that is written."""
    format: Literal["console", "json"] = "console"
    """For people or for machines."""
    output: Literal["stderr", "split"] = "stderr"
    """Where messages go: all to standard error, or (`split`) only errors, and the others to standard output."""

    @field_validator("level", "format", "output", mode="before")
    @classmethod
    def _any_case(cls, word: Any) -> Any:
        return word.strip().lower() if isinstance(word, str) else word


class Settings(BaseSettings):
    """Settings of an instance."""

    model_config = SettingsConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, hide_input_in_errors=True
    )

    home: Path = Path("~/.penstock")
    """Folder of the store, caches and Spark's class-data archive."""
    store: StoreSettings = Field(default_factory=StoreSettings)
    """The store."""
    spark: SparkSettings = Field(default_factory=SparkSettings)
    """Spark."""
    http: HttpSettings = Field(default_factory=HttpSettings)
    """The HTTP server."""
    oidc: OidcSettings = Field(default_factory=OidcSettings)
    """The OpenID provider."""
    api: ApiSettings = Field(default_factory=ApiSettings)
    """The API."""
    masking: MaskingSettings = Field(default_factory=MaskingSettings)
    """What is not shown of events."""
    engine: EngineSettings = Field(default_factory=EngineSettings)
    """The engine."""
    dead_letters: DeadLetterSettings = Field(default_factory=DeadLetterSettings)
    """Dead letters."""
    smtp: SmtpSettings = Field(default_factory=SmtpSettings)
    """Mails."""
    log: LogSettings = Field(default_factory=LogSettings)
    """Logs."""
    lineage: LineageSettings = Field(default_factory=LineageSettings)
    """OpenLineage."""
    sentry: SentrySettings = Field(default_factory=SentrySettings)
    """Sentry."""
    otel: OtelSettings = Field(default_factory=OtelSettings)
    """OpenTelemetry."""

    _file: Path | None = PrivateAttr(default=None)
    _warnings: tuple[Problem, ...] = PrivateAttr(default=())

    @classmethod
    def load(cls, environ: Mapping[str, str] | None = None, cwd: Path | None = None) -> Settings:
        """Settings from the file, if there is one, and the environment; `InvalidConfigError` names all mistakes."""
        variables = os.environ if environ is None else environ
        folder = cwd or Path.cwd()
        file = _find_file(variables, folder)
        document = _read(file)
        expanded = expand_document(document, document.data, dict(variables))
        if expanded.problems:
            raise InvalidConfigError(expanded.problems)
        given = _Environment(variables)
        sources = (_Given(cls, given.data), _Given(cls, expanded.data))
        try:
            settings = cls(_build_sources=(sources, {}))
        except ValidationError as error:
            found = problems_of(error, cls, document, expanded.secrets | find_secrets(given.data))
            raise InvalidConfigError([given.blamed(problem) for problem in found]) from None
        home = _absolute(settings.home, variables, folder if "home" in given.data or file is None else file.parent)
        return settings._placed(home, file, tuple(given.warnings()))

    def _placed(self, home: Path, file: Path | None, warnings: tuple[Problem, ...]) -> Self:
        url = self.store.url or f"sqlite:///{home / 'penstock.db'}"
        placed = self.model_copy(update={"home": home, "store": self.store.model_copy(update={"url": url})})
        placed._file, placed._warnings = file, warnings  # noqa: SLF001 - a copy of its own kind
        return placed

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, data: Any) -> Any:
        return {key: value for key, value in data.items() if value is not None} if isinstance(data, dict) else data

    @model_validator(mode="after")
    def _knows_its_provider(self) -> Self:
        for key in ("issuer", "client_id"):
            if self.http.auth == "oidc" and not getattr(self.oidc, key):
                raise ProblemAt(["oidc", key], "required: http.auth is oidc")
        return self

    @property
    def is_https(self) -> bool:
        """Whether people reach the console over TLS, here or at a proxy, as far as the settings know."""
        return self.http.is_https or (self.oidc.address or "").startswith("https://")

    @property
    def store_url(self) -> str:
        """The store's URL, default resolved."""
        return self.store.url or f"sqlite:///{self.home.expanduser() / 'penstock.db'}"

    @property
    def file(self) -> Path | None:
        """The file these settings came from."""
        return self._file

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """Variables that look like settings but are none."""
        return self._warnings

    @property
    def secrets(self) -> frozenset[str]:
        """Secret values in the settings, for scrubbing."""
        given = (value for _, section in self if isinstance(section, BaseModel) for _, value in section)
        declared = {value.reveal() for value in given if isinstance(value, Secret)}
        return frozenset(find_secrets(self.model_dump()) - {MASK}) | declared

    def shown(self) -> dict[str, Any]:
        """The settings as plain data with secrets masked."""
        shown: dict[str, Any] = masked(self.model_dump(mode="json"))
        return shown


class _Given(PydanticBaseSettingsSource):
    """Values that were read already, as a source of settings."""

    def __init__(self, settings_cls: type[BaseSettings], data: dict[str, Any]) -> None:
        super().__init__(settings_cls)
        self._data = data

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:  # noqa: ARG002 - inherited
        return self._data.get(field_name), field_name, False

    def __call__(self) -> dict[str, Any]:
        return self._data


class _Environment:
    """The `PENSTOCK_*` variables as nested data, knowing which key came from which variable."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.data: dict[str, Any] = {}
        self._names: dict[str, str] = {}
        self._unknown: list[str] = []
        keys = _keys_by_variable()
        for name, value in sorted(environ.items()):
            if not name.startswith(_PREFIX) or not value.strip():
                continue
            if name.startswith(_SPARK_CONF):
                self._put(name, ("spark", "conf", _spark_property(name.removeprefix(_SPARK_CONF))), value)
            elif name in keys:
                self._put(name, keys[name], value)
            elif any(name.startswith(f"{_PREFIX}{section.upper()}_") for section in Settings.model_fields):
                self._unknown.append(name)

    def _put(self, name: str, path: tuple[str, ...], value: str) -> None:
        here = self.data
        for key in path[:-1]:
            here = here.setdefault(key, {})
        here[path[-1]] = value
        self._names[dotted(path)] = name

    def blamed(self, problem: Problem) -> Problem:
        """The problem, at the variable that caused it if one did."""
        name = self._names.get(problem.path)
        return problem if name is None else replace(problem, file=f"variable {name}", line=None, column=None)

    def warnings(self) -> Iterator[Problem]:
        for name in self._unknown:
            hint = did_you_mean(name, list(_keys_by_variable()))
            yield Problem(file=f"variable {name}", message="is no setting", hint=hint)


def _keys_by_variable() -> dict[str, tuple[str, ...]]:
    keys: dict[str, tuple[str, ...]] = {}
    for section, info in Settings.model_fields.items():
        model = info.annotation
        if isinstance(model, type) and issubclass(model, BaseModel):
            keys |= {f"{_PREFIX}{section}_{key}".upper(): (section, key) for key in model.model_fields}
        else:
            keys[f"{_PREFIX}{section}".upper()] = (section,)
    del keys["PENSTOCK_SPARK_CONF"]  # a map; its entries have variables of their own
    return keys


def _spark_property(name: str) -> str:
    return name.replace("__", ".") if "__" in name else name.lower().replace("_", ".")


def _find_file(environ: Mapping[str, str], cwd: Path) -> Path | None:
    named = environ.get("PENSTOCK_CONFIG")
    if named:
        return _absolute(Path(named), environ, cwd)
    home = _absolute(Path(environ.get("PENSTOCK_HOME") or "~/.penstock"), environ, cwd)
    return next((file for file in (cwd / _FILE, home / _FILE) if file.is_file()), None)


def _absolute(path: Path, environ: Mapping[str, str], folder: Path) -> Path:
    if path.parts[:1] == ("~",):
        path = Path(environ.get("HOME") or Path.home()).joinpath(*path.parts[1:])
    return folder.absolute() / path


def _read(file: Path | None) -> Document:
    if file is None:
        return Document("settings", {})
    reading = read_documents(file)
    if reading.problems:
        raise InvalidConfigError(reading.problems)
    first, *more = reading.documents
    if more:
        raise InvalidConfigError([more[0].problem((), "only one document is wanted here")])
    if not isinstance(first.data, dict):
        raise InvalidConfigError([first.problem((), "a map of settings is wanted at the top")])
    return first
