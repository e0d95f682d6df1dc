"""`${…}` in values: every row of the DataHub specification's table, and files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.config.expansion import ExpansionError, RequiredVariableError, UnboundVariableError, expand_text

ENVIRON = {"N": "value", "EMPTY": "", "M": "other", "REF": "N", "NUMBER": "42"}

ROWS = [
    ("${N}", "value"),
    ("${EMPTY}", ""),
    ("a-${N}-b", "a-value-b"),
    ("${N:-d}", "value"),
    ("${U:-d}", "d"),
    ("${EMPTY:-d}", "d"),
    ("${N-d}", "value"),
    ("${U-d}", "d"),
    ("${EMPTY-d}", "d"),
    ("${U:-}", ""),
    ("${U:-${M}}", "other"),
    ("${U:-${V:-deep}}", "deep"),
    ("${N:?msg}", "value"),
    ("${N:+alt}", "alt"),
    ("${U:+alt}", ""),
    ("${EMPTY:+alt}", ""),
    ("${N:1:3}", "alu"),
    ("${N:2}", "lue"),
    ("${#N}", "5"),
    ("${!REF}", "value"),
    ("$N", "value"),
    ("$N/x", "value/x"),
    ("$U", "$U"),
    ("$U/x", "$U/x"),
    ("text$N", "text$N"),
    ("^orders$", "^orders$"),
    ("cost: 5$", "cost: 5$"),
    ("text$N ${M}", "textvalue other"),
    ("$$", str(os.getpid())),
    ("\\${N}", "${N}"),
    ("a\\\\${N}", "a\\value"),
    ("^a\\\\.b$", "^a\\\\.b$"),
    ("a${N", "a${N"),
    ("", ""),
    ("plain", "plain"),
    ("$", "$"),
]


@pytest.mark.parametrize(("written", "result"), ROWS, ids=[written for written, _ in ROWS])
def test_the_table(written: str, result: str) -> None:
    assert expand_text(written, dict(ENVIRON)).value == result


@pytest.mark.parametrize(
    ("written", "error", "message"),
    [
        ("${U}", UnboundVariableError, "variable U is not set"),
        ("a ${U} b", UnboundVariableError, "variable U is not set"),
        ("text$U ${M}", UnboundVariableError, "variable U is not set"),
        ("${!U}", UnboundVariableError, "variable U is not set"),
        ("${U:?}", RequiredVariableError, "variable U is not set or empty: parameter null or not set"),
        ("${U:?give me}", RequiredVariableError, "variable U is not set or empty: give me"),
        ("${EMPTY:?give me}", RequiredVariableError, "variable EMPTY is not set or empty: give me"),
        ("${N", ExpansionError, "a '${' has no closing '}'"),
        ("${}", ExpansionError, "'${}' names no variable"),
        ("a ${} b", ExpansionError, "'${}' names no variable"),
        ("${N:1:-2}", ExpansionError, "a ${…} in it cannot be understood"),
        ("${N}\\", ExpansionError, "ends in a single backslash"),
    ],
)
def test_what_cannot_be_expanded(written: str, error: type[ExpansionError], message: str) -> None:
    with pytest.raises(error) as raised:
        expand_text(written, dict(ENVIRON))
    assert raised.value.message == message
    assert type(raised.value) is error


def test_unbound_and_required_are_different_errors() -> None:
    assert not issubclass(RequiredVariableError, UnboundVariableError)
    assert not issubclass(UnboundVariableError, RequiredVariableError)


def test_assigning_a_default_sets_the_environment() -> None:
    environ = dict(ENVIRON)
    assert expand_text("${U:=d}", environ).value == "d"
    assert environ["U"] == "d"
    assert expand_text("${N:=d}", environ).value == "value"
    assert environ["N"] == "value"


def test_recover_null_is_used_instead_of_raising() -> None:
    environ = {"EXPANDVARS_RECOVER_NULL": "fallback"}
    assert expand_text("${U}", environ).value == "fallback"
    assert expand_text("${U:?msg}", environ).value == "fallback"


def test_variables_that_were_used_are_known() -> None:
    assert expand_text("Bearer ${N} ${U:-x}", dict(ENVIRON)).variables == {"value"}


def test_files(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("s3cret\n")
    (tmp_path / "two").write_text("a\n\n")
    (tmp_path / "dollar").write_text("pa$$w${N}rd")
    (tmp_path / "windows").write_bytes(b"line\r\n")
    environ = {"DIR": str(tmp_path), "NAME": "one"}

    def expanded(text: str) -> str:
        return expand_text(text, environ, tmp_path).value

    assert expanded("${file:one}") == "s3cret"
    assert expanded("${file:two}") == "a\n"
    assert expanded("${file:windows}") == "line"
    assert expanded("${file:dollar}") == "pa$$w${N}rd"  # what is in a file is never expanded
    assert expanded(f"Bearer ${{file:{tmp_path}/one}}!") == "Bearer s3cret!"
    assert expanded("${file:${DIR}/${NAME}}") == "s3cret"
    assert expanded("${U:-${file:one}}") == "s3cret"
    assert expanded("${NAME:-${file:missing}}") == "one"
    assert expanded("\\${file:one}") == "${file:one}"
    assert expanded("${file:one}:${file:two}:${file:one}") == "s3cret:a\n:s3cret"
    assert expand_text("${file:one}", environ, tmp_path).files == {"s3cret"}
    assert expand_text("${NAME}", environ, tmp_path).files == frozenset()


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ExpansionError, match=r"file nowhere/x cannot be read: No such file or directory"):
        expand_text("${file:nowhere/x}", {}, tmp_path)


def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "blob").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ExpansionError, match="file blob is not UTF-8 text"):
        expand_text("${file:blob}", {}, tmp_path)


@given(st.text())
def test_any_text_expands_or_says_why_not(text: str) -> None:
    try:
        assert isinstance(expand_text(text, {"A": "b"}).value, str)
    except ExpansionError as error:
        assert error.message  # noqa: PT017 - either is fine


@given(st.text(alphabet=st.characters(exclude_characters="$")))
def test_a_text_without_a_dollar_stays_as_it_is(text: str) -> None:
    assert expand_text(text, {}).value == text


@given(
    st.dictionaries(
        st.from_regex(r"[A-Z_][A-Z0-9_]{0,8}", fullmatch=True), st.text(alphabet=st.characters(codec="utf-8"))
    )
)
def test_values_arrive_unchanged(environ: dict[str, str]) -> None:
    for name, value in environ.items():
        assert expand_text(f"${{{name}}}", dict(environ)).value == value
