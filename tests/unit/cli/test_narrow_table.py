"""Tables on a narrow terminal: each line fits, no word of a head or a short cell is broken, nothing is left out."""

from __future__ import annotations

from collections import Counter
from io import StringIO

import pytest
from rich.console import Console
from tesched_cli.common import Terminal, table

HEADS = ("JOB", "RUN>", "LONGEST WAIT>", "SLOWDOWN 50/95/99%>", "USER~", "")
ROWS = [
    ("1234567_123", "3", "1-00:05:00", "1.00 / 1.25 / 12.50", "ada", "2026-11-29T20:24:10"),
    ("9", "12", "00:05", "-", "grace", "noticed, 05:00 of grace left"),
]
WORDS = {word for text in (*HEADS, *ROWS[0], *ROWS[1]) for word in text.rstrip(">~").split()}


def printed(width: int, *rows: tuple[str, ...], heads: tuple[str, ...] = HEADS, title: str = "") -> list[str]:
    """Return the lines of a table on a terminal of this width."""
    made = table(*heads, title=title)
    for row in rows:
        made.add_row(*row)
    out = Terminal(width=width)
    with out.capture() as said:
        out.print(made)
    return [line.rstrip() for line in said.get().splitlines()]


@pytest.mark.parametrize("width", [40, 50, 60, 70, 80, 90, 120])
def test_each_line_fits_and_no_word_of_a_head_or_a_short_cell_is_broken(width: int) -> None:
    lines = printed(width, *ROWS)
    assert max(map(len, lines)) <= width
    assert {word for line in lines for word in line.split()} == WORDS


@pytest.mark.parametrize("width", range(36, 130))
def test_nothing_is_left_out_at_any_width(width: int) -> None:
    lines = printed(width, *ROWS)
    assert max(map(len, lines)) <= width
    in_rows = Counter("".join(word for row in ROWS for cell in row for word in cell.split()))
    assert Counter("".join(lines)) >= in_rows


def test_on_a_wide_terminal_it_is_a_table_as_before() -> None:
    assert printed(120, *ROWS) == [
        "JOB          RUN  LONGEST WAIT   SLOWDOWN 50/95/99%  USER",
        "1234567_123    3    1-00:05:00  1.00 / 1.25 / 12.50  ada    2026-11-29T20:24:10",
        "9             12         00:05                    -  grace  noticed, 05:00 of grace left",
    ]


def test_where_heads_would_be_broken_each_row_is_a_list_with_the_title_above_them() -> None:
    assert printed(40, *ROWS, title="Queues") == [
        "Queues",
        "JOB                 1234567_123",
        "RUN                 3",
        "LONGEST WAIT        1-00:05:00",
        "SLOWDOWN 50/95/99%  1.00 / 1.25 / 12.50",
        "USER                ada",
        "                    2026-11-29T20:24:10",
        "",
        "JOB                 9",
        "RUN                 12",
        "LONGEST WAIT        00:05",
        "SLOWDOWN 50/95/99%  -",
        "USER                grace",
        "                    noticed, 05:00 of",
        "                    grace left",
    ]


def test_a_column_that_is_not_to_be_wrapped_is_not_and_the_gaps_are_those_of_the_table() -> None:
    made = table("PLAN", "LONGEST WAIT>", "WORDS")
    made.padding = (0, 1, 0, 0)
    made.columns[0].no_wrap = True
    made.add_row("as it is now", "3", "a b c d e")
    out = Terminal(width=12 + 1 + 7 + 1 + 6)
    with out.capture() as said:
        out.print(made)
    lines = [line.rstrip() for line in said.get().splitlines()]
    assert lines == [
        "             LONGEST",
        "PLAN            WAIT WORDS",
        "as it is now       3 a b c",
        "                     d e",
    ]


def test_an_empty_cell_has_no_line_and_a_long_word_is_broken() -> None:
    lines = printed(20, ("a" * 30, ""), heads=("JOB", "WHERE"))
    assert lines == ["JOB  " + "a" * 15, "     " + "a" * 15]


def test_a_long_word_gives_way_before_the_table_does() -> None:
    assert printed(40, ("a" * 50, "main"), heads=("PATH", "PARTITION")) == [
        "PATH                           PARTITION",
        "a" * 29 + "  main",
        "a" * 21,
    ]


@pytest.mark.parametrize("width", [1, 5, 12, 20])
def test_a_terminal_that_is_too_narrow_for_anything_ends_no_command(width: int) -> None:
    assert printed(width, *ROWS)


def test_a_table_without_rows_is_its_heads_or_nothing() -> None:
    assert printed(120) == ["JOB  RUN  LONGEST WAIT  SLOWDOWN 50/95/99%  USER"]
    assert printed(30) == []


def test_it_is_drawn_anew_at_another_width_as_the_first_time() -> None:
    made = table(*HEADS)
    for row in ROWS:
        made.add_row(*row)

    def drawn(width: int) -> str:
        out = Console(width=width, file=StringIO(), color_system=None)
        with out.capture() as said:
            out.print(made)
        return said.get()

    wide, narrow = drawn(120), drawn(70)
    assert wide != narrow
    assert (drawn(120), drawn(70)) == (wide, narrow)
