"""What may be shown of dead letters where rules mask fields of their topics: in values, and in what is said of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from penstock.core.letter_json import bytes_as_json
from penstock.service.access import Actor, NotAllowed, allows
from penstock.service.masking import Masking, Words
from penstock.service.operations.desk import Desk
from penstock.service.operations.letter_models import LetterQuery
from penstock.store import StoredDeadLetter

_AT_ONCE: Final = 50
"""Letters whose values are held at the same time."""
_EDITED: Final = "edited_value"


def words_of(masking: Masking, found: StoredDeadLetter) -> Words:
    """For texts about a letter; values that it was replayed with had the same fields."""
    edited = [step.data.get(_EDITED) for step in found.history]
    raws = [text.encode() for text in edited if isinstance(text, str)]
    return masking.words(found.letter.topic, found.letter.value, found.letter.failure.value_seen, *raws)


def told(desk: Desk, errors: Iterable[tuple[int, str]]) -> dict[int, str]:
    """Errors by the ids of their letters, without what rules mask."""
    known = dict(errors)
    if not desk.settings.masking.rules:
        return known
    for ids in _chunks(list(known)):
        for found in desk.store.dead_letters.some(ids):
            known[found.row.id] = words_of(desk.masking, found)(known[found.row.id])
    return known


def masked(masking: Masking, found: StoredDeadLetter, data: dict[str, Any]) -> dict[str, Any]:
    """All of a letter, as `show_dead_letter` gives it, without what rules mask."""
    topic, words = found.letter.topic, words_of(masking, found)
    return data | {
        "value": bytes_as_json(masking.bytes(topic, found.letter.value)),
        "value_seen": bytes_as_json(masking.bytes(topic, found.letter.failure.value_seen)),
        "error": words(data["error"]),
        "traceback": words(data["traceback"]),
        "history": [
            {name: _step(masking, topic, words, name, value) for name, value in step.items()}
            for step in data["history"]
        ],
    }


def may_search(desk: Desk, actor: Actor, query: LetterQuery) -> None:
    """Raise where the answer to a search would tell, letter by letter, what rules mask."""
    if not desk.settings.masking.rules or (query.text is None and query.error is None):
        return
    project = desk.project_of(query.pipeline) if query.pipeline is not None else None
    open_topic = query.topic is not None and not desk.masking.applies(query.topic)
    if not open_topic and not allows(actor, "events.reveal", project):
        raise NotAllowed(
            "a search for text would tell what rules mask",
            received=query.topic,
            hint="name a topic of which nothing is masked, choose by fingerprint or stage, or ask an admin",
        )


def _step(masking: Masking, topic: str, words: Words, name: str, value: Any) -> Any:
    if not isinstance(value, str) or name in ("at", "kind", "by"):
        return value
    if name == _EDITED:
        return (masking.bytes(topic, value.encode()) or b"").decode()
    return words(value)


def _chunks(ids: list[int]) -> Iterable[list[int]]:
    return (ids[begin : begin + _AT_ONCE] for begin in range(0, len(ids), _AT_ONCE))
