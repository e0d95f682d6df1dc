"""The Kafka client's errors as Penstock's: an outage is transient, a refusal or a wrong property is not."""

from __future__ import annotations

from collections import deque
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from penstock.core.errors import ConfigError, PenstockError, Terminal, Unavailable


class BrokerUnavailable(Unavailable):
    """No broker of the cluster answers."""

    code = "broker_unavailable"


class AuthenticationFailed(Unavailable):
    """The broker refuses the log-in. Transient: passwords are changed at brokers while pipelines run."""

    code = "authentication"


class NotAuthorized(PenstockError, Terminal):
    """The user is logged in and lacks a right."""

    code = "not_authorized"


class UnknownTopic(ConfigError):
    """The topic does not exist on the cluster."""

    code = "unknown_topic"


class GroupBusy(PenstockError, Terminal):
    """A consumer group has members, and the request needs a group without any."""

    code = "group_busy"


_LOGIN = {KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError._SSL}
_DENIED = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
ABSENT = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._NOENT,
}
_WRONG = {
    KafkaError._INVALID_ARG,
    KafkaError.INVALID_CONFIG,
    KafkaError.INVALID_PARTITIONS,
    KafkaError.INVALID_REPLICATION_FACTOR,
    KafkaError.TOPIC_EXCEPTION,
    KafkaError.TOPIC_ALREADY_EXISTS,
    KafkaError.POLICY_VIOLATION,
}


def kafka_error(error: KafkaException | KafkaError) -> KafkaError:
    """The client's error object, of an exception or itself."""
    return error.args[0] if isinstance(error, KafkaException) else error


SETTLING = {
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
}
"""A leader or coordinator is changing; the same request succeeds a moment later."""

UNSUPPORTED = {KafkaError._UNSUPPORTED_FEATURE, KafkaError.UNSUPPORTED_VERSION}


class ErrorLog:
    """The `error_cb` of a client: keeps the last errors. A refused log-in is reported nowhere else."""

    def __init__(self) -> None:
        self._seen: deque[KafkaError] = deque(maxlen=20)

    def __call__(self, error: KafkaError) -> None:
        self._seen.append(error)

    @property
    def login(self) -> KafkaError | None:
        """The last refused log-in or handshake."""
        return next((e for e in reversed(self._seen) if _is_refusal(e)), None)

    @property
    def last(self) -> KafkaError | None:
        """The last error, preferably one that is not just `all brokers down`."""
        telling = [e for e in self._seen if e.code() != KafkaError._ALL_BROKERS_DOWN]
        return telling[-1] if telling else (self._seen[-1] if self._seen else None)

    def clear(self) -> None:
        self._seen.clear()


def _is_refusal(error: KafkaError) -> bool:
    # Since TLS 1.3 a broker refuses a client's certificate only after the handshake: the client sees a lost connection.
    return error.code() in _LOGIN or (error.code() == KafkaError._TRANSPORT and "ssl/tls alert" in error.str())


def translate(
    error: KafkaException | KafkaError, doing: str, *, log: ErrorLog | None = None, received: Any = None
) -> PenstockError:
    """A `PenstockError` for an error of the client; `doing` says during what."""
    given = kafka_error(error)
    # A call whose log-in was refused only times out; the reason went to the client's error callback.
    if given.retriable() or given.code() in (
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
    ):
        given = (log and (log.login or log.last)) or given
    code = given.code()
    text = f"{doing}: {given.str()}"
    if _is_refusal(given):
        return AuthenticationFailed(
            text, received=received, hint="check security.protocol, user, password and certificates"
        )
    if code in _DENIED:
        return NotAuthorized(text, received=received, hint="ask for the right on the broker (ACL)")
    if code in ABSENT:
        return UnknownTopic(text, received=received, hint="`penstock topics list` shows the topics of the cluster")
    if code in _WRONG:
        return ConfigError(text, received=received)
    return BrokerUnavailable(text, received=received, hint="is the broker up and its address right?")
