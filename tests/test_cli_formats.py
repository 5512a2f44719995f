from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmfair.cli.columns import BY_LETTER, BY_NAME, FIELDS
from slurmfair.cli.formats import read_format
from slurmfair.cli.text import fitted, printable, span, width_of, words
from slurmfair.errors import SlurmfairError


def test_percent_dialect_has_width_side_and_what_stands_between() -> None:
    form = read_format("<%.15i|%9r> %u", BY_LETTER, BY_NAME)
    assert form.prefix == "<"
    assert [(cell.field.letter, cell.width, cell.right, cell.suffix) for cell in form.cells] == [
        ("i", 15, True, "|"), ("r", 9, False, "> "), ("u", 0, False, ""),
    ]  # fmt: skip


def test_named_dialect_is_that_of_squeue() -> None:
    form = read_format("JobID:.5,username:8|,Quota", BY_LETTER, BY_NAME)
    assert [(cell.field.letter, cell.width, cell.right, cell.suffix) for cell in form.cells] == [
        ("i", 5, True, ""), ("u", 8, False, "|"), ("g", 20, False, ""),
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["%9", "%", "%.15%", "%i %ö", "Quotas", "", "JobID,,User", "%9999i"])
def test_a_wrong_format_names_the_culprit_and_a_way_out(text: str) -> None:
    with pytest.raises(SlurmfairError, match="Invalid"):
        read_format(text, BY_LETTER, BY_NAME)


def test_a_near_name_is_proposed() -> None:
    with pytest.raises(SlurmfairError, match="did you mean quota"):
        read_format("Qouta:5", BY_LETTER, BY_NAME)


def test_letters_and_names_are_unique() -> None:
    assert len(BY_LETTER) == len(FIELDS)
    assert len(BY_NAME) == sum(len(one.names) for one in FIELDS)


@given(st.text(), st.integers(1, 30), st.booleans())
def test_a_cell_is_exactly_as_wide_as_its_column(text: str, width: int, right: bool) -> None:
    assert width_of(fitted(printable(text), width, right)) == width


@given(st.text())
def test_no_text_can_move_the_cursor(text: str) -> None:
    assert printable(text).isprintable()


@given(st.lists(st.tuples(st.text(max_size=12), st.text(max_size=12)), max_size=8))
def test_quick_and_careful_lines_agree(pairs: list[tuple[str, str]]) -> None:
    form = read_format("%.5u|%4o<%n", BY_LETTER, BY_NAME)
    rows = [(printable(left), printable(right), "x%") for left, right in pairs]
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    assert list(form.lines(columns)) == [form.line(row) for row in rows]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "less than a second"),
        (0.7, "1 s"),
        (59, "59 s"),
        (61, "1 min 1 s"),
        (7200, "2 h"),
        (90061, "1 d 1 h"),
    ],
)
def test_lengths_of_time_in_words(seconds: float, text: str) -> None:
    assert words(seconds) == text


def test_an_age_is_never_negative() -> None:
    assert span(-5) == "00:00:00"
    assert span(93784) == "1-02:03:04"
