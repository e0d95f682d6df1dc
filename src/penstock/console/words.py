"""Numbers, times and bytes as people read them."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Final

import msgspec

from penstock.core.visible import visible, visible_json

_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"))
_HEX_LINE: Final = 16
HEX_BYTES: Final = 4_096
"""Bytes that are shown as hex."""
_TEXT: Final = 100_000
"""Characters of a value that are shown."""
_PRETTY: Final = 2_000_000
"""Bytes of a value that are laid out as JSON: more would keep all pages waiting, for lines that nobody is shown."""


def number(value: float | None) -> str:
    """`12,345`; `—` for what is not known."""
    if value is None:
        return "—"
    return f"{value:,.0f}"


def short(value: float | None) -> str:
    """`950`, `12.3 k`, `4.1 M`."""
    if value is None:
        return "—"
    for bound, unit in ((1_000_000, "M"), (10_000, "k")):
        if value >= bound:
            return f"{value / (1_000_000 if unit == 'M' else 1_000):.1f} {unit}"
    return f"{value:,.0f}"


def rate(per_second: float) -> str:
    """`0/s`, `3.2/s`, `1.5 k/s`."""
    if per_second >= 10_000:
        return f"{per_second / 1000:.1f} k/s"
    if per_second >= 10:
        return f"{per_second:,.0f}/s"
    return f"{per_second:.1f}/s" if per_second else "0/s"


def share(part: float | None) -> str:
    """`0.4 %`; never `0 %` for something."""
    if part is None:
        return "—"
    if not part:
        return "0 %"
    return f"{part:.1%}".replace("%", " %") if part >= 0.001 else "< 0.1 %"


def millis(value: float | None) -> str:
    """`12 ms`, `3.4 s`."""
    if value is None:
        return "—"
    if value >= 1000:
        return f"{value / 1000:.1f} s"
    return f"{value:.0f} ms" if value >= 1 else f"{1000 * value:.0f} µs"


def size(count: int) -> str:
    """`812 bytes`, `3.4 kB`."""
    if count < 1000:
        return f"{count} byte{'' if count == 1 else 's'}"
    return f"{count / 1000:.1f} kB" if count < 1_000_000 else f"{count / 1_000_000:.1f} MB"


def ago(epoch_seconds: float | None, now: float | None = None) -> str:
    """`just now`, `40 s ago`, `3 min ago`; coarse, so that it does not change with every look."""
    if epoch_seconds is None:
        return "—"
    passed = max(0.0, (time.time() if now is None else now) - epoch_seconds)
    if passed < 10:
        return "just now"
    for seconds, unit in _UNITS:
        if passed >= seconds:
            return f"{passed // seconds:.0f} {unit} ago"
    return f"{passed // 10 * 10:.0f} s ago"


def moment(epoch_millis: int | None) -> str:
    """A time of day with its date, in UTC, to the second."""
    if epoch_millis is None or epoch_millis < 0:
        return "—"
    return f"{datetime.fromtimestamp(epoch_millis / 1000, tz=UTC):%Y-%m-%d %H:%M:%S} UTC"


def moment_of(text: str | None) -> str:
    """The same of an ISO time."""
    return "—" if text is None else moment(int(datetime.fromisoformat(text).timestamp() * 1000))


def ago_of(text: str) -> str:
    """How long an ISO time is past."""
    return ago(datetime.fromisoformat(text).timestamp())


def hex_dump(raw: bytes) -> str:
    """Offset, bytes and what of them is plain ASCII; bounded."""
    lines = []
    for start in range(0, min(len(raw), HEX_BYTES), _HEX_LINE):
        part = raw[start : start + _HEX_LINE]
        plain = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{start:08x}  {part[:8].hex(' '):<23}  {part[8:].hex(' '):<23}  {plain}")
    if len(raw) > HEX_BYTES:
        lines.append(f"… {len(raw) - HEX_BYTES:,} more bytes")
    return "\n".join(lines) or "(no bytes)"


def text_of(raw: bytes | None) -> str | None:
    """The bytes as text that can be shown as it is; None where they are not text."""
    if raw is None:
        return "null"
    try:
        return visible(bounded(raw.decode()))
    except UnicodeDecodeError:
        return None


def pretty_of(raw: bytes | None) -> str | None:
    """The bytes as indented JSON; None where they are none, too many, or no longer would be the same."""
    if len(raw or b"") > _PRETTY:
        return None
    try:
        value = msgspec.json.decode(raw or b"")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return bounded(visible(msgspec.json.format(msgspec.json.encode(value), indent=2).decode()))


def bounded(text: str) -> str:
    return text if len(text) <= _TEXT else f"{text[:_TEXT]}\n… {len(text) - _TEXT:,} more characters"


def editable(raw: bytes | None) -> str | None:
    """Text that a person may change without meeting characters that hide themselves; None: only hex will do."""
    try:
        text = (raw or b"").decode()
    except UnicodeDecodeError:
        return None
    shown = visible_json(text) if text.lstrip()[:1] in ("{", "[", '"') else text
    return shown if visible(shown) == shown and "\r" not in shown else None


def json_text(value: object) -> str:
    """A value as indented JSON; bounded."""
    return bounded(visible_json(msgspec.json.format(msgspec.json.encode(value), indent=2).decode()))


def json_line(value: object) -> str:
    """A value as JSON on one line; empty for none."""
    return "" if value is None else visible_json(msgspec.json.encode(value).decode())
