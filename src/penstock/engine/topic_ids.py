"""The ids of all topics in use at one cluster, asked for together: a topic that was made anew has the same name and
another id."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

from penstock.kafka.admin import ClusterView


class TopicIds:
    """Shared by all flows of a cluster, so that a hundred commits at once cost one question."""

    def __init__(self, cluster: ClusterView) -> None:
        self._cluster = cluster
        self._lock = threading.Lock()
        self._known: set[str] = set()
        self._ids: dict[str, str] = {}
        self._asked_at = 0.0

    def since(self, moment: float, topics: Iterable[str]) -> dict[str, str]:
        """Ids as they were at or after `moment` (monotonic); topics that do not exist are left out."""
        wanted = set(topics)
        with self._lock:
            if self._asked_at < moment or not wanted <= self._known:
                self._known |= wanted
                now = time.monotonic()
                self._ids = self._cluster.topic_ids(sorted(self._known))
                self._asked_at = now
                # Topics that are gone are not asked for again until somebody wants them.
                self._known = set(self._ids)
            return {topic: self._ids[topic] for topic in wanted if topic in self._ids}
