"""What cannot be used is shown, at the pipeline that goes on without it where there is one."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from penstock.config.loading import Loaded, load
from penstock.config.settings import Settings
from penstock.config.spec import PipelineSpec
from penstock.core.errors import ConfigError
from penstock.core.metrics import Metrics
from penstock.service import taking
from penstock.service.reloading import Reloader
from penstock.service.taking import Taking
from penstock.store import StateRow

TEXT = "name: {name}\nsource: {{config: {{topics: [a]}}}}\naction: {{type: hello_world}}\n"


@dataclass
class FakeStatus:
    stale: str | None = None


@dataclass
class FakeFlow:
    spec: PipelineSpec
    status: FakeStatus = field(default_factory=FakeStatus)

    @property
    def name(self) -> str:
        return self.spec.name


@dataclass
class FakeInstance:
    """Refuses what it is told to."""

    id: str = "here"
    runners: list[FakeFlow] = field(default_factory=list)
    invalid: list[StateRow] = field(default_factory=list)
    refuses: set[str] = field(default_factory=set)
    metrics: Metrics = field(default_factory=Metrics)

    def add(self, spec: PipelineSpec) -> FakeFlow:
        if spec.name in self.refuses:
            raise ConfigError("the key is not there")
        self.remove(spec.name)
        self.runners.append(FakeFlow(spec))
        return self.runners[-1]

    def remove(self, name: str) -> None:
        self.runners = [flow for flow in self.runners if flow.name != name]

    @property
    def problems(self) -> float | None:
        return self.metrics.registry.get_sample_value("penstock_config_problems")

    @property
    def shown(self) -> dict[str, str | None]:
        return {row.pipeline: row.reason for row in self.invalid}


@pytest.fixture
def instance() -> FakeInstance:
    return FakeInstance()


@pytest.fixture
def taker(instance: FakeInstance, monkeypatch: pytest.MonkeyPatch) -> Taking:
    monkeypatch.setattr(taking, "configure_logs", lambda **_: None)
    made: Any = instance
    return Taking(made, Settings(), frozenset())


def read(folder: Path, **names: str) -> Loaded:
    for name, text in names.items():
        (folder / f"{name}.yaml").write_text(text)
    return load([folder], {})


def test_a_bad_file_is_shown_by_its_name(taker: Taking, instance: FakeInstance, tmp_path: Path) -> None:
    loaded = read(tmp_path, good=TEXT.format(name="good"), bad="name: bad\nsauce: {}\n")
    taker.tell(loaded, {})
    for spec in loaded.specs:
        taker.take(spec, loaded)
    assert [flow.name for flow in instance.runners] == ["good"]
    assert instance.problems == 1
    [(name, reason)] = instance.shown.items()
    assert name.endswith("bad.yaml")
    assert "sauce" in str(reason)
    assert "action" in str(reason), "all that is wrong with the file"


def test_a_running_pipeline_says_that_its_file_is_bad(taker: Taking, instance: FakeInstance, tmp_path: Path) -> None:
    loaded = read(tmp_path, good=TEXT.format(name="good"))
    taker.take(loaded.specs[0], loaded)
    again = read(tmp_path, good="name: good\nsauce: {}\n")
    taker.tell(again, {"good": "; ".join(map(str, again.problems))})
    assert "sauce" in str(instance.runners[0].status.stale)
    assert instance.shown == {}
    taker.tell(read(tmp_path, good=TEXT.format(name="good")), {})
    assert instance.runners[0].status.stale is None


def test_what_others_show_stays(taker: Taking, instance: FakeInstance, tmp_path: Path) -> None:
    instance.invalid.append(StateRow(pipeline="trigger/x", instance="here", state="invalid", reason="no broker"))
    loaded = read(tmp_path, bad="name: bad\n")
    taker.tell(loaded, {})
    assert len(instance.shown) == 2
    taker.tell(Loaded(), {})
    assert instance.shown == {"trigger/x": "no broker"}


def test_one_that_cannot_be_made_leaves_the_old_one(taker: Taking, instance: FakeInstance, tmp_path: Path) -> None:
    loaded = read(tmp_path, good=TEXT.format(name="good"))
    taker.take(loaded.specs[0], loaded)
    instance.refuses = {"good", "new"}
    again = read(tmp_path, good=TEXT.format(name="good"), new=TEXT.format(name="new"))
    for spec in again.specs:
        taker.take(spec, again)
    assert [flow.name for flow in instance.runners] == ["good"]
    assert "the key is not there" in str(instance.runners[0].status.stale)
    assert list(instance.shown) == ["new"]
    assert instance.problems == 2
    # A later look, at which nothing is wrong with the files, does not make it forgotten.
    taker.tell(read(tmp_path), {})
    assert "the key is not there" in str(instance.runners[0].status.stale)
    instance.refuses = set()
    for spec in again.specs:
        taker.take(spec, Loaded())
    assert [(flow.name, flow.status.stale) for flow in instance.runners] == [("good", None), ("new", None)]
    assert instance.shown == {}
    taker.drop("new")
    assert [flow.name for flow in instance.runners] == ["good"]


def test_what_was_refused_is_forgotten_with_its_file(taker: Taking, instance: FakeInstance, tmp_path: Path) -> None:
    """Whether it never ran, or runs by its file as it was before."""
    loaded = read(tmp_path, **{name: TEXT.format(name=name) for name in ("good", "new", "other")})
    taker.tell(loaded, {})
    reloader = Reloader([tmp_path], loaded, taker, lambda _: load([tmp_path], {}), 3600.0)
    instance.refuses = {"new"}
    for spec in loaded.specs:
        taker.take(spec, loaded)
    instance.refuses = {"new", "good"}
    (tmp_path / "good.yaml").write_text(TEXT.format(name="good").replace("[a]", "[b]"))
    reloader.look()
    assert (list(instance.shown), instance.problems) == (["new"], 2)
    assert [flow.name for flow in instance.runners if flow.status.stale] == ["good"]
    (tmp_path / "new.yaml").unlink()
    reloader.look()
    assert (instance.shown, instance.problems) == ({}, 1)
    (tmp_path / "good.yaml").unlink()
    reloader.look()
    assert ([flow.name for flow in instance.runners], instance.shown, instance.problems) == (["other"], {}, 0)
