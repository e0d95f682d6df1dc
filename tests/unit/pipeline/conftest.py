"""A log in memory for tests of units."""

from __future__ import annotations

import pytest

from tests.unit.pipeline.rig import World, rig_up


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return rig_up(monkeypatch)
