"""The fields of a trigger's `kafka_configuration`, each brought to its normal form or refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from penstock.config.problems import did_you_mean
from penstock.config.source import check_topic
from penstock.core.pattern import Pattern

SASL_MECHANISMS: Final = {"plain": "PLAIN", "scram_sha_256": "SCRAM-SHA-256", "scram_sha_512": "SCRAM-SHA-512"}
"""Lightning's words, and Kafka's."""
SECRET_FIELDS: Final = ("username", "password", "ssl_key", "ssl_key_password")

_HIGHEST_PORT: Final = 65535
_TRUE: Final = (True, 1, "true", "1")
_FALSE: Final = (False, 0, "false", "0")


class CastError(ValueError):
    """A value that is not what its field wants."""

    def __init__(self, message: str, **more: Any) -> None:
        super().__init__(message)
        self.more = more


def _cast_hosts(value: Any) -> list[list[str]]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise CastError("a list of [host, port] or of host:port is wanted")
    return [_pair(item) for item in value]


def _pair(item: Any) -> list[str]:
    if isinstance(item, str):
        return split_address(item)
    parts = [str(part).strip() for part in item] if _is_pair(item) else []
    if not parts:
        raise CastError(f"[host, port] or host:port is wanted, not {item!r}")
    host, port = parts
    return _proper(host[1:-1] if host.startswith("[") and host.endswith("]") else host, port, item)


def _is_pair(item: Any) -> bool:
    kinds = (str, int)
    return (
        isinstance(item, Sequence)
        and len(item) == 2
        and all(isinstance(part, kinds) and not isinstance(part, bool) for part in item)
    )


def split_address(piece: str) -> list[str]:
    """Host and port of `host:port` or `[IPv6]:port`."""
    written = piece.strip()
    if written.startswith("["):
        host, bracket, port = written[1:].partition("]:")
        if not bracket:
            raise CastError(f"[IPv6 address]:port is wanted, not {written!r}")
        return _proper(host.strip(), port.strip(), written)
    parts = [part.strip() for part in written.split(":")]
    if len(parts) != 2:
        hint = {"hint": "write an IPv6 address as [address]:port"} if len(parts) > 2 else {}
        raise CastError(f"host:port is wanted, not {written!r}", **hint)
    host, port = parts
    return _proper(host, port, written)


def _proper(host: str, port: str, written: object) -> list[str]:
    if not host or any(c.isspace() or c in ",/" for c in host):
        raise CastError(f"host:port is wanted, and {written!r} names no host")
    if not (port.isascii() and port.isdecimal() and 0 < int(port) <= _HIGHEST_PORT):
        raise CastError(f"the port of {written!r} is no number from 1 to {_HIGHEST_PORT}")
    return [host, port]


def _cast_topics(value: Any) -> list[str]:
    if not isinstance(value, Sequence) or isinstance(value, str) or not all(isinstance(item, str) for item in value):
        raise CastError("a list of topic names is wanted")
    return legal_topics([item.strip() for item in value])


def legal_topics(topics: list[str]) -> list[str]:
    """The topics, if a broker accepts their names and none is there twice."""
    for topic in topics:
        try:
            check_topic(topic)
        except ValueError as error:
            raise CastError(str(error)) from None
    repeated = sorted({topic for topic in topics if topics.count(topic) > 1})
    if repeated:
        raise CastError(f"named more than once: {', '.join(repeated)}")
    return topics


def _cast_policy(value: Any) -> str | None:
    if not isinstance(value, (str, int)) or isinstance(value, bool):
        raise CastError("earliest, latest or a time in epoch milliseconds (13 digits) is wanted")
    return str(value).strip() or None


def _cast_timeout(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and re.fullmatch(r"[+-]?\d+", value.strip(), re.ASCII):
        return int(value)
    raise CastError(f"a whole number of seconds is wanted, not {value!r}")


def _cast_bool(value: Any) -> bool:
    if value in _TRUE or value in _FALSE:
        return value in _TRUE
    raise CastError(f"true or false is wanted, not {value!r}")


def _cast_sasl(value: Any) -> str | None:
    if value == "":
        return None
    if not isinstance(value, str) or value not in SASL_MECHANISMS:
        near = did_you_mean(str(value).replace("-", "_"), SASL_MECHANISMS)
        raise CastError(f"{value!r} is no SASL mechanism", allowed=tuple(SASL_MECHANISMS), hint=near)
    return value


def _cast_text(value: Any) -> str | None:
    if not isinstance(value, str):
        raise CastError("a text is wanted")
    return value or None


def _cast_secret(value: Any) -> str | dict[str, Any] | None:
    # Kept ones come back as they are stored: encrypted, or as references.
    if isinstance(value, dict) and len(value) == 1 and next(iter(value)) in ("$secret", "$ref"):
        return value
    return _cast_text(value)


def _cast_pattern(value: Any) -> str | None:
    text = _cast_text(value)
    if text is None:
        return None
    try:
        Pattern(text)
    except ValueError as error:
        raise CastError(str(error)) from None
    if not text.startswith("^"):
        raise CastError(f"a regular expression beginning with ^ is wanted, not {text!r}")
    return text


def _cast_properties(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise CastError("a map of client properties is wanted")
    return dict(value)


CASTS: Final[dict[str, Callable[[Any], Any]]] = {
    "hosts": _cast_hosts,
    "topics": _cast_topics,
    "initial_offset_reset_policy": _cast_policy,
    "connect_timeout": _cast_timeout,
    "ssl": _cast_bool,
    "sasl": _cast_sasl,
    "topic_pattern": _cast_pattern,
    "properties": _cast_properties,
    **dict.fromkeys(("ssl_ca", "ssl_certificate"), _cast_text),
    **dict.fromkeys(SECRET_FIELDS, _cast_secret),
}
