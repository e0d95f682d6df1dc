"""Plug-ins written for DataHub as steps of a pipeline, in memory."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import pytest

from penstock.act.registry import actions
from penstock.config.spec import PipelineSpec
from penstock.core.errors import PluginError
from penstock.core.event import Event, Record, RecordLike
from penstock.core.plugin import Decoder, PipelineContext
from penstock.datahub import events
from penstock.datahub.context import PipelineContext as DataHubContext
from penstock.datahub.envelope import EventEnvelope
from penstock.datahub.graph import AcrylDataHubGraph
from penstock.pipeline.chain import Chain
from penstock.pipeline.items import FailedItem
from penstock.testing import TestPipeline

PLUGINS = Path(__file__).parents[2] / "compat" / "datahub" / "plugins.py"
CTX = PipelineContext("notes", folder=str(PLUGINS.parent))


def plugin(name: str) -> str:
    return f"{PLUGINS}:{name}"


def spec(action: str, *, transform: Sequence[dict[str, Any]] = (), filters: Sequence[dict[str, Any]] = ()) -> Any:
    return PipelineSpec.model_validate(
        {
            "name": "notes",
            "source": {"type": "kafka", "config": {"topics": ["t"], "format": "json"}},
            "filters": list(filters),
            "transform": list(transform),
            "action": {"type": action},
        }
    )


CHANGE = events.EntityChangeEvent(
    entityType="dataset",
    entityUrn="urn:li:dataset:1",
    category="TAG",
    operation="ADD",
    auditStamp=events.AuditStampClass(time=1, actor="urn:li:corpuser:user1"),
    version=0,
)


class Changes(Decoder):
    """Gives an entity change for every record."""

    @classmethod
    def create(cls, source: Any, ctx: PipelineContext) -> Self:
        return cls()

    def decode(self, records: Sequence[RecordLike]) -> list[Event | Exception]:
        made: list[Event | Exception] = []
        for record in records:
            event = Event(record, None, events.ENTITY_CHANGE_EVENT_V1_TYPE)
            event.event = events.EntityChangeEvent.from_json(CHANGE.as_json())
            made.append(event)
        return made


SEEN: list[Any] = []


def look(step: str, given: Any) -> None:
    SEEN.append((step, given))


def chain_of(tmp_path: Path, code: str, **steps: Any) -> Chain:
    """A chain of the classes in `code`, over entity changes."""
    file = tmp_path / "mine.py"
    file.write_text(
        "from datahub_actions.action.action import Action\n"
        "from datahub_actions.filter.filter import Filter\n"
        "from datahub_actions.transform.transformer import Transformer\n"
        "from tests.unit.datahub.test_adapters import look\n" + code
    )
    SEEN.clear()
    chain = Chain.build(spec("mine:Act", **steps), PipelineContext("notes", folder=str(tmp_path)))
    chain.decoder = Changes()
    return chain


def test_all_steps_of_an_event_get_the_same_envelope_and_the_same_context(tmp_path: Path) -> None:
    chain = chain_of(
        tmp_path,
        """
class Base:
    @classmethod
    def create(cls, config, ctx):
        look("create", (config, ctx))
        return cls()

class Check(Base, Filter):
    def matches(self, event):
        look("filter", event)
        return True

class Change(Base, Transformer):
    def transform(self, event):
        look("transform", event)
        event.meta["seen"] = True
        return event

class Act(Base, Action):
    def act(self, event):
        look("act", event)
        return "whatever"

    def close(self):
        look("close", None)
""",
        filters=[{"type": "mine:Check", "config": {"a": 1}}],
        transform=[{"type": "mine:Change"}],
    )
    created = [given for step, given in SEEN if step == "create"]
    assert [config for config, _ in created] == [{"a": 1}, {}, {}]
    assert all(type(config) is dict for config, _ in created)
    assert {id(ctx) for _, ctx in created} == {id(created[0][1])}
    assert isinstance(created[0][1], DataHubContext)
    assert (created[0][1].pipeline_name, created[0][1].graph) == ("notes", None)
    SEEN.clear()

    [event] = chain.prepare([Record("t", 0, 7)])
    assert isinstance(event, Event)
    assert chain.action.act(event) is True
    chain.action.close()
    assert [step for step, _ in SEEN] == ["filter", "transform", "act", "close"]
    envelopes = [given for _, given in SEEN[:3]]
    assert {id(envelope) for envelope in envelopes} == {id(envelopes[0])}
    assert isinstance(envelopes[0], EventEnvelope)
    assert envelopes[0].event_type is events.ENTITY_CHANGE_EVENT_V1_TYPE
    assert envelopes[0].event is event.event
    assert event.meta == {"kafka": {"topic": "t", "offset": 7, "partition": 0}, "seen": True}


def test_what_a_transformer_returns_is_what_follows_get(tmp_path: Path) -> None:
    chain = chain_of(
        tmp_path,
        """
import dataclasses

class Renames(Transformer):
    @classmethod
    def create(cls, config, ctx):
        return cls()

    def transform(self, event):
        changed = type(event.event).from_json(event.event.as_json())
        changed.entityUrn = "urn:li:dataset:2"
        return dataclasses.replace(event, event=changed, event_type="Mine_v1", meta={"mine": 1})

class Act(Action):
    @classmethod
    def create(cls, config_dict, ctx):
        return cls()

    def act(self, event):
        look("act", event)
        return False

    def close(self): ...
""",
        transform=[{"type": "mine:Renames"}, {"type": "mine:Renames"}],
        filters=[
            {"type": "event_type", "config": {"filter": {"EntityChangeEvent_v1": {"event": [{"category": "TAG"}]}}}}
        ],
    )
    [event] = chain.prepare([Record("t", 0, 7)])
    assert isinstance(event, Event)
    assert chain.action.act(event) is False
    assert (event.event_type, event.event.entityUrn, event.meta) == ("Mine_v1", "urn:li:dataset:2", {"mine": 1})
    assert json.loads(SEEN[-1][1].as_json()) == json.loads(event.as_json())


def test_a_transformer_that_returns_something_else_fails_its_event_alone(tmp_path: Path) -> None:
    code = """
class Wrong(Transformer):
    @classmethod
    def create(cls, config, ctx):
        return cls()

    def transform(self, event):
        return event.as_json()

class Act(Action):
    @classmethod
    def create(cls, config_dict, ctx):
        return cls()

    def close(self): ...
"""
    [item] = chain_of(tmp_path, code, transform=[{"type": "mine:Wrong"}]).prepare([Record("t", 0, 7)])
    assert isinstance(item, FailedItem)
    assert (item.stage, "returned str" in str(item.error)) == ("transform", True)


def test_on_topics_of_any_format_the_event_is_the_value(tmp_path: Path) -> None:
    out = tmp_path / "out"
    given = spec(plugin("CustomAction"), transform=[{"type": plugin("CustomTransformer"), "config": {"new": "me"}}])
    step = given.action.model_copy(update={"config": {"out": str(out)}})
    with TestPipeline(given.model_copy(update={"action": step})) as pipeline:
        run = pipeline.send({"total": 5})
        assert [each.outcome for each in run] == ["acted"], run[0].error
        assert pipeline.action.ctx.pipeline_name == "notes"
    line, closed = out.read_text().splitlines()
    assert '"event": {"total": 5}' in line
    assert '"by": "me"' in line
    assert closed == '"closed"'


@pytest.mark.parametrize(
    "path",
    [
        "plugins:CustomAction",
        "plugins.CustomAction",
        "plugins:Outer.Inner",
        "./plugins.py:Outer.Inner",
        "tests.compat.datahub.plugins.CustomAction",
    ],
)
def test_import_paths(path: str) -> None:
    assert actions.resolve(path, CTX.folder).__name__ in {"CustomAction", "Inner"}


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("NoClose", "does not define `close`"),
        ("Duck", "does not extend Action"),
        ("CustomTransformer", "does not extend Action"),
        ("MakesNothing", "returned None"),
        ("Refuses", "Refuses` could not be created: ValueError: no such channel"),
        ("Misspelt", "has no `Misspelt`"),
    ],
)
def test_what_is_refused(name: str, says: str) -> None:
    with pytest.raises(PluginError, match=says):
        actions.create(plugin(name), None, CTX)


def test_an_action_without_act_does_nothing() -> None:
    assert actions.create(plugin("NoAct"), None, CTX).act(Event(Record("t", 0, 0), 1)) is True


@pytest.mark.parametrize(
    "name",
    [
        "executor",
        "metadata_change_sync",
        "tag_propagation",
        "term_propagation",
        "snowflake_tag_propagation",
        "doc_propagation",
    ],
)
def test_actions_that_datahubs_package_brings_name_it(name: str) -> None:
    with pytest.raises(PluginError, match=r"install penstock\[datahub\]"):
        actions.resolve(name)


def test_a_plugin_that_imports_more_of_datahub_names_the_extra(tmp_path: Path) -> None:
    (tmp_path / "needy.py").write_text("from datahub.emitter.mce_builder import make_tag_urn\n")
    with pytest.raises(PluginError, match=r"datahub\.emitter.*install penstock\[datahub\]"):
        actions.resolve("needy:Anything", str(tmp_path))


def test_a_catalogue_block_gives_plugins_a_client_that_says_what_to_install(tmp_path: Path) -> None:
    given = spec(plugin("CustomAction")).model_copy(update={"datahub": {"server": "http://localhost:8080"}})
    step = given.action.model_copy(update={"config": {"out": str(tmp_path / "out")}})
    with TestPipeline(given.model_copy(update={"action": step})) as pipeline:
        graph = pipeline.action.ctx.graph
        assert isinstance(graph, AcrylDataHubGraph)
        with pytest.raises(PluginError.__mro__[1], match=r"install penstock\[datahub\]"):
            graph.get_untyped_aspect("urn", "aspect")
