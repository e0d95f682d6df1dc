"""The table of decoders: built-in formats and those that packages add through the entry-point group `penstock.decoders`."""

from __future__ import annotations

from importlib.metadata import entry_points

from penstock.config.spec import KafkaSourceConfig
from penstock.core.errors import ConfigError, PluginError
from penstock.core.plugin import Decoder, PipelineContext
from penstock.decode.avro import AvroDecoder
from penstock.decode.json import JsonDecoder
from penstock.decode.raw import RawDecoder
from penstock.decode.text import TextDecoder

ENTRY_POINTS = "penstock.decoders"

DECODERS: dict[str, type[Decoder]] = {
    "json": JsonDecoder,
    "avro": AvroDecoder,
    "text": TextDecoder,
    "raw": RawDecoder,
}
"""Format name to decoder class."""

_LATER = ("datahub", "wherehows")


def format_of(source: KafkaSourceConfig) -> str:
    """The source's format, default resolved: `datahub` where nothing says what to read, else `json`."""
    if source.format is not None:
        return source.format
    return "json" if source.topics or source.topic_pattern else "datahub"


def decoder_for(source: KafkaSourceConfig, ctx: PipelineContext) -> Decoder:
    """The decoder of a pipeline's source, ready to decode."""
    name = format_of(source)
    return decoder_class(name).create(source, ctx)


def decoder_class(name: str) -> type[Decoder]:
    """The class registered for a format."""
    if name in DECODERS:
        return DECODERS[name]
    found = entry_points(group=ENTRY_POINTS, name=name)
    if not found:
        hint = f"format {name} is not part of this version yet" if name in _LATER else None
        raise ConfigError("unknown format", received=name, allowed=sorted(DECODERS), hint=hint)
    try:
        loaded = next(iter(found)).load()
    except Exception as error:  # noqa: BLE001 - a plug-in's import may raise anything; the user is told which one
        raise PluginError(f"decoder {name} cannot be loaded: {error}", received=name) from error
    if not (isinstance(loaded, type) and issubclass(loaded, Decoder)):
        raise PluginError(f"decoder {name} is not a Decoder class", received=repr(loaded))
    return loaded
