"""What every decoder makes of a dead letter's own bytes, whether or not the record is still on its topic."""

from __future__ import annotations

from penstock.core.errors import PenstockError
from penstock.core.event import Record
from penstock.core.secrets import MASK
from penstock.service.access import Actor, NotFound
from penstock.service.operations.dead_letters import get_letter
from penstock.service.operations.desk import Desk
from penstock.service.operations.letter_masking import words_of
from penstock.service.operations.topics import DecoderAttempt
from penstock.service.topic_browser import decoder_report


def decode_letter(desk: Desk, actor: Actor, letter_id: int) -> list[DecoderAttempt]:
    """The pipeline's own decoder first; why each of the others does not fit."""
    get_letter(desk, actor, letter_id)  # refuses whoever may not see it
    found = desk.store.dead_letters.get(letter_id)
    if found is None:
        raise NotFound("no such dead letter", received=letter_id)
    letter = found.letter
    record = Record(
        letter.topic,
        letter.partition,
        letter.offset,
        letter.key,
        letter.value,
        letter.headers,
        letter.timestamp,
        letter.timestamp_type,
    )
    try:
        spec = desk.spec(letter.pipeline)
    except PenstockError:  # its instance knows its secrets; decoders that need none can be tried all the same
        spec = None
    hidden, words = desk.masking.applies(letter.topic), words_of(desk.masking, found)
    return [
        DecoderAttempt(
            decoder=tried.decoder,
            configured=tried.configured,
            value=MASK if hidden and tried.value is not None else tried.value,
            why=words(tried.why) if tried.why else None,
        )
        for tried in decoder_report(record, spec)
    ]
