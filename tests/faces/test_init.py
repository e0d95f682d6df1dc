"""`penstock init`: every template is valid and passes its own cases."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.service.gallery import TEMPLATES
from tests.faces.cli import penstock


@pytest.mark.parametrize("template", sorted(TEMPLATES))
def test_a_template_validates_and_passes_its_cases(template: str, tmp_path: Path) -> None:
    made = penstock("init", tmp_path / "new", "--template", template, "--json")
    assert made.code == 0
    assert str(tmp_path / "new" / "pipeline.yaml") in made.data["files"]
    assert penstock("validate", "--strict", tmp_path / "new").code == 0
    tested = penstock("test", tmp_path / "new", "--json")
    assert tested.code == 0, tested.out + tested.err
    assert len(tested.data["cases"]) >= 2


def test_the_gallery_is_listed() -> None:
    assert {each["name"] for each in penstock("init", "--list", "--json").data} == set(TEMPLATES)
    assert {"webhook", "kafka-to-kafka", "python", "command"} <= set(TEMPLATES)
    assert "kafka-to-kafka" in penstock("init", "--list").out


def test_init_never_overwrites(tmp_path: Path) -> None:
    (tmp_path / "pipeline.yaml").write_text("mine")
    result = penstock("init", tmp_path)
    assert result.code == 2
    assert (tmp_path / "pipeline.yaml").read_text() == "mine"
    assert list(tmp_path.iterdir()) == [tmp_path / "pipeline.yaml"]


def test_an_unknown_template_names_the_known_ones(tmp_path: Path) -> None:
    result = penstock("init", tmp_path / "x", "--template", "magic")
    assert result.code == 2
    assert "webhook, kafka-to-kafka" in result.err
    assert not (tmp_path / "x").exists()
