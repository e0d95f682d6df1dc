"""Recovery: messages that alternate storage kept as files become work orders, each of them once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import structlog
from pydantic import ValidationError

from penstock.act.work_order import WorkOrder
from penstock.config.source import KafkaSourceConfig
from penstock.core.cipher import Cipher
from penstock.core.errors import PenstockError
from penstock.core.event import Event
from penstock.core.plugin import PipelineContext
from penstock.kafka.admin import ClusterView
from penstock.kafka.client import KafkaClientConfig
from penstock.service.secrets import SecretBox
from penstock.service.trigger_specs import pipeline_name, source_of
from penstock.store import Store
from penstock.store.work.model import TriggerRow
from penstock.tables.cursor import Place
from penstock.workflows.message import InvalidData
from penstock.workflows.notices import PERSISTENCE
from penstock.workflows.recovery import Kept, MalformedFile, files_in, mark_recovered, read

log = structlog.get_logger("penstock.recovery")

_PATIENCE: Final = 5.0
"""Seconds that a cluster has to answer."""
_AT_ONCE: Final = 1_000
"""Messages of one transaction."""
_OPTIONS: Final = ("accept", "tombstones", "ordering", "limits", "max_dataclip_bytes")
"""What a trigger says of its messages."""

Progress = Callable[[int], None]
TopicIds = Callable[[TriggerRow, set[str]], Mapping[str, str]]
"""Ids of a trigger's topics, which Lightning's files do not say."""


@dataclass(frozen=True, slots=True)
class FileOutcome:
    """What became of one file."""

    path: Path
    outcome: str
    """`ok`, `duplicate`, another name of the specification, `malformed`, `unknown_trigger` or `not_marked`."""
    reason: str = ""

    @property
    def is_recovered(self) -> bool:
        return self.outcome in ("ok", "duplicate")

    def as_dict(self) -> dict[str, Any]:
        return {"file": str(self.path), "outcome": self.outcome} | ({"reason": self.reason} if self.reason else {})


@dataclass(slots=True)
class Report:
    """Of a whole pass."""

    dry_run: bool
    files: list[FileOutcome] = field(default_factory=list)

    @property
    def failed(self) -> list[FileOutcome]:
        return [each for each in self.files if not each.is_recovered]

    def as_dict(self) -> dict[str, Any]:
        counts = Counter(each.outcome for each in self.files)
        failed = [each.as_dict() for each in self.failed]
        return {"dry_run": self.dry_run, "files": len(self.files), "outcomes": dict(counts), "failed": failed}


def recover(
    store: Store,
    url: str,
    paths: Sequence[Path],
    *,
    triggers: Mapping[str, str] | None = None,
    dry_run: bool = False,
    topic_ids: TopicIds = lambda _trigger, _topics: {},
    cipher: Cipher | None = None,
    progress: Progress = lambda _: None,
) -> Report:
    """Take in the files below the paths, by trigger and in the order of the log. `triggers` says which trigger stands
    for one whose id has changed. With `dry_run` nothing is written, and no file is marked."""
    report = Report(dry_run)
    kept: list[Kept] = []
    for path in files_in(paths):
        try:
            kept.append(read(path, cipher))
        except MalformedFile as error:
            report.files.append(FileOutcome(path, "malformed", str(error)))
    renamed = triggers or {}
    kept.sort(key=lambda each: (each.trigger, each.topic_id, each.place))
    for trigger, of_trigger in groupby(kept, key=lambda each: each.trigger):
        name, files = renamed.get(trigger, trigger), list(of_trigger)
        for some in _outcomes(store, url, name, files, topic_ids, dry_run=dry_run):
            report.files += some
            progress(len(some))
    return report


def asked_topic_ids(box: SecretBox) -> TopicIds:
    """By the trigger's own cluster; where it does not answer, by what its intake has known them."""

    def ask(trigger: TriggerRow, topics: set[str]) -> Mapping[str, str]:
        try:
            source = KafkaSourceConfig.model_validate(source_of(box.resolved(trigger.kafka_configuration)))
            return ClusterView(KafkaClientConfig.of(source.connection), _PATIENCE).topic_ids(topics)
        except (PenstockError, ValidationError, KeyError) as error:
            log.warning(
                "the trigger's cluster does not tell the ids of its topics", trigger=trigger.id, reason=str(error)
            )
            return {}

    return ask


def _outcomes(
    store: Store, url: str, name: str, kept: list[Kept], topic_ids: TopicIds, *, dry_run: bool
) -> Iterator[list[FileOutcome]]:
    trigger = store.triggers.get(name)
    if trigger is None:
        said = f"there is no trigger {name}; --map OLD=NEW names the one that stands for it"
        yield [FileOutcome(each.path, "unknown_trigger", said) for each in kept]
        return
    try:
        action = _action(url, trigger)
    except PenstockError as error:
        yield [FileOutcome(each.path, error.code, str(error)) for each in kept]
        return
    unnamed = {each.record.topic() for each in kept if not each.topic_id}
    ids = topic_ids(trigger, unnamed) if unnamed else {}
    try:
        for (topic_id, topic, partition), group in groupby(kept, key=lambda k: (k.topic_id, *k.place[:2])):
            files = list(group)
            place = Place(pipeline_name(trigger.id), topic_id or ids.get(topic, ""), partition, topic)
            for at in range(0, len(files), _AT_ONCE):
                yield _taken(action, place, files[at : at + _AT_ONCE], dry_run=dry_run)
    finally:
        action.close()


def _action(url: str, trigger: TriggerRow) -> WorkOrder:
    options = {name: trigger.options[name] for name in _OPTIONS if trigger.options.get(name) is not None}
    config = {"url": url, "trigger": trigger.id, "workflow": trigger.workflow_id, "backlog": None, **options}
    return WorkOrder.create(config, PipelineContext(pipeline_name(trigger.id)))


def _taken(action: WorkOrder, place: Place, files: list[Kept], *, dry_run: bool) -> list[FileOutcome]:
    events = [Event(each.record, each.record.value(), place.topic) for each in files]
    try:
        found = action.recover(place, events, dry_run=dry_run)
    except PenstockError as error:
        return [FileOutcome(each.path, error.code, str(error)) for each in files]
    errors = {event.record.offset(): error for event, error in found.refused}
    outcomes: list[FileOutcome] = []
    for each in files:
        offset = each.record.offset()
        if (why := errors.get(offset)) is not None:
            outcomes.append(FileOutcome(each.path, _name(why), str(why)))
            continue
        outcome = FileOutcome(each.path, "duplicate" if offset in found.known else "ok")
        outcomes.append(outcome if dry_run else _marked(outcome))
    return outcomes


def _name(error: Exception) -> str:
    if isinstance(error, InvalidData):
        return InvalidData.code
    return error.code if isinstance(error, PenstockError) and error.code.startswith("work_order") else PERSISTENCE


def _marked(outcome: FileOutcome) -> FileOutcome:
    try:
        mark_recovered(outcome.path)
    except OSError as error:
        # It is taken in; the next pass finds it to be so, and marks it.
        return FileOutcome(outcome.path, "not_marked", f"it is taken in, but cannot be renamed: {error.strerror}")
    return outcome
