"""Every claim of SECURITY.md names tests, and these exist."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from tests.docs.snippets import ROOT

_TEXT = (ROOT / "SECURITY.md").read_text()
_NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
_CLAIMS = [line for line in _TEXT.splitlines() if line.startswith("| ") and not line.startswith(("| claim", "| ---"))]


@cache
def _tests_of(file: str) -> frozenset[str]:
    tree = ast.parse((ROOT / file).read_text())
    functions = ast.FunctionDef | ast.AsyncFunctionDef
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, functions))


def test_there_are_claims() -> None:
    assert len(_CLAIMS) > 30


@pytest.mark.parametrize("claim", _CLAIMS, ids=lambda line: line[2:60])
def test_a_claim_names_a_test(claim: str) -> None:
    assert _NAMED.search(claim.rstrip(" |").rpartition(" | ")[2])


@pytest.mark.parametrize(("file", "name"), sorted(set(_NAMED.findall(_TEXT))))
def test_a_test_that_security_md_names_exists(file: str, name: str) -> None:
    assert (ROOT / file).is_file(), file
    assert name.startswith("test_")
    assert name in _tests_of(file)
