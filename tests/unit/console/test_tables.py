"""What cells are made of."""

from __future__ import annotations

from penstock.console.tables import place


def test_partitions_and_events_are_sorted_by_their_numbers() -> None:
    given = [("a", 2, 9), ("a", 2, 10), ("a", 10, 1), ("b", 1, None), ("b", 9, None), ("b", 10, None)]
    cells = [place(*each) for each in reversed(given)]
    shown = [cell["place_text"] for cell in sorted(cells, key=lambda cell: cell["place"])]
    assert shown == ["a/2@9", "a/2@10", "a/10@1", "b/1", "b/9", "b/10"]
