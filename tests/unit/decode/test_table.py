"""The table of decoders."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.config.spec import KafkaSourceConfig
from penstock.core.errors import ConfigError
from penstock.core.plugin import PipelineContext
from penstock.decode import decoder_for, decoders
from penstock.decode.json import JsonDecoder
from penstock.decode.raw import RawDecoder
from penstock.decode.text import TextDecoder

CTX = PipelineContext("p")


@pytest.mark.parametrize(("name", "cls"), [("json", JsonDecoder), ("text", TextDecoder), ("raw", RawDecoder)])
def test_formats(name: str, cls: type) -> None:
    source = KafkaSourceConfig.model_validate({"topics": ["t"], "format": name})
    assert type(decoder_for(source, CTX)) is cls


def test_json_is_the_default() -> None:
    assert type(decoder_for(KafkaSourceConfig(topics=["t"]), CTX)) is JsonDecoder


@pytest.mark.parametrize(
    "given", [{"format": "avro", "topics": ["t"]}, {"format": "datahub"}, {"format": "wherehows", "topics": ["t"]}]
)
def test_avro_without_a_registry_is_told(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="schema registry"):
        decoder_for(KafkaSourceConfig.model_validate(given), CTX)


def test_all_built_in_decoders_can_be_used() -> None:
    assert [info.name for info in decoders.names() if info.disabled is None] == [
        "avro",
        "datahub",
        "envelope",
        "json",
        "raw",
        "text",
        "wherehows",
    ]
