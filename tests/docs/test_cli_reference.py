"""The command reference names every command, option of its own, and exit code."""

from __future__ import annotations

import re

from penstock.cli.exits import Exit
from tests.docs.snippets import ROOT
from tests.faces.test_command_line import COMMANDS

TEXT = (ROOT / "docs" / "reference" / "cli.md").read_text()


def test_every_command_has_its_section_and_no_other() -> None:
    sections = re.findall(r"^### `penstock ([a-z- ]+)", TEXT, re.MULTILINE)
    assert sorted(section.strip() for section in sections) == sorted(COMMANDS)


def test_every_exit_code_is_there() -> None:
    codes = {int(code) for code in re.findall(r"^\| (\d+) \|", TEXT, re.MULTILINE)}
    assert codes == {int(code) for code in Exit}
