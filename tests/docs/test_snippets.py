"""Every snippet of the README and the docs is run, or says by its fence why it is not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock.config.loading import load
from penstock.config.settings import Settings
from penstock.service.validation import validate
from tests.docs.snippets import PAGES, ROOT, Snippet, snippets
from tests.faces.test_command_line import COMMANDS

ALL = snippets()
UNRUN = {"needs-broker": "bash", "needs-spark": "bash"}
"""Attributes by which a snippet is not run, and the language it may have."""
GROUPS = {command.partition(" ")[0] for command in COMMANDS if " " in command}
KNOWN = {*UNRUN, "with-file", "as", "with", "settings"}


def those(language: str, *attributes: str) -> list[Any]:
    picked = [s for s in ALL if s.language == language and not set(s.attributes) & set(attributes)]
    return [pytest.param(snippet, id=snippet.id) for snippet in picked]


def test_the_snippets_are_found() -> None:
    assert len(PAGES) > 10
    assert {"yaml", "python", "bash"} <= {snippet.language for snippet in ALL}


@pytest.mark.parametrize("snippet", [pytest.param(s, id=s.id) for s in ALL])
def test_a_fence_says_what_it_is(snippet: Snippet) -> None:
    assert snippet.language in {"yaml", "python", "bash", ""}, snippet.language
    assert set(snippet.attributes) <= KNOWN
    for attribute in set(snippet.attributes) & set(UNRUN):
        assert snippet.language == UNRUN[attribute]
    if not snippet.language:
        assert "penstock " not in snippet.code, "a command belongs into a bash block"


def companions(snippet: Snippet, folder: Path) -> None:
    """Write the files of the page that a snippet builds on: `.with=orders` wants those that are `.as=orders.*`."""
    stem = snippet.attributes["with"]
    others = [s for s in ALL if s.page == snippet.page and s.attributes.get("as", "").startswith(f"{stem}.")]
    assert others
    for other in others:
        (folder / other.attributes["as"]).write_text(other.code)


def python_before(snippet: Snippet) -> str:
    """The nearest Python block above a YAML block that names a file with it."""
    return [s for s in ALL if s.page == snippet.page and s.language == "python" and s.line < snippet.line][-1].code


PIPELINES = [p for p in those("yaml", "settings") if ".test." not in p.values[0].attributes.get("as", "")]


@pytest.mark.parametrize("snippet", PIPELINES)
def test_a_pipeline_is_accepted(snippet: Snippet, tmp_path: Path) -> None:
    file = tmp_path / snippet.attributes.get("as", "pipeline.yaml")
    file.write_text(snippet.code)
    if "with-file" in snippet.attributes:
        (tmp_path / snippet.attributes["with-file"]).write_text(python_before(snippet))
    loaded = load([file])
    assert not loaded.problems
    assert loaded.specs or loaded.workflows
    assert not validate([file]).problems


@pytest.mark.parametrize("snippet", [p for p in those("yaml") if "settings" in p.values[0].attributes])
def test_settings_are_accepted(snippet: Snippet, tmp_path: Path) -> None:
    (tmp_path / "penstock.yaml").write_text(snippet.code)
    loaded = Settings.load({}, tmp_path)
    assert loaded.file == tmp_path / "penstock.yaml"
    assert loaded != Settings.load({}, tmp_path.parent)


@pytest.mark.parametrize("snippet", those("python"))
def test_python_runs(snippet: Snippet, tmp_path: Path) -> None:
    if "with" in snippet.attributes:
        companions(snippet, tmp_path)
    (tmp_path / "snippet.py").write_text(snippet.code)
    done = subprocess.run([sys.executable, "snippet.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("snippet", those("bash", *UNRUN))
def test_commands_run(snippet: Snippet, tmp_path: Path) -> None:
    if "with" in snippet.attributes:
        companions(snippet, tmp_path)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", snippet.code],
        cwd=tmp_path,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


UNRUN_BASH = [s for s in ALL if s.language == "bash" and set(s.attributes) & set(UNRUN)]


@pytest.mark.parametrize("snippet", [pytest.param(s, id=s.id) for s in UNRUN_BASH])
def test_commands_that_are_not_run_exist(snippet: Snippet) -> None:
    """They need a broker or Spark; their commands, options and make targets must exist all the same."""
    targets = {line.partition(":")[0] for line in (ROOT / "Makefile").read_text().splitlines() if ":" in line}
    for line in snippet.code.splitlines():
        words = line.partition("#")[0].split()
        if words[:1] == ["make"]:
            assert words[1] in targets
        elif words[:1] == ["penstock"]:
            _check_command(words[1:])


def _check_command(words: list[str]) -> None:
    name = words[:2] if words[0] in GROUPS else words[:1]
    penstock = Path(sys.executable).with_name("penstock")
    done = subprocess.run([penstock, *name, "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for option in (word for word in words if word.startswith("--")):
        assert option in done.stdout


def test_the_pages_build(tmp_path: Path) -> None:
    mkdocs = shutil.which("mkdocs", path=str(Path(sys.executable).parent))
    assert mkdocs
    done = subprocess.run(
        [mkdocs, "build", "--strict", "--site-dir", tmp_path / "site"],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for page in (tmp_path / "site").rglob("*.html"):
        text = page.read_text()
        assert "fonts.googleapis" not in text
        assert "unpkg.com" not in text
