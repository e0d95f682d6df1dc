"""Lets `import datahub_actions…` work where DataHub's packages are not installed.

A finder at the end of `sys.meta_path` is asked only for modules that nobody else has; it serves the ones that plug-ins
import, made of Penstock's own classes. What is installed is never hidden.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

_BASES = "penstock.datahub.bases"
_ENVELOPE = "penstock.datahub.envelope"
_CONTEXT = "penstock.datahub.context"
_EVENTS = "penstock.datahub.events"
_REGISTRIES = "penstock.datahub.registries"
_CONFIG = "penstock.datahub.pipeline_config"
_PIPELINE = "penstock.service.library"
_STEPS = "penstock.datahub.steps"
_REPORTS = "penstock.datahub.reports"
_ASPECTS = "penstock.datahub.aspects"
_GRAPH = "penstock.datahub.graph"

_EVENT_NAMES = (
    "ENTITY_CHANGE_EVENT_V1_TYPE METADATA_CHANGE_LOG_EVENT_V1_TYPE RELATIONSHIP_CHANGE_EVENT_V1_TYPE "
    "EntityChangeEvent MetadataChangeLogEvent RelationshipChangeEvent"
)
_PLUGIN = {_BASES: "Closeable", _ENVELOPE: "EventEnvelope", _CONTEXT: "PipelineContext"}

_MODULES: dict[str, dict[str, str]] = {
    "datahub.ingestion.api.closeable": {_BASES: "Closeable"},
    "datahub.metadata.schema_classes": {"penstock.datahub.schema_classes": "*"},
    "datahub_actions.action.action": _PLUGIN | {_BASES: "Action Closeable"},
    "datahub_actions.action.action_registry": {_REGISTRIES: "action_registry", _BASES: "Action"},
    "datahub_actions.api.action_graph": {_GRAPH: "AcrylDataHubGraph"},
    "datahub_actions.event.event": {_BASES: "Event PlaceholderEvent"},
    "datahub_actions.event.event_envelope": {_ENVELOPE: "EventEnvelope", _BASES: "Event"},
    "datahub_actions.event.event_registry": {_EVENTS: _EVENT_NAMES, _REGISTRIES: "event_registry", _BASES: "Event"},
    "datahub_actions.filter.filter": _PLUGIN | {_BASES: "Filter"},
    "datahub_actions.filter.filter_registry": {_REGISTRIES: "filter_registry", _BASES: "Filter"},
    "datahub_actions.filter.match_util": {_STEPS: "matches"},
    "datahub_actions.pipeline.pipeline": {
        _PIPELINE: "Pipeline PipelineException",
        _CONFIG: "FailureMode PipelineConfig",
    },
    "datahub_actions.pipeline.pipeline_config": {
        _CONFIG: "ActionConfig FailureMode FilterConfig FilterSpec PipelineConfig PipelineOptions SourceConfig "
        "TransformConfig"
    },
    "datahub_actions.pipeline.pipeline_context": {_CONTEXT: "PipelineContext", _GRAPH: "AcrylDataHubGraph"},
    "datahub_actions.pipeline.pipeline_manager": {
        "penstock.datahub.manager": "PipelineManager PipelineSpec",
        _PIPELINE: "Pipeline",
    },
    "datahub_actions.plugin.action.mcl_utils": {_ASPECTS: "MCLProcessor"},
    "datahub_actions.plugin.action.stats_util": {
        _REPORTS: "ActionStageReport EventProcessingStats ReportingAction StageStatus"
    },
    "datahub_actions.plugin.filter.event_type_filter": {
        _STEPS: "EventTypeFilter EventTypeFilterConfig EventTypeFilterSpec"
    },
    "datahub_actions.plugin.transform.filter.filter_transformer": {_STEPS: "FilterTransformer FilterTransformerConfig"},
    "datahub_actions.source.event_source": _PLUGIN | {_BASES: "Closeable EventSource"},
    "datahub_actions.source.event_source_registry": {_REGISTRIES: "event_source_registry", _BASES: "EventSource"},
    "datahub_actions.transform.transformer": _PLUGIN | {_BASES: "Transformer"},
    "datahub_actions.transform.transformer_registry": {_REGISTRIES: "transformer_registry", _BASES: "Transformer"},
    "datahub_actions.utils.event_util": {_ASPECTS: "parse_generic_aspect parse_generic_payload"},
    "datahub_actions.utils.kafka_eventhubs_auth": {"penstock.datahub.event_hubs": "oauth_cb"},
    "datahub_actions.utils.kafka_msk_iam": {"penstock.datahub.msk_iam": "oauth_cb"},
}
"""Module to the names it has, by the module where they are at home; `*`: all of its `__all__`."""

_ALWAYS = frozenset({"datahub_actions.utils.kafka_eventhubs_auth", "datahub_actions.utils.kafka_msk_iam"})
"""Served inside an installed original too: some of its versions lack them, and configuration files name them."""

_PACKAGES = {name.rpartition(".")[0] for name in _MODULES}
_PACKAGES |= {package.rsplit(".", cut)[0] for package in _PACKAGES for cut in range(package.count(".") + 1)}
_TOPS = frozenset({"datahub", "datahub_actions"})


class MissingHere(ModuleNotFoundError):
    """A module or name of DataHub's own package, which is not installed."""

    hint = "install penstock[datahub]"


class ModuleLoader(Loader):
    """Makes a module of the table."""

    def exec_module(self, module: ModuleType) -> None:
        """Fill the module; a package stays empty."""
        for home, names in _MODULES.get(module.__name__, {}).items():
            found = import_module(home)
            for name in found.__all__ if names == "*" else names.split():
                setattr(module, name, getattr(found, name))
            if names == "*":
                module.__getattr__ = found.__getattr__  # type: ignore[method-assign]  # tells what is not there (PEP 562)


_LOADER = ModuleLoader()


class Finder(MetaPathFinder):
    """Serves the modules of the table."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002 - the protocol's signature
        target: ModuleType | None = None,  # noqa: ARG002 - the protocol's signature
    ) -> ModuleSpec | None:
        top = fullname.partition(".")[0]
        if top not in _TOPS or (_is_original(top) and fullname not in _ALWAYS):
            return None
        if fullname in _PACKAGES or fullname in _MODULES:
            return ModuleSpec(fullname, _LOADER, origin="penstock", is_package=fullname in _PACKAGES)
        raise MissingHere(f"no module `{fullname}`: it is part of DataHub's own package", name=fullname)


def install() -> None:
    """Append the finder; more than once does nothing."""
    if not any(isinstance(finder, Finder) for finder in sys.meta_path):
        sys.meta_path.append(Finder())


def _is_original(package: str) -> bool:
    """Whether the top package, imported before its modules are looked for, is an installed one.

    A folder that happens to have its name (a namespace package, which has no file) is not.
    """
    return getattr(sys.modules.get(package), "__file__", None) is not None
