"""What a pipeline with processors would store of one message that is on its topic."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from penstock.act.processor import ProcessorConfig
from penstock.config.spec import KafkaSourceConfig, PipelineSpec
from penstock.core.deadline import Deadline
from penstock.core.errors import ConfigError, PenstockError
from penstock.core.event import RecordLike
from penstock.core.plugin import PipelineContext
from penstock.core.plugin_config import parse_config
from penstock.decode.registry import decoder_for
from penstock.kafka.client import KafkaClientConfig
from penstock.kafka.partition_reader import PartitionReader
from penstock.service.validation import load_specs
from penstock.tables.expressions import Expressions
from penstock.tables.preview import Preview, preview
from penstock.tables.processor import ProcessorSettings
from penstock.tables.registry import resolve_processor

_SECONDS: Final = 15.0


def preview_message(paths: Sequence[Path], topic: str, partition: int, offset: int) -> Preview:
    """Read the message, decode it, and process it as its pipeline would; nothing is stored or committed."""
    spec, config = _pipeline(load_specs(paths), topic)
    source = spec.source.config
    if not isinstance(source, KafkaSourceConfig):
        raise ConfigError(f"pipeline {spec.name} does not read from Kafka")
    record = _read(KafkaClientConfig.of(source.connection), topic, partition, offset)
    decoder = decoder_for(source, PipelineContext(spec.name, folder=spec.folder, source=source))
    try:
        [event] = decoder.decode([record])
    finally:
        decoder.close()
    if isinstance(event, Exception):
        said: dict[str, object] = event.as_dict() if isinstance(event, PenstockError) else {"message": str(event)}
        return Preview(error=said | {"stage": "decode"})
    if event is None:
        return Preview()
    chosen = config.topics[topic]
    settings = ProcessorSettings(
        expressions=Expressions.of(config.expressions), values=config.values, zone=config.zone, owners=config.owners
    )
    processor = resolve_processor(chosen.processor, spec.folder)()
    return preview(processor, settings, event.value, topic, table=chosen.table, url=config.url)


def _pipeline(specs: Sequence[PipelineSpec], topic: str) -> tuple[PipelineSpec, ProcessorConfig]:
    found = [spec for spec in specs if spec.action.type == "processor"]
    configs = [(spec, parse_config(ProcessorConfig, spec.action.config or {}, "processor")) for spec in found]
    for spec, config in configs:
        if topic in config.topics:
            return spec, config
    known = sorted(name for _, config in configs for name in config.topics)
    raise ConfigError(f"no pipeline of these files has a processor for {topic}", received=topic, allowed=known)


def _read(client: KafkaClientConfig, topic: str, partition: int, offset: int) -> RecordLike:
    place, deadline = (topic, partition), Deadline.after(_SECONDS)
    reader = PartitionReader(client, name="penstock-preview")
    try:
        reader.place({place: offset})
        while not deadline.expired:
            batch = reader.read(1, min(0.5, deadline.remaining))
            for record in batch.records if batch is not None else ():
                if record.offset() == offset:
                    return record
                raise _no_message(topic, partition, offset)
            if reader.at_end(place):
                break
    finally:
        reader.close()
    raise _no_message(topic, partition, offset)


def _no_message(topic: str, partition: int, offset: int) -> ConfigError:
    return ConfigError(
        f"there is no message {topic}/{partition}@{offset}", hint="`penstock topics tail` shows what there is"
    )
