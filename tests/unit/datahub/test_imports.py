"""Modules of DataHub that plug-ins import, where its own package is not installed."""

from __future__ import annotations

import dataclasses
import importlib
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from penstock.core.errors import PenstockError
from penstock.datahub import imports

imports.install()

ROOT = Path(__file__).parents[3]
SPEC_TABLE = {
    "datahub_actions.action.action": ["Action"],
    "datahub_actions.transform.transformer": ["Transformer"],
    "datahub_actions.filter.filter": ["Filter"],
    "datahub_actions.source.event_source": ["EventSource"],
    "datahub_actions.event.event": ["Event", "PlaceholderEvent"],
    "datahub_actions.event.event_envelope": ["EventEnvelope"],
    "datahub_actions.event.event_registry": [
        "MetadataChangeLogEvent",
        "EntityChangeEvent",
        "RelationshipChangeEvent",
        "METADATA_CHANGE_LOG_EVENT_V1_TYPE",
        "ENTITY_CHANGE_EVENT_V1_TYPE",
        "RELATIONSHIP_CHANGE_EVENT_V1_TYPE",
        "event_registry",
    ],
    "datahub_actions.pipeline.pipeline_context": ["PipelineContext"],
    "datahub_actions.pipeline.pipeline": ["Pipeline", "PipelineException"],
    "datahub_actions.pipeline.pipeline_config": ["FailureMode", "PipelineConfig"],
    "datahub_actions.pipeline.pipeline_manager": ["PipelineManager"],
    "datahub_actions.plugin.transform.filter.filter_transformer": ["FilterTransformer", "FilterTransformerConfig"],
    "datahub_actions.plugin.filter.event_type_filter": ["EventTypeFilter", "EventTypeFilterConfig"],
    "datahub_actions.filter.match_util": ["matches"],
    "datahub_actions.api.action_graph": ["AcrylDataHubGraph"],
    "datahub_actions.plugin.action.stats_util": [
        "ReportingAction",
        "ActionStageReport",
        "EventProcessingStats",
        "StageStatus",
    ],
    "datahub_actions.plugin.action.mcl_utils": ["MCLProcessor"],
    "datahub_actions.utils.event_util": ["parse_generic_aspect", "parse_generic_payload"],
    "datahub_actions.action.action_registry": ["action_registry"],
    "datahub_actions.transform.transformer_registry": ["transformer_registry"],
    "datahub_actions.source.event_source_registry": ["event_source_registry"],
    "datahub_actions.filter.filter_registry": ["filter_registry"],
    "datahub_actions.utils.kafka_msk_iam": ["oauth_cb"],
    "datahub_actions.utils.kafka_eventhubs_auth": ["oauth_cb"],
    "datahub.ingestion.api.closeable": ["Closeable"],
    "datahub.metadata.schema_classes": [
        "MetadataChangeLogClass",
        "EntityChangeEventClass",
        "RelationshipChangeEventClass",
        "AuditStampClass",
        "GenericAspectClass",
        "GenericPayloadClass",
        "SystemMetadataClass",
        "ChangeTypeClass",
    ],
}


@pytest.mark.parametrize(("module", "names"), SPEC_TABLE.items())
def test_every_module_of_the_contract_is_there(module: str, names: list[str]) -> None:
    found = importlib.import_module(module)
    assert [name for name in names if not hasattr(found, name)] == []


def test_the_finder_is_asked_last_once_and_only_for_datahub() -> None:
    imports.install()
    imports.install()
    assert [type(finder) for finder in sys.meta_path].count(imports.Finder) == 1
    assert imports.Finder().find_spec("json") is None
    assert imports.Finder().find_spec("datahubby") is None


def test_what_is_not_served_says_what_to_install() -> None:
    with pytest.raises(ModuleNotFoundError, match="DataHub's own package") as missing:
        importlib.import_module("datahub.emitter.mce_builder")
    assert missing.value.hint == "install penstock[datahub]"  # type: ignore[attr-defined]
    with pytest.raises(ImportError, match="GlobalTagsClass"):
        from datahub.metadata.schema_classes import GlobalTagsClass  # noqa: F401, PLC0415 - it is not there


def test_an_installed_original_is_never_hidden_and_a_folder_of_its_name_is_no_original(tmp_path: Path) -> None:
    original = tmp_path / "installed" / "datahub_actions"
    for package in (original, original / "action", original / "utils"):
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
    (original / "action" / "action.py").write_text("class Action: original = True\n")
    folder = tmp_path / "folder" / "datahub_actions"
    folder.mkdir(parents=True)
    code = (
        "from penstock.datahub import imports; imports.install()\n"
        "from penstock.datahub.classes import has_original\n"
        "from datahub_actions.action.action import Action\n"
        "print(has_original(), getattr(Action, 'original', False))\n"
        "try:\n    import datahub_actions.filter.filter\n    print('served')\n"
        "except ModuleNotFoundError: print('not served')\n"
        "from datahub_actions.utils.kafka_eventhubs_auth import oauth_cb\n"
    )
    assert _python(code, original.parent) == ["True True", "not served"]
    assert _python(code, folder.parent) == ["False False", "served"]


def test_importing_penstock_does_not_pay_for_it() -> None:
    code = (
        "import penstock, sys; print('penstock.datahub' in sys.modules)\n"
        "from penstock.datahub import imports\n"
        "import time; began = time.perf_counter(); imports.install(); print(time.perf_counter() - began < 0.001)\n"
    )
    assert _python(code, ROOT) == ["False", "True"]


def test_a_wheel_has_no_folder_of_datahubs(tmp_path: Path) -> None:
    build = [str(ROOT / ".cache/uv/bin/uv"), "build", "--quiet", "--wheel", "--out-dir", str(tmp_path), str(ROOT)]
    # From uv's cache where it can be.
    if subprocess.run([*build, "--offline"], capture_output=True, check=False).returncode:
        subprocess.run(build, check=True)
    [wheel] = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "penstock/datahub/imports.py" in names
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"penstock"}


def test_an_envelope_is_a_dataclass_with_datahubs_text() -> None:
    from datahub_actions.event.event_envelope import EventEnvelope  # noqa: PLC0415 - served by the finder
    from datahub_actions.event.event_registry import (  # noqa: PLC0415 - as above
        ENTITY_CHANGE_EVENT_V1_TYPE,
        EntityChangeEvent,
    )

    payload = {
        "entityType": "dataset",
        "entityUrn": "urn:li:dataset:1",
        "category": "TAG",
        "operation": "ADD",
        "auditStamp": {"time": 1, "actor": "urn:li:corpuser:user1"},
        "version": 0,
    }
    event = EntityChangeEvent.from_json(json.dumps(payload))
    envelope = EventEnvelope(ENTITY_CHANGE_EVENT_V1_TYPE, event, {"kafka": {"topic": "t", "offset": 1, "partition": 0}})
    text = (
        '{ "event_type": "EntityChangeEvent_v1", "event": ' + json.dumps(payload) + ", "
        '"meta": {"kafka": {"topic": "t", "offset": 1, "partition": 0}} }'
    )
    assert envelope.as_json() == text
    again = EventEnvelope.from_json(text)
    assert (again, again.event_type is ENTITY_CHANGE_EVENT_V1_TYPE) == (envelope, True)
    assert dataclasses.replace(envelope, meta={"lock": object()}).as_json().endswith('"meta": null }')
    assert EventEnvelope.from_json(text.replace(', "meta"', ', "other"')).meta == {}
    with pytest.raises(KeyError, match="Unknown_v9"):
        EventEnvelope.from_json('{"event_type": "Unknown_v9", "event": {}}')


def test_registries_refuse_what_datahubs_refuse() -> None:
    from datahub_actions.action.action import Action  # noqa: PLC0415 - served by the finder
    from datahub_actions.action.action_registry import action_registry  # noqa: PLC0415 - as above
    from datahub_actions.filter.filter import Filter  # noqa: PLC0415 - as above

    class Mine(Action):  # type: ignore[misc]
        @classmethod
        def create(cls, config_dict, ctx):  # type: ignore[no-untyped-def]
            return cls()

        def close(self) -> None: ...

    class NoClose(Action):  # type: ignore[misc]
        @classmethod
        def create(cls, config_dict, ctx):  # type: ignore[no-untyped-def]
            return cls()

    action_registry.register("mine", Mine)
    assert action_registry.get("mine") is Mine
    assert action_registry.get_optional("nobody") is None
    for key, cls, error in (
        ("mine", Mine, KeyError),
        ("a.b", Mine, KeyError),
        ("a:b", Mine, KeyError),
        ("abstract", NoClose, ValueError),
        ("other-kind", Filter, ValueError),
        ("duck", dict, ValueError),
    ):
        with pytest.raises(error):
            action_registry.register(key, cls)
    with pytest.raises(KeyError, match="nobody"):
        action_registry.get("nobody")


def test_a_source_is_asked_to_stop_as_datahubs_are() -> None:
    from datahub_actions.source.event_source import EventSource  # noqa: PLC0415 - served by the finder

    class Source(EventSource):  # type: ignore[misc]
        running = True
        create = events = ack = close = lambda *_: None  # type: ignore[assignment]

    source = Source()
    source.set_filters([])
    assert not source.stop_requested()
    source.request_stop()
    assert (source.stop_requested(), source.running) == (True, False)


def test_the_stand_in_of_the_catalogues_client_says_what_to_install() -> None:
    from datahub_actions.api.action_graph import AcrylDataHubGraph  # noqa: PLC0415 - served by the finder

    with pytest.raises(PenstockError, match=r"graph\.get_by_query.*penstock\[datahub\]"):
        AcrylDataHubGraph().get_by_query("query", "dataset")


def test_reports_and_processors_work_as_plugins_expect() -> None:
    from datahub.metadata.schema_classes import GenericAspectClass  # noqa: PLC0415 - served by the finder
    from datahub_actions.event.event_envelope import EventEnvelope  # noqa: PLC0415 - as above
    from datahub_actions.event.event_registry import (  # noqa: PLC0415 - as above
        METADATA_CHANGE_LOG_EVENT_V1_TYPE,
        MetadataChangeLogEvent,
    )
    from datahub_actions.pipeline.pipeline_context import PipelineContext  # noqa: PLC0415 - as above
    from datahub_actions.plugin.action.mcl_utils import MCLProcessor  # noqa: PLC0415 - as above
    from datahub_actions.plugin.action.stats_util import (  # noqa: PLC0415 - as above
        ActionStageReport,
        EventProcessingStats,
        ReportingAction,
        StageStatus,
    )
    from datahub_actions.utils.event_util import parse_generic_aspect  # noqa: PLC0415 - as above

    class Mine(ReportingAction):  # type: ignore[misc]
        create = classmethod(lambda cls, config_dict, ctx: cls(ctx))

        def get_report(self) -> ActionStageReport:
            return ActionStageReport()

        def close(self) -> None: ...

    assert Mine(PipelineContext("prefix-urn:li:dataHubAction:a", None)).action_urn == "urn:li:dataHubAction:a"
    assert Mine(PipelineContext("plain", None)).action_urn == "urn:li:dataHubAction:plain"

    report = ActionStageReport(event_processing_stats=EventProcessingStats())
    report.start()
    report.increment_assets_processed("urn")
    change = MetadataChangeLogEvent(
        entityType="dataset",
        changeType="UPSERT",
        entityUrn="urn:li:dataset:1",
        aspectName="auditStamp",
        aspect=GenericAspectClass(value=b'{"time": 5, "actor": "a"}', contentType="application/json"),
    )
    envelope = EventEnvelope(METADATA_CHANGE_LOG_EVENT_V1_TYPE, change, {})
    report.event_processing_stats.start(envelope)
    report.event_processing_stats.end(envelope, success=True)
    report.end(success=True)
    assert report.status is StageStatus.SUCCESS
    stats = report.aggregatable_stats()
    assert stats["total_assets_processed"] == 1
    assert "total_assets_to_process" not in stats
    assert "event_processing_stats.last_event_processed_time_success" in stats
    assert report.as_obj()["status"] == "success"

    processor = MCLProcessor()
    processor.register_processor("dataset", "auditStamp", lambda **given: given)
    assert processor.is_mcl(envelope)
    given = processor.process(envelope)
    assert (given["entity_urn"], given["previous_aspect_value"]) == ("urn:li:dataset:1", None)
    from datahub.metadata.schema_classes import AuditStampClass  # noqa: PLC0415 - as above

    assert parse_generic_aspect(AuditStampClass, given["aspect_value"]).time == 5
    with pytest.raises(ValueError, match="text/plain"):
        parse_generic_aspect(AuditStampClass, GenericAspectClass(value=b"", contentType="text/plain"))


def _python(code: str, folder: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]
