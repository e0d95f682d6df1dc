"""Which topic a name stands for now: asked beside other work, to tell a re-created topic from the one that was read."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaException, TopicCollection, admin

from penstock.kafka.client import KafkaClientConfig
from penstock.kafka.errors import ABSENT, ErrorLog, translate

_kafka: Any = admin  # its names are re-exported without being declared
_WITHIN = 5.0
"""Seconds that the cluster has for an answer."""
_ID_LENGTH = 22
"""Of Kafka's ids: 16 bytes in base 64, which may have a slash in them."""
_shared: weakref.WeakValueDictionary[object, TopicIdentity] = weakref.WeakValueDictionary()
_sharing = threading.Lock()


def substitute_id(cluster_id: str | None, topic: str) -> str:
    """What stands for a topic's id in a cluster that has none."""
    return f"{cluster_id}/{topic}"


def is_substitute(topic_id: str, topic: str) -> bool:
    """Whether `substitute_id` made it: then it cannot tell a re-created topic from the former one."""
    return topic_id.endswith(f"/{topic}") and len(topic_id) != _ID_LENGTH


class TopicIdentity:
    """One client configuration's view of topic ids; safe to share between threads."""

    def __init__(self, client: KafkaClientConfig) -> None:
        self._bootstrap = client.bootstrap
        self._errors = ErrorLog()
        self._client: Any = _kafka.AdminClient(client.admin({"error_cb": self._errors}))

    @classmethod
    def of(cls, client: KafkaClientConfig) -> TopicIdentity:
        """The one of this process: pipelines with the same connection share a client."""
        with _sharing:
            found = _shared.get(client.identity)
            if found is None:
                found = _shared[client.identity] = cls(client)
            return found

    def ask(self, topic: str) -> Callable[[], str]:
        """Send the request without waiting. The returned function waits for the topic's id: empty where there is no
        such topic. It raises `Unavailable` where the cluster does not answer."""
        future = self._client.describe_topics(TopicCollection([topic]), request_timeout=_WITHIN)[topic]

        def answer() -> str:
            try:
                return str(future.result(_WITHIN + 1.0).topic_id)
            except KafkaException as error:
                return self._refused(error, topic)

        return answer

    def _refused(self, error: KafkaException, topic: str) -> str:
        if error.args[0].code() in ABSENT:
            return ""
        raise translate(error, f"asking {self._bootstrap} for the id of {topic}", log=self._errors) from error
