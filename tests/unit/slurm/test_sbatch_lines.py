"""A batch script's option lines are read as sbatch reads them: word by word, and all lines as one command line."""

from __future__ import annotations

import pytest
from tesched_slurm.sbatch_options import UnknownOptionError, component_lines, options_in

from tests.unit.slurm.sbatch_scripts import ESCAPED, SCRIPTS, Taken


@pytest.mark.parametrize(("lines", "taken"), [*SCRIPTS, ESCAPED])
def test_what_sbatch_takes_is_read(lines: str, taken: Taken) -> None:
    assert {one.name: one.value for one in options_in(f"#!/bin/sh\n{lines}true\n")} == taken


def test_an_option_is_of_the_line_where_its_name_stands() -> None:
    found = options_in("#!/bin/sh\n#SBATCH -J\n\n#SBATCH name -n2\n#SBATCH -N1\n")
    assert [(one.name, one.value, one.line) for one in found] == [
        ("job-name", "name", 2),
        ("ntasks", "2", 4),
        ("nodes", "1", 5),
    ]


def test_one_of_which_a_value_is_not_known_is_named_with_its_line() -> None:
    with pytest.raises(UnknownOptionError, match=r"^line 3: whether --image takes a value is not known"):
        options_in("#!/bin/sh\n#SBATCH -n2\n#SBATCH --image\n#SBATCH ubuntu\n")


def test_behind_a_word_that_is_no_option_none_is_read() -> None:
    # sbatch refuses such a script
    assert [one.name for one in options_in("#SBATCH -n2 foo --comment=a\n#SBATCH -N1\n")] == ["ntasks"]


@pytest.mark.parametrize(
    ("script", "lines"),
    [
        ("#SBATCH -n2\n#SBATCH hetjob\n", [2]),
        ("#SBATCH -n2\n#SBATCH HETJOB\n#SBATCH -n3\n#SBATCH packjob # x\n", [2, 4]),
        ("#SBATCH -n2 hetjob\n#SBATCH hetjobs\n#SBATCH 'hetjob'\n#SBATCH hetjob#x\n", []),
    ],
)
def test_where_the_next_component_begins(script: str, lines: list[int]) -> None:
    assert list(component_lines(script)) == lines
