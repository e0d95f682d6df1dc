"""Every field of every built-in configuration model that is an address, a file, code or a secret is declared as such,
and nothing that a caller writes there gets past the policy. The fields are found by their declarations: a new one is
tested by itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from penstock.act.registry import actions
from penstock.config.source import ForeignSourceConfig
from penstock.config.spec import PipelineSpec
from penstock.config.trigger_model import KafkaConfiguration
from penstock.config.workflow import WorkflowSpec
from penstock.core.declarations import (
    PRIVATE,
    Address,
    Confidential,
    Declaration,
    Keys,
    Needs,
    Path,
    Place,
    Plain,
    Plugins,
    Properties,
    declarations_of,
    model_in,
    walk,
)
from penstock.core.net.guard import AddressGuard
from penstock.filter.registry import filters
from penstock.pipeline.policy import Policy, Step, config_model, opened_config, required_permissions, with_networks
from penstock.transform.registry import transforms
from penstock.worker.step_policy import StepPolicy
from penstock.workflows.steps.action import ActionStepConfig
from penstock.workflows.steps.command import CommandStepConfig
from penstock.workflows.steps.http import HttpStepConfig
from penstock.workflows.steps.python import PythonStepConfig

_SUSPICIOUS = re.compile(
    r"url|uri|host|address|server|endpoint|bootstrap|file|path|folder|directory|(^|_)dir|token|password|secret|storage"
)
_DATABASES = ("postgresql://{}/db", "mysql://{}/db", "mariadb://{}:3306/db", "postgresql://93.184.216.34,{}/db")
_INSIDE = (
    "127.0.0.1",
    "10.0.0.7",
    "192.168.0.1",
    "172.16.9.9",
    "169.254.169.254",
    "100.64.0.1",
    "0.0.0.0",  # noqa: S104 - an address to refuse
    "localhost",
    "metadata.localhost.",
    "LOCALHOST",
    "[::1]",
    "[::]",
    "[::ffff:127.0.0.1]",
    "[::ffff:a00:1]",
    "[fe80::1]",
    "[fd00::1]",
    "[fec0::1]",
    "[64:ff9b::7f00:1]",
    "[64:ff9b:1::1]",
    "[2002:7f00:1::]",
    "[::127.0.0.1]",
)
_DISGUISED = ("2130706433", "127.1", "0x7f000001", "0177.0.0.1", "0x7f.0.0.1")
_TRICKS = (
    "http://1.1.1.1,x@127.0.0.1:8080/latest",
    "http://1.1.1.1;x@127.0.0.1/",
    "http://user@127.0.0.1/",
    "http://93.184.216.34@127.0.0.1/",
    "http://user:pw@93.184.216.34/",
    "http://93.184.216.34 @127.0.0.1/",
    "http://127.0.0.1\\@93.184.216.34/",
    "http://93.184.216.34\t.127.0.0.1/",
    "http://127.0.0.1#@93.184.216.34/",
    "file:///etc/passwd",
    "gopher://127.0.0.1:6379/",
    "ftp://93.184.216.34/",
    "unix:///var/run/docker.sock",
    "//127.0.0.1/",
)


def _plugin_models() -> Iterator[tuple[str, type[BaseModel]]]:
    for kind, registry in (("action", actions), ("filter", filters), ("transform", transforms)):
        for name in registry.builtin:
            model = config_model(Step(kind, name, {}, (), ()))
            if model is not None:
                yield f"{kind}.{name}", model


ROOTS: dict[str, type[BaseModel]] = {
    "pipeline": PipelineSpec,
    "workflow": WorkflowSpec,
    "trigger": KafkaConfiguration,
    "http step": HttpStepConfig,
    "python step": PythonStepConfig,
    "command step": CommandStepConfig,
    **dict(_plugin_models()),
}


def _fields(model: type[BaseModel], path: Path = ()) -> Iterator[tuple[Path, tuple[Declaration, ...], Any]]:
    """Every field of a model and of those within, with its declarations."""
    for name, info in model.model_fields.items():
        declared = declarations_of(info)
        yield (*path, name), declared, info
        for keys in (each for each in declared if isinstance(each, Keys)):
            yield from (((*path, name, key), of, None) for key, of in keys.of.items())
        inner = model_in(info.annotation)
        if inner is not None and not any(isinstance(each, Plugins) for each in declared):
            yield from _fields(inner, (*path, name))


def _declared(kind: type[Any]) -> list[tuple[str, Path, Any]]:
    return [
        (root, path, each)
        for root, model in ROOTS.items()
        for path, declared, _ in _fields(model)
        for each in declared
        if isinstance(each, kind)
    ]


ADDRESSES = _declared(Address)


def _id(found: tuple[str, Path, Any]) -> str:
    return f"{found[0]}:{'.'.join(map(str, found[1]))}"


def test_the_models_are_found() -> None:
    assert {"action.webhook", "action.kafka", "action.table", "filter.cel", "transform.map"} <= set(ROOTS)
    assert {_id(each) for each in ADDRESSES} >= {
        "action.kafka:connection.bootstrap",
        "action.notify:urls",
        "action.slack:api_url",
        "action.table:url",
        "action.teams:webhook_url",
        "action.webhook:url",
        "http step:url",
        "pipeline:datahub.server",
        "pipeline:source.config.connection.bootstrap",
        "pipeline:source.config.connection.schema_registry_url",
        "trigger:hosts",
        "workflow:steps.http",
    }


@pytest.mark.parametrize("root", ROOTS)
def test_a_field_that_looks_like_an_address_a_file_or_a_secret_is_declared(root: str) -> None:
    kinds = (Address, Needs, Confidential, Properties, Keys, Plain)
    missing = [
        ".".join(map(str, path))
        for path, declared, _ in _fields(ROOTS[root])
        if _SUSPICIOUS.search(str(path[-1])) and not any(isinstance(each, kinds) for each in declared)
    ]
    assert not missing, "declare them: see core/declarations.py"


@pytest.mark.parametrize("root", ROOTS)
def test_a_field_called_allow_private_is_the_instances_to_decide(root: str) -> None:
    assert all(PRIVATE in declared for path, declared, _ in _fields(ROOTS[root]) if path[-1] == "allow_private")


def test_types_that_cannot_do_without_code_a_program_or_a_file_need_the_permission_for_it() -> None:
    found = {name: required_permissions(model) for name, model in ROOTS.items()}
    assert {name: needs for name, needs in found.items() if needs} == {
        "action.command": ["command"],
        "action.file": ["file"],
        "action.python": ["python"],
        "transform.python": ["python"],
        "command step": ["command"],
        "python step": ["python"],
    }
    assert "type" in ActionStepConfig.model_fields, "an action step names its plug-in there"


class Contacted:
    """An address guard that has no name server: what it lets through is remembered."""

    def __init__(self, networks: tuple[str, ...] = ()) -> None:
        self.allowed: list[str] = []
        self._guard = AddressGuard(networks, lookup=lambda host: ["93.184.216.34"] if host == "example.org" else [])

    def check(self, host: str, port: int | None) -> None:
        self._guard.check_host(host, port)
        self.allowed.append(host)


def _refused(declared: Address, value: Any, *, given: bool = True) -> tuple[list[str], list[str]]:
    """What the policy says of a value at a place that declares an address, and which hosts it let through."""
    contacted = Contacted()
    policy = Policy(frozenset(), contacted.check)
    found = policy._of_place(Place(("url",), value, (declared,), is_given=given))
    return [each.message for each in found], contacted.allowed


def _forms(declared: Address) -> Iterator[Any]:
    """Ways to name addresses inside the house at a field of this form."""
    hosts = (*_INSIDE, *_DISGUISED)
    if declared.form == "url":
        yield from (f"http://{host}/x" for host in hosts)
        yield from _TRICKS
    elif declared.form == "urls":
        yield from (f"http://{host}/x" for host in hosts)
        yield from (f"http://93.184.216.34:8081,http://{host}:8081" for host in hosts)
        yield from _TRICKS
        yield "http://93.184.216.34;http://10.0.0.1"
    elif declared.form == "brokers":
        yield from (f"{host}:9092" for host in hosts)
        yield from (f"93.184.216.34:9092,{host}:9092" for host in hosts)
        yield from (host for host in hosts)
    elif declared.form == "hosts":
        yield from ([[host, "9092"]] for host in hosts)
        yield from ([["93.184.216.34", 9092], [host, 1]] for host in hosts)
        yield from ([f"{host}:9092"] for host in hosts)
    elif declared.form == "database":
        yield from (form.format(host) for host in hosts for form in _DATABASES)
        yield from ("postgresql:///db", "mysql:///db", "sqlite:////etc/x.db", "sqlite:///x.db")
        yield from (f"postgresql://93.184.216.34/db?{name}=10.0.0.1" for name in ("host", "hostaddr", "service"))
        yield "mysql://93.184.216.34/db?unix_socket=/run/mysql.sock"
    else:
        yield from ([f"json://{host}/x"] for host in _INSIDE)
        yield ["json://93.184.216.34/x", "json://10.0.0.1/x"]
        yield ["json://1.1.1.1,x@127.0.0.1/x"]
        yield from ([f"{scheme}://127.0.0.1/x"] for scheme in ("rsyslog", "mqtt", "syslog", "smtp", "mailto", "dbus"))
        yield ["slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/?template=/etc/passwd"]


@pytest.mark.parametrize("found", ADDRESSES, ids=_id)
def test_no_form_of_an_inner_address_gets_past_a_field_that_is_declared_an_address(
    found: tuple[str, Path, Address],
) -> None:
    declared = found[2]
    public = {"93.184.216.34", "1.1.1.1", "example.org"}
    for value in _forms(declared):
        messages, allowed = _refused(declared, value)
        assert messages, f"{value!r} passed"
        assert set(allowed) <= public, f"{value!r} let {allowed} through"


@pytest.mark.parametrize(
    ("form", "value"),
    [
        ("url", "https://example.org/hook?a=1,2"),
        ("url", "https://[2606:4700::1111]/x"),
        ("urls", "https://example.org, http://93.184.216.34:8081"),
        ("urls", "mock://anything"),
        ("brokers", "example.org:9092,93.184.216.34:9093"),
        ("hosts", [["example.org", "9092"]]),
        ("database", "postgresql://example.org/db?sslmode=verify-full&sslrootcert=system"),
        ("notification", ["json://example.org/x", "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/"]),
    ],
)
def test_public_addresses_pass(form: Any, value: Any) -> None:
    assert _refused(Address(form), value)[0] == []


@pytest.mark.parametrize("form", ["brokers", "hosts", "urls", "notification"])
def test_a_list_of_hosts_is_bounded_before_any_is_looked_up(form: Any) -> None:
    values = {
        "brokers": ",".join(["example.org:9092"] * 21),
        "hosts": [["example.org", 9092]] * 21,
        "urls": ",".join(["http://example.org"] * 21),
        "notification": ["json://example.org/"] * 21,
    }
    messages, allowed = _refused(Address(form), values[form])
    assert (messages, allowed) == (["at most 20 hosts are taken"], [])


def test_this_machine_is_no_default_for_callers_and_other_defaults_are_not_looked_up() -> None:
    assert _refused(Address("brokers"), "localhost:9092", given=False)[0]
    assert _refused(Address("url"), "https://slack.com/api/", given=False) == ([], [])


@pytest.mark.parametrize("kind", ["action", "filter", "transform"])
@pytest.mark.parametrize("name", ["executor", "my.module:Thing", "./thing.py:Thing", "__main__:x", "pg_queue"])
def test_types_that_are_not_built_in_need_import_and_are_not_loaded(kind: str, name: str) -> None:
    step = Step(kind, name, {}, ("action", "type"), ("action", "config"))
    [refusal] = Policy(frozenset(), Contacted().check).step_refusals(step)
    assert "PENSTOCK_API_ALLOW lists import" in (refusal.hint or "")
    assert not list(Policy(frozenset({"import"}), Contacted().check).step_refusals(step))


def _spec(action: dict[str, Any], **connection: Any) -> PipelineSpec:
    source = {"type": "kafka", "config": {"connection": {"bootstrap": "example.org"} | connection, "topics": ["t"]}}
    return PipelineSpec.model_validate({"name": "a", "source": source, "action": action})


@pytest.mark.parametrize(
    ("action", "at", "word"),
    [
        ({"type": "work_order", "config": {"workflow": "w", "alternate_storage": "/x"}}, "alternate_storage", "file"),
        ({"type": "kafka", "config": {"topic": "x", "connection": {}}}, "bootstrap", "not a public address"),
        ({"type": "webhook", "config": {"url": "https://example.org", "allow_private": True}}, "allow_private", "priv"),
        ({"type": "webhook", "config": {"url": "https://example.org", "allow_private": ["::/0"]}}, "allow_private", ""),
        ({"type": "table", "config": {"url": "sqlite:///x", "table": "t", "columns": {"a": "b"}}}, "url", "file"),
    ],
)
def test_what_the_raw_text_does_not_show_is_seen_in_the_model(action: dict[str, Any], at: str, word: str) -> None:
    """M9: gaps of a list of key names."""
    [refusal] = Policy(frozenset(), Contacted().check).refusals(PipelineSpec, _spec(action))
    assert refusal.path[-1] == at
    assert word in f"{refusal.message} {refusal.hint}"


def test_slack_is_not_led_to_another_api() -> None:
    config = {"bot_token": "x", "signing_secret": "y", "default_channel": "c", "api_url": "http://127.0.0.1/api/"}
    [refusal] = Policy(frozenset(), Contacted().check).refusals(
        PipelineSpec, _spec({"type": "slack", "config": config})
    )
    assert refusal.path == ("action", "config", "api_url")


def test_a_processor_that_a_package_brings_needs_import() -> None:
    topics = {"t": {"processor": "somebody.elses:Processor", "table": "x"}, "u": {"processor": "other", "table": "y"}}
    config = {"url": "postgresql://example.org/db", "topics": topics}
    found = list(
        Policy(frozenset(), Contacted().check).refusals(PipelineSpec, _spec({"type": "processor", "config": config}))
    )
    assert [refusal.path[-3:] for refusal in found] == [("topics", "t", "processor"), ("topics", "u", "processor")]
    assert all("lists import" in (refusal.hint or "") for refusal in found)


def test_another_source_is_not_held_to_the_cluster_that_it_does_not_use() -> None:
    assert not [place for place in walk(ForeignSourceConfig, ForeignSourceConfig()) if place.find(Address)]


_SMALLEST: dict[str, dict[str, Any]] = {
    "action.notify": {"urls": ["json://example.org"]},
    "action.slack": {"bot_token": "x", "signing_secret": "y", "default_channel": "c"},
    "action.teams": {"webhook_url": "https://example.org"},
    "action.webhook": {"url": "https://example.org"},
    "http step": {"url": "https://example.org"},
}

# -- the instance decides ------------------------------------------------------------------


def test_allow_private_of_documents_from_the_store_is_what_the_instance_says() -> None:
    hook = {"type": "webhook", "config": {"url": "https://example.org"}}
    spec = with_networks(_spec(hook).with_secrets({"canary"}), ["10.1.0.0/16"])
    assert spec.action.config["allow_private"] == ["10.1.0.0/16"]
    assert "canary" in spec.secrets
    assert spec.source.config.connection.allow_private == ["10.1.0.0/16"], "the registry's"
    copied = {"type": "kafka", "config": {"topic": "x", "connection": {"bootstrap": "example.org"}}}
    assert with_networks(_spec(copied), []).action.config["connection"]["allow_private"] == []
    closed = with_networks(_spec({**hook, "config": {**hook["config"], "allow_private": False}}), [])
    assert closed.action.config["allow_private"] == []
    opened = {**hook, "config": {"url": "https://example.org", "allow_private": True}}
    assert with_networks(_spec(opened), []).action.config["allow_private"] is True, "an admin was allowed to open it"
    assert with_networks(_spec({"type": "hello_world"}), ["10.0.0.0/8"]).action.config == {}


def test_every_field_that_lets_private_addresses_through_is_set_by_the_instance() -> None:
    names = [name for name, model in ROOTS.items() if "allow_private" in model.model_fields]
    assert {"action.webhook", "action.slack", "action.teams", "action.notify", "http step"} <= set(names)
    for name in names:
        kind, _, type_name = name.partition(".")
        step = Step(kind.removesuffix(" step"), type_name, _SMALLEST[name], (), ())
        assert opened_config(step, ["10.0.0.0/8"])["allow_private"] == ["10.0.0.0/8"], name


# -- steps of workflows, when a run begins -------------------------------------------------


@pytest.mark.parametrize(
    "step",
    [
        {"name": "a", "kind": "http", "config": {"url": "http://169.254.169.254/canary-host", "method": "GET"}},
        {"name": "a", "kind": "http", "config": {"url": "https://example.org", "allow_private": True}},
        {"name": "a", "kind": "action", "config": {"type": "webhook", "config": {"url": "http://10.0.0.1/"}}},
        {"name": "a", "kind": "action", "config": {"type": "table", "config": {"url": "sqlite:////etc/canary-host"}}},
        {"name": "a", "kind": "action", "config": {"type": "my.module:Act", "config": {}}},
        {"name": "a", "kind": "command", "config": {"argv": ["id"]}},
        {"name": "a", "kind": "python", "config": {"callable": "os:getcwd", "config": {}}},
    ],
)
def test_a_step_whose_secret_says_something_else_by_now_is_not_run(step: dict[str, Any]) -> None:
    prepared = StepPolicy((), ()).prepared(step)
    assert prepared["refused"]
    assert "canary" not in prepared["refused"]
    assert "169.254" not in prepared["refused"]


def test_a_step_of_the_api_runs_with_the_networks_of_the_instance() -> None:
    policy = StepPolicy((), ("10.1.0.0/16",))
    http = policy.prepared({"name": "a", "kind": "http", "config": {"url": "http://10.1.2.3/"}})
    assert http["config"] == {"url": "http://10.1.2.3/", "allow_private": ["10.1.0.0/16"]}
    hook = {"type": "webhook", "config": {"url": "http://10.1.2.3/"}}
    action = policy.prepared({"name": "a", "kind": "action", "config": hook})
    assert action["config"] == {
        "type": "webhook",
        "config": {"url": "http://10.1.2.3/", "allow_private": ["10.1.0.0/16"]},
    }
    assert "refused" in policy.prepared({"name": "a", "kind": "http", "config": {"url": "http://10.2.2.3/"}})
