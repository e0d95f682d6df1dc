"""The numbers that letters are found by."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.store.letters import search


class _Where:
    pipeline, topic, partition = "orders", "orders-in", 0
    stage, fingerprint = "act", "f1"


def _indexed(error: str, content: str) -> set[int]:
    return set(search.indexed(_Where, _Where, error, content))  # type: ignore[arg-type]  # only what it reads


@given(before=st.text(max_size=8), looked_for=st.text(min_size=1, max_size=12), after=st.text(max_size=8))
def test_every_piece_of_a_text_is_found_by_its_numbers(before: str, looked_for: str, after: str) -> None:
    wanted = search.wanted(looked_for)
    asked = search.asked(wanted)
    for numbers in (_indexed(f"{before}{wanted}{after}", ""), _indexed("", f"{before}{wanted}{after}")):
        assert numbers.issuperset(asked.every)
        assert not asked.some or numbers.intersection(asked.some)


def test_one_byte_is_not_asked_for() -> None:
    """Its runs are so many that a look at every text is sooner done."""
    assert search.asked("%") == search.asked("") == ([], [])


def test_numbers_fit_into_small_integers_and_tell_texts_apart() -> None:
    everything = search.asked("zz").some + search.asked("\x7f\x7f").some + search.asked("ÿ").every
    assert all(-32_768 <= number <= 32_767 for number in everything)
    assert not _indexed("no such order", "{}").intersection(search.asked("zq").some)
    assert not _indexed("нет такого заказа", "{}").issuperset(search.asked("платёж").every)
