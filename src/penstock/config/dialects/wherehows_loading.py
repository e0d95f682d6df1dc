"""From WhereHows' files and databases to specs: every job apart, so that a bad one leaves the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from penstock.config.dialects.wherehows import compile_job
from penstock.config.dialects.wherehows_file import Installation, WhereHowsFile, address_of, job_ids
from penstock.config.dialects.wherehows_job import (
    LISTS,
    Compile,
    Job,
    JobDocument,
    JobSelection,
    Lookups,
    StoredJob,
)
from penstock.config.dialects.wherehows_reading import gathered, resolved
from penstock.config.dialects.wherehows_topic_file import TOPIC, compile_topic_file
from penstock.config.documents import Document
from penstock.config.expansion import expand_document
from penstock.config.java_properties import Properties, decode_properties, parse_properties
from penstock.config.problems import InvalidConfigError, Problem
from penstock.config.remote import fetch, is_url, suffix_of
from penstock.config.spec import PipelineSpec
from penstock.config.translation import problems_of
from penstock.core.errors import ConfigError, PenstockError
from penstock.core.secrets import find_secrets, mask_url

SUFFIXES = (".job", ".properties")
_FOLDERS = ("etl.jobs.dir", "kafka.jobs.dir", "kafka.consumer.dir")
_IDS = "kafka.consumer.etl.jobid"
_DATABASE = ("db.wherehows.url", "db.wherehows.username", "db.wherehows.password")


@dataclass(slots=True)
class Found:
    """What one job, or one file, gave."""

    spec: PipelineSpec | None = None
    document: Document | None = None
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)


def is_wherehows(data: Any) -> bool:
    """Whether a document is a file of this dialect."""
    return isinstance(data, dict) and data.get("dialect") == "wherehows"


def load_wherehows(document: Document, environ: MutableMapping[str, str], lookups: Lookups | None) -> Iterator[Found]:
    """The jobs that a YAML document names."""
    expanded = expand_document(document, document.data, environ)
    if expanded.problems:
        raise InvalidConfigError(expanded.problems)
    try:
        file = WhereHowsFile.model_validate(expanded.data)
    except ValidationError as error:
        raise InvalidConfigError(problems_of(error, WhereHowsFile, document, expanded.secrets)) from None
    if not file.enabled:
        yield Found(warnings=[document.problem(("enabled",), "the file is disabled and was skipped")])
        return
    ids, bad = job_ids(file.jobs)
    yield Found(problems=[_no_id(document, "jobs", each) for each in bad])
    if file.jobs is None and file.jobs_dir is None:
        hint = "jobs: [7, 9], or jobs: ${WHZ_KAFKA_JOB_IDS}, or jobs_dir: ./jobs"
        raise InvalidConfigError([document.problem((), "names no jobs", hint=hint)])
    if not ids and not bad and file.jobs is not None:
        yield Found(warnings=[document.problem(("jobs",), "is empty: no job is started")])
    try:
        database = address_of(environ, file.database, file.username, file.password)
    except ConfigError as error:
        raise InvalidConfigError([_at(document, "database", error)]) from None
    if database is not None:
        yield Found(warnings=[document.problem(("database",), note) for note in database.notes])
    installation = Installation(
        database,
        ids,
        (("jobs_dir", str(document.folder / Path(file.jobs_dir).expanduser())),) if file.jobs_dir else (),
        str(document.folder / Path(file.master_key_file).expanduser()) if file.master_key_file else None,
        {key: _text(value) for key, value in file.properties.items() if value is not None},
        file.options.model_dump(exclude_unset=True),
        frozenset(expanded.secrets),
    )
    yield from _jobs_of(installation, document, environ, lookups)


def load_properties(
    file: Path | str, environ: MutableMapping[str, str], lookups: Lookups | None, shared: Installation | None = None
) -> Iterator[Found]:
    """What a `.job` or `.properties` file gives: one job, or the jobs that an installation's configuration names."""
    name = mask_url(str(file))
    try:
        text = fetch(str(file)) if is_url(str(file)) else decode_properties(Path(file).read_bytes())
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        yield Found(problems=[Problem(file=name, message=f"cannot be read: {reason}")])
        return
    parsed = parse_properties(text)
    if parsed.problems:
        yield Found(problems=[Problem(file=name, line=line, message=message) for line, message in parsed.problems])
        return
    is_topic_file = any(entry.key == TOPIC for entry in parsed.entries)
    document = JobDocument(name, *gathered(parsed, joined=is_topic_file), prefix="consumer." if is_topic_file else "")
    properties, warnings = resolved(document, environ, each_part=is_topic_file)
    yield Found(warnings=warnings if is_topic_file else warnings + list(_repeated(document, parsed)))
    if suffix_of(name) != ".job" and not properties.keys() & {TOPIC, *LISTS}:
        yield from _load_application(document, properties, environ, lookups)
        return
    if (skipped := _skipped(document, properties)) is not None:
        yield skipped
        return
    try:
        installation = _own_database(properties, shared, environ)
    except ConfigError as error:
        yield Found(problems=[_at(document, _DATABASE[0], error)])
        return
    if shared is None and installation.database is not None:
        yield Found(warnings=[document.problem((_DATABASE[0],), note) for note in installation.database.notes])
    job = Job(Path(name).stem, properties | dict(installation.properties), document, lookups)
    job.secrets |= installation.secrets
    yield _built(job, compile_topic_file if is_topic_file else compile_job, installation)


def _load_application(
    document: JobDocument, properties: dict[str, str], environ: MutableMapping[str, str], lookups: Lookups | None
) -> Iterator[Found]:
    """The configuration of a back end, which says where its jobs are."""
    if not properties.keys() & {_IDS, *_FOLDERS}:
        message = "is no WhereHows job and names none"
        hint = f"a job has {', '.join(LISTS)}; a configuration has {_IDS} or {_FOLDERS[0]}"
        yield Found(problems=[document.problem((), message, hint=hint)])
        return
    ids, bad = job_ids(properties.get(_IDS))
    yield Found(problems=[_no_id(document, _IDS, each) for each in bad])
    try:
        database = address_of(environ, *(properties.get(key) for key in _DATABASE))
    except ConfigError as error:
        yield Found(problems=[_at(document, _DATABASE[0], error)])
        return
    folders = tuple(
        (key, str(document.folder / properties[key])) for key in _FOLDERS if properties.get(key, "").strip()
    )
    installation = Installation(database, ids, folders, secrets=frozenset(find_secrets(properties)))
    if not ids and not bad and not folders:
        yield Found(warnings=[document.problem((_IDS,), "is empty: no job is started")])
    yield from _jobs_of(installation, document, environ, lookups)


def _jobs_of(
    installation: Installation, document: Document, environ: MutableMapping[str, str], lookups: Lookups | None
) -> Iterator[Found]:
    if installation.ids:
        yield from _stored_jobs(installation, document, lookups)
    for key, folder in installation.folders:
        files = sorted(Path(folder).glob("*.job"))
        if not files:
            yield Found(problems=[document.problem((key,), f"there are no *.job files in {folder}")])
        for file in files:
            yield from load_properties(file, environ, lookups, installation)


def _stored_jobs(installation: Installation, document: Document, lookups: Lookups | None) -> Iterator[Found]:
    database = installation.database
    if database is None:
        yield Found(problems=[document.problem(("database",), "required", hint="or set WHZ_DB_URL")])
        return
    if lookups is None:
        raise InvalidConfigError([document.problem(("jobs",), "jobs in a database cannot be read here")])
    selection = JobSelection(database.url, installation.ids, installation.master_key_file)
    try:
        stored = lookups.read_jobs(selection)
    except PenstockError as error:
        yield Found(problems=[_at(document, "database", error)])
        return
    for each in stored:
        yield _from_row(each, installation, document, lookups)


def _from_row(stored: StoredJob, installation: Installation, document: Document, lookups: Lookups) -> Found:
    rows = {key: found.row for key, found in stored.properties.items()}
    place = JobDocument(
        document.file, document.data, document.tree, document.first_line, document.text, stored.row, rows
    )
    if stored.disabled:
        return Found(warnings=[place.problem(("is_active",), "the job is not active and was skipped")])
    if stored.problems:
        line, column = place.place(())
        problems = [
            Problem(file=place.file, line=line, column=column, path=where, message=message, hint=hint)
            for where, message, hint in stored.problems
        ]
        return Found(problems=problems)
    properties = {key: found.value for key, found in stored.properties.items()} | dict(installation.properties)
    job = Job(stored.name, properties, place, lookups)
    job.secrets |= installation.secrets | {found.value for found in stored.properties.values() if found.secret}
    return _built(job, compile_job, installation)


def _built(job: Job, compile_: Compile, installation: Installation) -> Found:
    """A job's spec, and all that is wrong with it."""
    job.secrets |= find_secrets(job.properties)
    database = installation.database
    found = Found(None, job.document, job.problems, job.warnings)
    data = compile_(job, database.url if database else None)
    if data is None:
        return found
    data["options"] = _merged(data["options"], dict(installation.options))
    try:
        spec = PipelineSpec.model_validate(data)
    except ValidationError as error:
        found.problems += problems_of(error, PipelineSpec, job.document, job.secrets)
        return found
    found.spec = spec.with_origin(job.document.origin).with_secrets(job.secrets)
    return found


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    merged = below | above
    for key in below.keys() & above.keys():
        if isinstance(below[key], dict) and isinstance(above[key], dict):
            merged[key] = _merged(below[key], above[key])
    return merged


def _repeated(document: JobDocument, parsed: Properties) -> Iterator[Problem]:
    seen = Counter(entry.key for entry in parsed.entries)
    for key in (key for key, times in seen.items() if times > 1):
        yield document.problem((key,), f"is written {seen[key]} times; the last value is used")


def _skipped(document: JobDocument, properties: dict[str, str]) -> Found | None:
    if "job.disabled" in properties:
        return Found(warnings=[document.problem(("job.disabled",), "the job is disabled and was skipped")])
    kind = properties.get("job.type", "").strip()
    is_lists = TOPIC not in properties
    if is_lists and kind != "kafka" and (kind or suffix_of(document.file) == ".job"):
        message = f"{kind!r} is no Kafka job; it was skipped" if kind else "not set: only job.type=kafka is a Kafka job"
        return Found(warnings=[document.problem(("job.type",), message)])
    return None


def _own_database(
    properties: dict[str, str], shared: Installation | None, environ: MutableMapping[str, str]
) -> Installation:
    """A job file may name a database of its own."""
    properties.pop("db.wherehows.driver", None)
    url, username, password = (properties.pop(key, "").strip() or None for key in _DATABASE)
    if shared is not None and url is None:
        return shared
    if shared is None:
        return Installation(address_of(environ, url, username, password))
    return Installation(
        address_of(environ, url, username, password), properties=shared.properties, options=shared.options
    )


def _no_id(document: Document, key: str, received: object) -> Problem:
    return document.problem((key,), f"the number of a job is wanted, not {received!r}", received=received)


def _at(document: Document, key: str, error: PenstockError) -> Problem:
    return document.problem((key,), error.message, received=error.received, hint=error.hint)


def _text(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)
