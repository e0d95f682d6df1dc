"""The table of decoders: built-in formats, and those that packages add through the entry points `penstock.decoders`."""

from __future__ import annotations

from penstock.config.spec import KafkaSourceConfig
from penstock.core.errors import PenstockError, PluginError
from penstock.core.plugin import Decoder, PipelineContext
from penstock.core.registry import Registry

decoders: Registry[Decoder] = Registry(
    kind="decoder",
    base=Decoder,  # type: ignore[type-abstract]  # a base to check against, never created
    builtin={
        "avro": "penstock.decode.avro:AvroDecoder",
        "datahub": "penstock.decode.datahub:DataHubDecoder",
        "envelope": "penstock.decode.envelope:EnvelopeDecoder",
        "json": "penstock.decode.json:JsonDecoder",
        "raw": "penstock.decode.raw:RawDecoder",
        "text": "penstock.decode.text:TextDecoder",
        "wherehows": "penstock.decode.wherehows:WhereHowsDecoder",
    },
    groups=("penstock.decoders",),
)


def decoder_for(source: KafkaSourceConfig, ctx: PipelineContext) -> Decoder:
    """The decoder of a pipeline's source, ready to decode."""
    name = source.format or "json"
    cls = decoders.resolve(name, ctx.folder)
    try:
        return cls.create(source, ctx)
    except PenstockError:
        raise
    except Exception as error:
        text = f"the decoder `{name}` could not be created: {type(error).__name__}: {error}"
        raise PluginError(text, received=name) from error
