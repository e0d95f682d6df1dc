"""The JSON Schema and the reference page say what the models say."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
from pydantic import BaseModel
from ruamel.yaml import YAML

from penstock.config.dialects.datahub import LegacyFilter
from penstock.config.dialects.wherehows_file import WhereHowsFile
from penstock.config.reference import PAGE, reference
from penstock.config.schema import (
    SCHEMA_FILE,
    WORKFLOW_SCHEMA_FILE,
    pipeline_schema,
    schema_text,
    workflow_schema,
)
from penstock.config.settings import Settings
from penstock.config.spec import PipelineSpec
from penstock.config.translation import key_paths, model_at, model_in
from penstock.config.trigger import FIELDS
from penstock.config.trigger_model import KafkaConfiguration
from penstock.config.workflow import WorkflowSpec

REPOSITORY = Path(__file__).parents[3]


def test_the_shipped_schema_is_current() -> None:
    assert SCHEMA_FILE.read_text() == schema_text(pipeline_schema()), "run python -m penstock.config.schema"
    assert WORKFLOW_SCHEMA_FILE.read_text() == schema_text(workflow_schema()), "run python -m penstock.config.schema"


def test_the_reference_page_is_current() -> None:
    assert (REPOSITORY / PAGE).read_text() == reference(), "run python -m penstock.config.reference"


@pytest.mark.parametrize(
    "model", [PipelineSpec, Settings, LegacyFilter, WhereHowsFile, WorkflowSpec, KafkaConfiguration]
)
def test_every_key_is_explained(model: type[BaseModel]) -> None:
    for path in key_paths(model):
        info = model_at(model, path[:-1]).model_fields[str(path[-1])]
        assert info.description, path
        inner = model_in(info.annotation)
        assert inner is None or inner.__doc__, path


def test_every_key_is_on_the_page() -> None:
    page = reference()
    for path in key_paths(PipelineSpec):
        assert f"{path[-1]}` |" in page
    assert "`http.port` | whole number | `8642`" in page
    assert "`options.timeout` | duration | `30s`" in page


def _valid(text: str) -> bool:
    document = YAML(typ="safe", pure=True).load(text)
    try:
        jsonschema.Draft202012Validator(pipeline_schema()).validate(document)
    except jsonschema.ValidationError:
        return False
    return True


GOOD = "name: p\nsource: {config: {topics: [a]}}\naction: {type: hello_world}\n"


@pytest.mark.parametrize(
    "more",
    [
        "",
        "options: null",
        "options: {concurrency: '${N}', timeout: 30s, rate_limit: 100/s, failure_mode: throw}",
        "options: {failure_mode: '${MODE:-THROW}', retry: {attempts: 3}}",
        "filter: {event_type: A, event: {a: 1}}",
        "enabled: ${ON:-true}",
        "kind: pipeline",
    ],
)
def test_the_schema_accepts(more: str) -> None:
    assert _valid(GOOD + more)


@pytest.mark.parametrize(
    "more",
    [
        "colour: red",
        "options: {time_out: 3}",
        "options: {concurrency: 0}",
        "options: {failure_mode: MAYBE}",
        "filters: {}",
    ],
)
def test_the_schema_refuses(more: str) -> None:
    assert not _valid(GOOD + more)
    assert not _valid("name: p\nsource: {}\n")


def test_the_schema_knows_files_of_jobs() -> None:
    assert _valid("dialect: wherehows\ndatabase: ${WHZ_DB_URL}\njobs: ${WHZ_KAFKA_JOB_IDS}\noptions: {timeout: 30s}")
    assert _valid("dialect: wherehows\njobs: [7, 9]\nproperties: {bootstrap.servers: 'broker:9092'}")
    assert not _valid("dialect: wherehows\njob: [7]")
    assert not _valid(GOOD + "dialect: wherehows")


def test_the_schemas_are_schemas() -> None:
    for file in (SCHEMA_FILE, WORKFLOW_SCHEMA_FILE):
        jsonschema.Draft202012Validator.check_schema(json.loads(file.read_text()))


WORKFLOW = "kind: workflow\nname: w\nsteps: [{name: a, python: 'm:f'}]\n"


def test_the_schema_knows_workflows() -> None:
    trigger = "hosts: ['b:9092'], topics: [a], initial_offset_reset_policy: latest"
    assert _valid(WORKFLOW)
    assert _valid(WORKFLOW + f"project: lab\ntriggers: [{{{trigger}, rate: 10/s, sasl: plain, password: '${{P}}'}}]")
    assert _valid(WORKFLOW + f"project: {{name: lab}}\ntriggers: {{k: {{kafka_configuration: {{{trigger}}}}}}}")
    assert _valid(WORKFLOW + "edges: [{from: k, to: a, when: success}]\nlimits: {soft: 3}")
    assert not _valid(WORKFLOW + "edges: [{source: k, to: a}]")
    assert not _valid(WORKFLOW + "source: {}")
    assert not _valid(WORKFLOW.replace("python: 'm:f'", "python: 'm:f', http: 'http://x'"))
    assert not _valid(WORKFLOW.replace(", python: 'm:f'", ""))


def test_the_schema_has_every_field_of_kafka() -> None:
    assert set(KafkaConfiguration.model_fields) == set(FIELDS)


def test_loading_needs_neither_spark_nor_the_kafka_client() -> None:
    code = (
        "import sys, penstock.config.loading, penstock.config.settings;"
        "print(sorted({'pyspark', 'confluent_kafka', 'sqlalchemy'} & sys.modules.keys()))"
    )
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert shown.stdout.strip() == "[]"
