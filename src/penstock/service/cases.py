"""Cases written beside a pipeline file (`orders.test.yaml` next to `orders.yaml`), and their run in memory."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import orjson
from pydantic import Field, ValidationError

from penstock.config.documents import Document, read_documents
from penstock.config.loading import load
from penstock.config.problems import InvalidConfigError, Problem
from penstock.config.spec import Model, PipelineSpec
from penstock.core.errors import ConfigError, PenstockError
from penstock.core.event import json_default
from penstock.core.loading import did_you_mean
from penstock.core.secrets import Scrubber
from penstock.testing import ABSENT, Given, Outcome, TestPipeline, given

_CASE_SUFFIXES = (".test.yaml", ".test.yml")


class GivenSpec(Model):
    """One record to send."""

    value: Any = None
    """The decoded value; leave it and `raw` out for a record without a value."""
    raw: str | None = None
    """The record's bytes as text, instead of `value`."""
    key: str | None = None
    """The record's key."""
    headers: dict[str, str] | list[tuple[str, str | None]] = Field(default_factory=dict)
    """Header to value, or pairs where names repeat."""
    topic: str | None = None
    """Default: the pipeline's first topic."""
    partition: int = 0
    """Partition."""
    timestamp: int = 0
    """Epoch milliseconds."""
    event_type: str | None = None
    """For formats that need a registry; default: the topic."""

    def record(self) -> Given:
        more = {"topic": self.topic, "partition": self.partition, "timestamp": self.timestamp}
        value = self.value if "value" in self.model_fields_set else ABSENT
        return given(value, raw=self.raw, key=self.key, headers=self.headers, event_type=self.event_type, **more)


class ExpectSpec(Model):
    """How the record must end; what is left out is not looked at."""

    outcome: Literal["acted", "filtered", "failed", "deferred"]
    """How the event ends."""
    stage: Literal["decode", "filter", "transform", "act"] | None = None
    """Where it fails."""
    error: str | None = None
    """A part of the failure's text."""
    error_code: str | None = None
    """The failure's code."""
    value: Any = None
    """The value that the action receives."""


class CaseSpec(Model):
    """Records, and how each of them must end."""

    name: str
    """Shown in the report."""
    given: list[GivenSpec]
    """Sent in this order."""
    expect: list[ExpectSpec]
    """One per record."""


class CasesSpec(Model):
    """A file of cases."""

    pipeline: str | None = None
    """Which pipeline, where the file beside this one has several."""
    action: Literal["auto", "real", "recorded"] = "auto"
    """`recorded`: the action is checked, not run; `auto`: so for built-in actions that reach out (webhook, file …)."""
    env: dict[str, str] = Field(default_factory=dict)
    """Variables that the pipeline file refers to."""
    cases: list[CaseSpec] = Field(min_length=1)
    """The cases; each runs a pipeline of its own."""


@dataclass(slots=True)
class CaseResult:
    """How one case went."""

    file: str
    pipeline: str
    name: str
    mismatches: list[str] = field(default_factory=list)
    """What was expected and what came, one text per record; empty: the case passed."""
    outcomes: list[Outcome] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.mismatches

    def as_dict(self) -> dict[str, Any]:
        shown = ("outcome", "stage", "error_code")
        outcomes = [{name: getattr(each, name) for name in shown if getattr(each, name)} for each in self.outcomes]
        return {
            "file": self.file,
            "pipeline": self.pipeline,
            "name": self.name,
            "ok": self.ok,
            "mismatches": self.mismatches,
            "outcomes": outcomes,
        }


def run_cases(path: Path | str) -> list[CaseResult]:
    """Run the cases beside a pipeline file, of a file of cases, or of a folder; [] where there are none."""
    return [result for file in _case_files(Path(path)) for result in _run_file(file)]


def _case_files(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield from sorted(file for file in path.iterdir() if file.name.endswith(_CASE_SUFFIXES))
    elif path.name.endswith(_CASE_SUFFIXES) or not path.exists():
        yield path
    else:
        beside = (path.with_name(path.stem + suffix) for suffix in _CASE_SUFFIXES)
        yield from (file for file in beside if file.is_file())


def _run_file(file: Path) -> Iterator[CaseResult]:
    cases = _read(file)
    spec = _pipeline(file, cases)
    scrub = Scrubber(spec.secrets).scrub
    for case in cases.cases:
        result = CaseResult(str(file), spec.name, case.name)
        try:
            _run_case(case, spec, cases.action, result)
        except PenstockError as error:
            result.mismatches.append(f"the pipeline cannot run: {error}")
        result.mismatches = [scrub(text) for text in result.mismatches]
        yield result


def _run_case(case: CaseSpec, spec: PipelineSpec, action: Any, result: CaseResult) -> None:
    with TestPipeline(spec, act=action) as pipeline:
        result.outcomes = list(pipeline.send(*(one.record() for one in case.given)))
    if len(case.expect) != len(case.given):
        result.mismatches.append(f"{len(case.given)} records are given and {len(case.expect)} outcomes expected")
    for number, (expected, outcome) in enumerate(zip(case.expect, result.outcomes, strict=False), 1):
        differences = list(_differences(expected, outcome))
        if differences:
            result.mismatches.append("\n".join([f"record {number}:", *differences]))


def _differences(expected: ExpectSpec, outcome: Outcome) -> Iterator[str]:
    if outcome.outcome != expected.outcome:
        came = f"{outcome.outcome} in {outcome.stage}: {outcome.error}" if outcome.error else outcome.outcome
        yield f"  outcome: expected {expected.outcome}, came {came}"
        return
    for name in ("stage", "error_code"):
        wanted, came = getattr(expected, name), getattr(outcome, name)
        if wanted is not None and wanted != came:
            yield f"  {name}: expected {wanted}, came {came}"
    if expected.error is not None and expected.error not in (outcome.error or ""):
        yield f"  error: expected to contain {expected.error!r}, came {outcome.error!r}"
    if "value" in expected.model_fields_set and _json(expected.value) != _json(outcome.value):
        yield "  value: expected (-), came (+)"
        lines = difflib.ndiff(_json(expected.value).splitlines(), _json(outcome.value).splitlines())
        yield from (f"    {line}" for line in lines if not line.startswith("?"))


def _json(value: Any) -> str:
    options = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS
    return orjson.dumps(value, default=json_default, option=options).decode()


def _read(file: Path) -> CasesSpec:
    reading = read_documents(file)
    if reading.problems:
        raise InvalidConfigError(reading.problems)
    [document, *others] = reading.documents
    if others:
        raise InvalidConfigError([others[0].problem((), "a file of cases is one document")])
    try:
        return CasesSpec.model_validate(document.data)
    except ValidationError as error:
        raise InvalidConfigError([_problem(document, each) for each in error.errors(include_url=False)]) from None


def _problem(document: Document, error: Any) -> Problem:
    words = {"missing": "is required", "extra_forbidden": "is not a key of a case file"}
    hint = None
    if error["type"] == "extra_forbidden":
        known = {name for model in (CasesSpec, CaseSpec, GivenSpec, ExpectSpec) for name in model.model_fields}
        hint = did_you_mean(str(error["loc"][-1]), sorted(known)) or None
    received = None if error["type"] == "missing" else error["input"]
    return document.problem(error["loc"], words.get(error["type"], error["msg"]), received=received, hint=hint)


def _pipeline(file: Path, cases: CasesSpec) -> PipelineSpec:
    stem = next(file.name.removesuffix(suffix) for suffix in _CASE_SUFFIXES if file.name.endswith(suffix))
    beside = [file.with_name(stem + suffix) for suffix in (".yaml", ".yml", ".json", ".toml")]
    found = next((each for each in beside if each.is_file()), None)
    if found is None:
        names = " or ".join(each.name for each in beside[:2])
        raise ConfigError(f"{file}: there is no pipeline file beside it; looked for {names}", received=str(file))
    loaded = load([found], {**os.environ, **cases.env})
    if loaded.problems:
        raise InvalidConfigError(loaded.problems)
    specs = {spec.name: spec for spec in loaded.specs}
    if cases.pipeline is None and len(specs) == 1:
        return next(iter(specs.values()))
    if cases.pipeline in specs:
        return specs[cases.pipeline]
    said = f"no pipeline {cases.pipeline!r}" if cases.pipeline else f"{len(specs)} pipelines"
    hint = did_you_mean(cases.pipeline or "", sorted(specs)) or "`pipeline:` says which one is meant"
    raise ConfigError(f"{file}: {found.name} has {said}", received=cases.pipeline, allowed=sorted(specs), hint=hint)
