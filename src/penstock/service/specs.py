"""Finds the current spec of a pipeline: in the files that are given, else as it last ran."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from penstock.config.problems import InvalidConfigError
from penstock.config.settings import Settings
from penstock.config.spec import PipelineSpec
from penstock.config.stored import restored
from penstock.core.errors import ConfigError
from penstock.service.trigger_specs import PREFIX
from penstock.service.triggers import find_trigger, trigger_spec
from penstock.service.validation import load_checked
from penstock.store import Store


def current_spec(pipeline: str, files: Sequence[Path], store: Store | None) -> PipelineSpec:
    """The spec by which the pipeline would run now; an error names the pipeline that has none."""
    if files:
        return _from_files(pipeline, files)
    if store is not None and pipeline.startswith(PREFIX):
        # Its secrets are in the store, which a pipeline's are not.
        return trigger_spec(store, Settings.load(), find_trigger(store, pipeline))
    row = store.pipelines.last_spec(pipeline) if store is not None else None
    if row is None:
        raise ConfigError(
            f"pipeline {pipeline!r} does not exist: no instance has run it",
            received=pipeline,
            hint="give its file with --config",
        )
    return restored(pipeline, row.spec)


def only_spec(files: Sequence[Path]) -> PipelineSpec:
    """The spec of files that hold one pipeline."""
    loaded = load_checked(files)
    if loaded.problems:
        raise InvalidConfigError(loaded.problems)
    if len(loaded.specs) != 1:
        raise ConfigError(
            "which pipeline?",
            allowed=sorted(spec.name for spec in loaded.specs) or None,
            hint="give --config with its file, and --pipeline where the files have several",
        )
    return loaded.specs[0]


def _from_files(pipeline: str, files: Sequence[Path]) -> PipelineSpec:
    loaded = load_checked(files)
    for spec in loaded.specs:
        if spec.name == pipeline:
            return spec
    if loaded.problems:
        raise InvalidConfigError(loaded.problems)
    raise ConfigError(
        f"pipeline {pipeline!r} does not exist in {', '.join(map(str, files))}",
        received=pipeline,
        allowed=sorted(spec.name for spec in loaded.specs),
    )
