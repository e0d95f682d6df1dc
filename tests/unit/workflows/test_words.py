"""Words of texts and queries for them, against FTS5 itself."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.core.ids import is_id, new_id
from penstock.store.work import words
from penstock.store.work.history_model import FIELDS, SearchField

texts = st.text(st.one_of(st.characters(codec="utf-8"), st.sampled_from("aAbB19 _-.'\"é")), max_size=40)


@pytest.fixture(scope="module")
def fts() -> Iterator[sqlite3.Connection]:
    """As the migration makes it."""
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE VIRTUAL TABLE found USING fts5(words, detail = none, tokenize = 'ascii')")
    yield connection
    connection.close()


def matches(
    fts: sqlite3.Connection,
    row: str,
    term: str,
    fields: Collection[SearchField] = FIELDS,
    owners: Collection[str] = (),
) -> bool:
    fts.execute("DELETE FROM found")
    fts.execute("INSERT INTO found (words) VALUES (?)", [row])
    asked = words.sqlite_query(term, fields, owners)
    return asked is not None and bool(fts.execute("SELECT 1 FROM found WHERE found MATCH ?", [asked]).fetchall())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(text=texts, term=texts, cut=st.integers(1, 10))
def test_a_term_finds_a_text_that_has_words_that_begin_with_all_of_its_own(
    fts: sqlite3.Connection, text: str, term: str, cut: int
) -> None:
    body = json.dumps({"k": text})
    row = words.of_dataclip(body, None, [])
    known, asked = words.words(json.loads(body)["k"]) | {"k"}, words.words(term)
    assert all(word.isalnum() and len(word) <= words.WORD_CHARACTERS for word in known | asked)
    wanted = bool(asked) and all(any(word.startswith(begun) for word in known) for begun in asked)
    assert matches(fts, row, term) == wanted
    for word in known:
        assert matches(fts, row, word[:cut])


def test_owners_narrow_and_kinds_are_kept_apart(fts: sqlite3.Connection) -> None:
    mine, other = new_id(), new_id()
    body, line = words.of_dataclip('{"a": "word"}', "Some Name", [mine]), words.of_log_line("word", [mine])
    assert matches(fts, body, "wor", owners=[other, mine])
    assert not matches(fts, body, "wor", owners=[other])
    assert (matches(fts, body, "word", {"log"}), matches(fts, line, "word", {"log"})) == (False, True)
    assert (matches(fts, body, "word", {"body"}), matches(fts, line, "word", {"body"})) == (True, False)
    assert (matches(fts, body, "name", {"name"}), matches(fts, body, "word", {"name", "log"})) == (True, False)
    assert not matches(fts, body, mine.replace("-", ""))


def test_what_has_no_words_is_not_kept_and_not_asked_for() -> None:
    assert words.of_dataclip(None, None, ["x"]) == words.of_log_line("...", ["x"]) == ""
    assert words.postgres_query("-- '", FIELDS, []) is words.sqlite_query("word", {"id"}, []) is None


@pytest.mark.parametrize("length", [8, 9, 13, 20, 35, 36])
def test_the_beginning_of_an_id_is_a_range_of_ids(length: int) -> None:
    whole = new_id()
    bounds = words.id_range(f" {whole[:length].upper()} ")
    assert bounds is not None
    assert all(map(is_id, bounds))
    assert bounds[0] <= whole <= bounds[1]
    assert (bounds[0] == bounds[1]) == (length == 36)


@pytest.mark.parametrize("text", ["", "0192", "patient1", "01920000-", "01920000x", "-" * 36])
def test_other_texts_are_no_beginnings_of_ids(text: str) -> None:
    assert words.id_range(text) is None or text == "01920000-"
