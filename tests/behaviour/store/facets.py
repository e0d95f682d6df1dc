"""What letters have in common, counted."""

from __future__ import annotations

import pytest

from penstock.store import DeadLetterFilter, Store
from penstock.store.letters import facets as counting
from tests.behaviour.store.letters import failed_at, letter


class FacetsBehaviour:
    """Inherited by the suite of each database."""

    def test_facets_count_each_kind(self, store: Store) -> None:
        store.dead_letters.record(
            [
                letter(1, **failed_at(100)),
                letter(2, **failed_at(200), error="no such order: 7"),
                letter(3, stage="decode", fingerprint="f2", error="not JSON", **failed_at(300)),
                letter(4, pipeline="payments", fingerprint="f3", **failed_at(50)),
            ]
        )
        found = store.dead_letters.facets()
        assert (found.letters, found.complete) == (4, True)
        assert found.counts["stage"] == {"act": 3, "decode": 1}
        assert found.counts["pipeline"] == {"orders": 3, "payments": 1}
        assert found.counts["status"] == {"new": 4}
        assert found.errors[0][:2] == ("f1", 2)
        assert found.errors[0].error == "no such order: 7"

    def test_facets_follow_the_filter(self, store: Store) -> None:
        store.dead_letters.record([letter(1), letter(2, pipeline="payments")])
        found = store.dead_letters.facets(DeadLetterFilter(pipeline="payments"))
        assert found.counts["pipeline"] == {"payments": 1}

    def test_facets_of_nothing_are_empty(self, store: Store) -> None:
        found = store.dead_letters.facets()
        assert (found.letters, found.errors) == (0, [])

    def test_facets_say_when_there_are_more(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(counting, "COUNTED", 2)
        store.dead_letters.record([letter(n, **failed_at(n)) for n in range(4)])
        found = store.dead_letters.facets()
        assert (found.letters, found.complete) == (2, False)

    def test_facets_by_a_text_count_what_is_new_or_else_what_there_is(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(counting, "COUNTED", 100)
        monkeypatch.setattr(counting, "_ENOUGH", 10)
        rare = [letter(n, value=b"needle", pipeline="sewing", **failed_at(n)) for n in range(5)]
        hay = [letter(n, value=b"hay and straw", **failed_at(n)) for n in range(5, 300)]
        store.dead_letters.record([*rare, *hay])
        frequent = store.dead_letters.facets(DeadLetterFilter(text="straw"))
        assert (frequent.letters, frequent.complete) == (100, False)
        old = store.dead_letters.facets(DeadLetterFilter(text="needle"))
        assert (old.letters, old.complete, old.counts["pipeline"]) == (5, True, {"sewing": 5})
        few = store.dead_letters.facets(DeadLetterFilter(text="hay", until=50))
        assert (few.letters, few.complete) == (45, True)
