"""The list of routes is the one that is served."""

from __future__ import annotations

from penstock.api.reference import PAGE, reference
from tests.docs.snippets import ROOT


def test_the_reference_page_is_current() -> None:
    assert (ROOT / PAGE).read_text() == reference(), "run python -m penstock.api.reference"
