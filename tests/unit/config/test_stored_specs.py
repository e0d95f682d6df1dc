"""Specs as the store keeps them: they come back as they were, and without secrets or not at all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.config.loading import load
from penstock.config.stored import restored, stored
from penstock.core.errors import ConfigError

PLAIN = {
    "name": "orders",
    "source": {"type": "kafka", "config": {"connection": {"bootstrap": "k:1"}, "topics": ["orders"], "format": "json"}},
    "filters": [{"type": "cel", "config": {"expression": "event.total > 1.0"}}],
    "action": {"type": "webhook", "config": {"url": "https://example.org/hook"}},
    "options": {
        "timeout": "30s",
        "retry": {"attempts": 5, "backoff": "250ms"},
        "ordering": "key",
        "rate_limit": "100/s",
    },
}


def test_a_spec_comes_back_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "orders.json"
    file.write_text(json.dumps(PLAIN))
    (spec,) = load([file]).specs
    again = restored("orders", stored(spec))
    assert again == spec
    assert again.version == spec.version
    assert again.origin == str(file)


def test_a_spec_of_a_datahub_file_comes_back_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "hello.yaml"
    file.write_text("name: hello\nsource: {type: kafka}\nfilter: {event_type: X}\naction: {type: hello_world}\n")
    (spec,) = load([file]).specs
    assert restored("hello", stored(spec)) == spec


def test_secrets_are_not_stored_and_are_missed(tmp_path: Path) -> None:
    (tmp_path / "shade").write_text("read-from-a-file")
    action = {
        "type": "webhook",
        "config": {
            "url": "https://u:pass-in-url@example.org/hook",
            "headers": {"authorization": "Bearer at-a-key", "x-shade": f"${{file:{tmp_path / 'shade'}}}"},
        },
    }
    file = tmp_path / "orders.json"
    file.write_text(json.dumps(PLAIN | {"action": action}))
    (spec,) = load([file]).specs
    text = stored(spec)
    for secret in ("pass-in-url", "at-a-key", "read-from-a-file"):
        assert secret not in text
    with pytest.raises(ConfigError, match="secrets masked") as caught:
        restored("orders", text)
    assert "--config" in (caught.value.hint or "")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"file": null}', '{"file": null, "spec": {"name": "x"}}'])
def test_what_cannot_be_used_says_so(text: str) -> None:
    with pytest.raises(ConfigError, match="orders"):
        restored("orders", text)
