"""Ids of topics, and what stands for them in clusters that have none."""

from __future__ import annotations

import pytest

from penstock.kafka.topic_identity import is_substitute, substitute_id


@pytest.mark.parametrize("topic_id", ["9LAWrpMdQQ+y1NEBO8/PUg", "/5XiXnSiTwmLbrxaAGpMqg", "pTwgNN6yRaGtsKB1CKqF/A"])
def test_f36_an_id_with_a_slash_is_an_id(topic_id: str) -> None:
    """It once counted as a substitute, and nothing was compared before the COMMIT."""
    assert not is_substitute(topic_id, "orders")
    assert not is_substitute(topic_id, topic_id.rpartition("/")[2])


@pytest.mark.parametrize("cluster", ["MkU3OEVBNTcwNTJENDM2Qk", "mockCluster7f3a5c001b60", None])
def test_a_substitute_is_known_as_one(cluster: str | None) -> None:
    assert is_substitute(substitute_id(cluster, "orders"), "orders")
