"""Loading pipeline files: the good ones load, whatever is wrong with the others."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.config.loading import Loaded, load
from penstock.config.spec import PipelineSpec

GOOD = """\
name: {name}
source: {{config: {{topics: [orders]}}}}
action: {{type: hello_world}}
"""

DESIGN_EXAMPLE = """\
name: large-orders
source:
  type: kafka
  config:
    connection: {bootstrap: "localhost:9092", schema_registry_url: "http://localhost:8081", consumer_config: {}}
    group: large-orders
    topics: [orders]
    format: json
    start: earliest
    stateless: false
filters:
  - {type: match, config: {event: {status: [paid, shipped]}}}
  - {type: cel, config: {expression: "event.total > 100.0"}}
transform: []
action:
  type: webhook
  config: {url: "https://example.org/hook", headers: {authorization: "Bearer ${HOOK_TOKEN}"}}
options:
  failure_mode: CONTINUE
  retry: {attempts: 5, backoff: 1s, factor: 2, max_backoff: 1m, jitter: 0.2, max_age: 1h}
  timeout: 30s
  concurrency: 8
  ordering: key
  rate_limit: 100/s
  dead_letter: {topic: null, file: null}
  breaker: {ratio: 0.5, window: 50, resume_after: 5m}
  window: {deadline: 1s, linger: 100ms, max_records: 10000}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name: str, text: str) -> str:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(text)
    return name


def names(loaded: Loaded) -> list[str]:
    return [spec.name for spec in loaded.specs]


def problems(loaded: Loaded) -> list[str]:
    return [str(problem) for problem in loaded.problems]


def warnings(loaded: Loaded) -> list[str]:
    return [str(warning) for warning in loaded.warnings]


def test_the_example_of_the_design() -> None:
    loaded = load([write("p.yaml", DESIGN_EXAMPLE)], {"HOOK_TOKEN": "t0psecret"})
    assert (problems(loaded), warnings(loaded)) == ([], [])
    (spec,) = loaded.specs
    assert spec.origin == str(Path("p.yaml").resolve())
    assert spec.action.config["headers"]["authorization"] == "Bearer t0psecret"
    assert spec.secrets >= {"t0psecret"}
    assert spec.options.retry.max_age == 3600
    assert pickle.loads(pickle.dumps(spec)) == spec  # noqa: S301 - our own bytes
    assert PipelineSpec.model_validate_json(spec.model_dump_json()).version == spec.version


def test_json_and_toml() -> None:
    as_json = json.dumps({"name": "j", "source": {"config": {"topics": ["a"]}}, "action": {"type": "hello_world"}})
    write("j.json", as_json)
    write(
        "t.toml",
        'name = "t"\n[action]\ntype = "hello_world"\n[source.config]\ntopics = ["a"]\nstart = 2026-01-01T00:00:00Z\n',
    )
    loaded = load(["j.json", "t.toml"], {})
    assert (names(loaded), problems(loaded)) == (["j", "t"], [])
    assert loaded.specs[1].source.config.start == 1_767_225_600_000


def test_a_time_in_yaml() -> None:
    text = GOOD.format(name="p").replace("topics: [orders]", "topics: [orders], start: 2026-01-01T02:00:00+02:00")
    loaded = load([write("p.yaml", text)], {})
    assert problems(loaded) == []
    assert loaded.specs[0].source.config.start == 1_767_225_600_000


def test_several_documents_and_a_directory() -> None:
    write("d/b.yaml", GOOD.format(name="b1") + "---\n# nothing\n---\n" + GOOD.format(name="b2"))
    write("d/a.yaml", GOOD.format(name="a"))
    write("d/z.yml", GOOD.format(name="z"))
    write("d/penstock.yaml", "http: {port: 1}\n")
    write("d/a.test.yaml", "cases: []\n")
    write("d/.hidden.yaml", "nonsense")
    write("d/readme.md", "nonsense")
    write("d/j.json", "{}")
    assert names(load(["d"], {})) == ["z", "a", "b1", "b2"]  # *.yml first, then *.yaml, as DataHub's containers do
    assert problems(load(["d"], {})) == []
    assert names(load(["d", "d/a.yaml", Path("d").resolve()], {})) == ["z", "a", "b1", "b2"]


def test_one_bad_file_or_document_never_stops_the_others() -> None:
    write("bad.yaml", "name: [")
    write("mixed.yaml", GOOD.format(name="m1") + "---\nname: m2\n---\n" + GOOD.format(name="m3"))
    write("good.yaml", GOOD.format(name="g"))
    loaded = load(["missing.yaml", "bad.yaml", "mixed.yaml", "good.yaml"], {})
    assert names(loaded) == ["m1", "m3", "g"]
    assert problems(loaded) == [
        "missing.yaml: cannot be read: No such file or directory",
        "bad.yaml:1: is not valid YAML: expected the node content, but found '<stream end>'",
        "mixed.yaml:5: source: required",
        "mixed.yaml:5: action: required",
    ]


def test_broken_syntax_does_not_hide_the_documents_before_it() -> None:
    loaded = load([write("p.yaml", GOOD.format(name="a") + "---\nname: [\n")], {})
    assert names(loaded) == ["a"]
    assert len(loaded.problems) == 1
    assert loaded.problems[0].line == 6


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("p.yaml", b"", "p.yaml:1: is empty"),
        ("p.yaml", b"# only a comment\n---\n", "p.yaml:1: is empty"),
        ("p.json", b" ", "p.json:1: is empty"),
        ("p.toml", b"", "p.toml:1: is empty"),
        ("p.yaml", b"- a\n- b\n", "p.yaml:1: a map with name, source and action is wanted at the top"),
        ("p.yaml", b"just text", "p.yaml:1: a map with name, source and action is wanted at the top"),
        ("p.yaml", b"\xff\xfe\xfd", "p.yaml: is not UTF-8 text (byte 0)"),
        ("p.yaml", b"name: a\n b: c\n", "p.yaml:2: is not valid YAML: mapping values are not allowed here"),
        ("p.yaml", b"a: 1\nb: s3cret\nb: s3cret2\n", "p.yaml:3: is not valid YAML: the key 'b' is written twice"),
        ("p.yaml", b"a:\n\t- b\n", "p.yaml:2: is not valid YAML: found character '\\t' that cannot start any token"),
        ("p.yaml", b"a: +_\n", "p.yaml:1: is not valid YAML: a value is not of the kind that its tag or its sign says"),
        ("p.json", b'{"name": "a",\n "b": c}', "p.json:2: is not valid JSON: Expecting value"),
        ("p.toml", b"a = \n", "p.toml:1: is not valid TOML: Invalid value"),
        ("p.txt", b"", "p.txt: is not a pipeline file; allowed: .yml, .yaml, .json, .toml, .job, .properties"),
        (
            "p.yaml",
            b"kind: recipe\n",
            "p.yaml:1: kind: documents of kind 'recipe' are not supported by this version",
        ),
        (
            "p.yaml",
            b"a: 1\ndialect: flume",
            "p.yaml:2: dialect: dialect 'flume' is not supported by this version",
        ),
    ],
)
def test_what_is_no_pipeline_file(name: str, content: bytes, said: str) -> None:
    Path(name).write_bytes(content)
    assert problems(load([name], {})) == [said]


def test_column_of_a_syntax_error() -> None:
    (problem,) = load([write("p.yaml", "name: a\n b: c\n")], {}).problems
    assert (problem.line, problem.column) == (2, 3)


def test_an_empty_directory() -> None:
    Path("d").mkdir()
    assert problems(load(["d"], {})) == ["d: has no pipeline files (*.yml, *.yaml, *.job) in it"]


def test_an_unreadable_file() -> None:
    write("p.yaml", GOOD.format(name="p"))
    Path("p.yaml").chmod(0)
    if os.geteuid() == 0:  # root reads everything: let the file be one that even root cannot read
        Path("p.yaml").unlink()
        Path("p.yaml").symlink_to("p.yaml")
    assert [p.message.partition(":")[0] for p in load(["p.yaml"], {}).problems] == ["cannot be read"]


def test_two_pipelines_with_one_name() -> None:
    write("a.yaml", GOOD.format(name="orders"))
    write("b.yaml", "\n" + GOOD.format(name="orders") + "---\n" + GOOD.format(name="other"))
    loaded = load(["a.yaml", "b.yaml"], {})
    assert names(loaded) == ["orders", "other"]
    assert problems(loaded) == ["b.yaml:2: name: the name 'orders' is taken by a.yaml:1; names are unique"]


def test_two_pipelines_with_one_group() -> None:
    write("a.yaml", GOOD.format(name="a"))
    write("b.yaml", "name: b\nsource:\n  config:\n    topics: [x]\n    group: a\naction: {type: hello_world}\n")
    loaded = load(["a.yaml", "b.yaml"], {})
    assert names(loaded) == ["a"]
    said = "b.yaml:5: source.config.group: the group 'a' is taken by pipeline 'a' in a.yaml:2; groups are unique"
    assert problems(loaded) == [said]
    assert names(load(["b.yaml", "a.yaml"], {})) == ["b"]
    write("c.yaml", Path("b.yaml").read_text().replace("group: a", "group: a\n    stateless: true"))
    assert names(load(["a.yaml", "c.yaml"], {})) == ["a", "b"]


@pytest.mark.parametrize("written", ["false", "no", "'off'", "${SWITCH:-false}", '"0"'])
def test_a_disabled_pipeline_is_skipped_before_anything_else(written: str) -> None:
    text = f"name: off\nenabled: {written}\nsource: {{config: {{topics: ['${{UNSET}}']}}}}\naction: {{type: x}}\n"
    loaded = load([write("p.yaml", text)], {})
    assert (loaded.specs, problems(loaded)) == ([], [])
    assert warnings(loaded) == ["p.yaml:2: enabled: pipeline 'off' is disabled and was skipped"]


def test_a_disabled_name_may_be_used_again() -> None:
    write("a.yaml", GOOD.format(name="p") + "enabled: false\n")
    write("b.yaml", GOOD.format(name="p"))
    assert names(load(["a.yaml", "b.yaml"], {})) == ["p"]


def test_variables_that_are_not_set_are_all_named() -> None:
    text = """\
name: p
source: {config: {topics: ["${TOPIC}"]}}
action:
  type: webhook
  config:
    headers:
      authorization: "Bearer ${TOKEN}"
    body: ${FILE:?give the file}
options: {time_out: 3}
"""
    loaded = load([write("p.yaml", text)], {})
    assert problems(loaded) == [
        "p.yaml:2: source.config.topics[0]: variable TOPIC is not set; set it, or write ${TOPIC:-default}",
        "p.yaml:7: action.config.headers.authorization: variable TOKEN is not set; set it, or write ${TOKEN:-default}",
        "p.yaml:8: action.config.body: variable FILE is not set or empty: give the file; set FILE",
        "p.yaml:9: options.time_out: unknown key; did you mean 'timeout'?",
    ]


def test_expanded_texts_become_numbers_and_keys_stay() -> None:
    text = GOOD.format(name="${NAME}") + "options: {concurrency: '${N}', timeout: $T}\n"
    loaded = load([write("p.yaml", text)], {"NAME": "p", "N": "7", "T": "5s"})
    assert (problems(loaded), names(loaded)) == ([], ["p"])
    assert (loaded.specs[0].options.concurrency, loaded.specs[0].options.timeout) == (7, 5.0)
    text = GOOD.format(name="p").replace("hello_world", "x, config: {'${NAME}': 1}")
    assert load([write("q.yaml", text)], {"NAME": "p"}).specs[0].action.config == {"${NAME}": 1}


def test_files_beside_the_pipeline_file_are_secret() -> None:
    write("d/token.txt", "file-s3cret\n")
    text = GOOD.format(name="p").replace("hello_world", "x, config: {note: 'a ${file:token.txt} b'}")
    (spec,) = load([write("d/p.yaml", text)], {}).specs
    assert spec.action.config == {"note": "a file-s3cret b"}
    assert "file-s3cret" in spec.secrets


def test_properties_that_are_dropped_are_warned_of() -> None:
    text = """\
name: p
source:
  config:
    topics: [a]
    connection:
      consumer_config:
        enable.auto.commit: true
        group.instance.id: x
        fetch.min.bytes: 5
action: {type: hello_world}
"""
    loaded = load([write("p.yaml", text)], {})
    head = "source.config.connection.consumer_config"
    assert warnings(loaded) == [
        f"p.yaml:7: {head}.enable.auto.commit: is set by Penstock itself; the value given is not used",
        f"p.yaml:8: {head}.group.instance.id: is set by Penstock itself; the value given is not used",
    ]
    assert loaded.specs[0].source.config.connection.consumer_config == {"fetch.min.bytes": 5}


def test_aliases_that_blow_up_or_bite_their_tail_are_refused() -> None:
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{new}: &{new} [{','.join(['*' + old] * 9)}]\n" for old, new in zip("abcdef", "bcdefg", strict=True)
    )
    loaded = load([write("bomb.yaml", bomb), write("tail.yaml", "name: &a {b: *a}\n")], {})
    assert loaded.specs == []
    assert str(loaded.problems[0]) == "bomb.yaml:1: is not valid YAML: it is nested too deeply or has too many values"
    assert len(loaded.problems) >= 2


@pytest.mark.parametrize("key", ["1", "null", "true", "1.5", "? [a, b]\n", "? {a: b}\n", "2026-01-01"])
def test_odd_keys(key: str) -> None:
    loaded = load([write("p.yaml", f"{key}: x\n" + GOOD.format(name="p"))], {})
    assert loaded.specs == []
    assert json.dumps([problem.as_dict() for problem in loaded.problems])
    assert len(loaded.problems) == 1
    assert "key" in str(loaded.problems[0])


def test_toml_of_datahub_style() -> None:
    loaded = load([write("p.toml", 'name = "p"\nsource = {type = "kafka"}\naction = {type = "hello_world"}\n')], {})
    assert (names(loaded), problems(loaded)) == (["p"], [])


def test_a_later_problem_knows_its_line_and_takes_the_spec_back() -> None:
    loaded = load([write("p.yaml", GOOD.format(name="p"))], {})
    (spec,) = loaded.specs
    loaded.refuse(spec, loaded.problem(spec, ("action", "type"), "no such action"))
    assert loaded.specs == []
    assert problems(loaded) == ["p.yaml:3: action.type: no such action"]


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_bytes_give_specs_or_problems(content: bytes) -> None:
    Path("any.yaml").write_bytes(content)
    loaded = load(["any.yaml"], {})
    assert not loaded.specs
    assert loaded.problems
    assert all(str(problem).startswith("any.yaml") and "pydantic" not in str(problem) for problem in loaded.problems)
