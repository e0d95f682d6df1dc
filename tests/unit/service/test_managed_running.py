"""Pipelines kept in the store are taken in, replaced and let go as their documents change."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.config.loading import Loaded
from penstock.config.settings import Settings
from penstock.config.spec import PipelineSpec
from penstock.service.managed_running import ManagedRunning
from penstock.store import Store
from tests.support.waiting import until

_TEXT = """\
name: {name}
source: {{type: kafka, config: {{connection: {{bootstrap: "localhost:9092"}}, topics: [orders], group: {group}}}}}
action: {{type: {action}}}
"""


def text(name: str, group: str = "g", action: str = "hello_world") -> str:
    return _TEXT.format(name=name, group=group, action=action)


class Taken:
    def __init__(self) -> None:
        self.running: dict[str, PipelineSpec] = {}
        self.refused: dict[str, str] = {}
        self.said: list[str] = []

    def take(self, spec: PipelineSpec, loaded: Loaded) -> None:
        assert loaded.problem(spec, ("action", "type"), "x").line == 3
        self.running[spec.name] = spec
        self.said.append(f"take {spec.name} {spec.group}")

    def drop(self, name: str) -> None:
        del self.running[name]
        self.said.append(f"drop {name}")

    def refuse(self, name: str, why: str | None) -> None:
        self.refused.pop(name, None)
        if why is not None:
            self.refused[name] = why


@pytest.fixture
def store(penstock_home: Path) -> Iterator[Store]:
    with Store.open(f"sqlite:///{penstock_home}/penstock.db") as opened:
        yield opened


def make(store: Store, **variables: str) -> tuple[ManagedRunning, Taken]:
    taken = Taken()
    settings = Settings.load({"PENSTOCK_API_NETWORKS": "localhost"} | variables)
    return ManagedRunning(store, settings, taken, lambda: list(taken.running.values())), taken


def test_what_is_kept_runs_as_it_is_kept(store: Store) -> None:
    managed, taken = make(store)
    store.managed.create("a", text("a", "one"), by="x")
    managed.look()
    managed.look()
    assert taken.said == ["take a one"]
    store.managed.replace("a", text("a", "two"), revision=1, by="x")
    managed.look()
    assert taken.running["a"].group == "two"
    store.managed.delete("a", revision=2, by="x")
    managed.look()
    managed.look()
    assert taken.said == ["take a one", "take a two", "drop a"]


def test_what_this_machine_does_not_allow_does_not_run_and_says_why(store: Store) -> None:
    managed, taken = make(store)
    store.managed.create("a", text("a"), by="x")
    managed.look()
    store.managed.replace("a", text("a", action="command, config: {argv: [id]}"), revision=1, by="x")
    managed.look()
    assert "PENSTOCK_API_ALLOW" in taken.refused["a"]
    assert taken.running["a"].action.type == "hello_world", "the one before goes on"
    other, here = make(store, PENSTOCK_API_ALLOW="command")
    other.look()
    assert here.running["a"].action.type == "command"


def test_names_and_groups_of_others_are_not_taken_away(store: Store) -> None:
    managed, taken = make(store)
    taken.running["file"] = PipelineSpec.model_validate(
        {"name": "file", "source": {"type": "kafka", "config": {"topics": ["t"]}}, "action": {"type": "hello_world"}}
    )
    store.managed.create("file", text("file", "other"), by="x")
    store.managed.create("same", text("same", "file"), by="x")
    store.managed.create("fine", text("fine", "fine"), by="x")
    managed.look()
    assert taken.refused["file"] == "the name 'file' is taken by a file"
    assert taken.refused["same"] == "the group 'file' is taken by pipeline 'file'"
    assert taken.said == ["take fine fine"]


def test_references_become_secrets_that_logs_know_to_hide(store: Store) -> None:
    taken = Taken()
    settings = Settings.load({"PENSTOCK_API_NETWORKS": "localhost"})
    named = {"kafka": "canary-1d4"}
    managed = ManagedRunning(store, settings, taken, list, lambda: named)
    for name, secret in (("a", "kafka"), ("b", "other")):
        refers = f'"localhost:9092", consumer_config: {{sasl.password: {{$ref: {secret}}}}}'
        store.managed.create(name, text(name, name).replace('"localhost:9092"', refers), by="x")
    managed.look()
    spec = taken.running["a"]
    assert spec.source.config.connection.consumer_config["sasl.password"] == "canary-1d4"
    assert "canary-1d4" in spec.secrets
    assert "there is no secret named 'other'" in taken.refused["b"]
    # Set or changed later, a secret takes effect by itself; one that nobody refers to changes nothing.
    named |= {"other": "canary-2e5", "third": "canary-3f6"}
    taken.said.clear()
    managed.look()
    assert [said.split()[:2] for said in taken.said] == [["take", "b"]]
    named["kafka"] = "canary-9z9"
    managed.look()
    assert taken.running["a"].source.config.connection.consumer_config["sasl.password"] == "canary-9z9"


def test_a_thread_looks_by_itself_until_it_is_stopped(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    managed, taken = make(store)
    monkeypatch.setattr("penstock.service.managed_running.EVERY", 0.02)
    managed.start()
    store.managed.create("a", text("a"), by="x")
    until(lambda: "a" in taken.running, 10, "the pipeline is taken in")
    managed.stop(5)
    assert not managed.is_alive()
