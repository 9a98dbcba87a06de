"""Numbers of more digits than Python reads (4,300), wherever a user may type them."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tesched_cli import jobs
from tesched_core.model.notice import signal_name
from tesched_core.model.request import tasks_in

from tests.builders import waiting
from tests.unit.cli.checking import checked
from tests.unit.daemon.test_slurm_limits import ANSWER, JOB, limits

LONG = "1" * (sys.int_info.default_max_str_digits + 1)


@pytest.mark.parametrize("line", [f"trap 'exit {LONG}' USR1", f"trap 'echo x' {LONG}", f"exit {LONG}"])
def test_a_script_with_one_is_checked_as_without_it(line: str, tmp_path: Path) -> None:
    text = "#!/bin/bash\n#SBATCH --signal=B:USR1@60\n{}\nsrun train &\nwait\n"
    script = tmp_path / "job.sh"
    script.write_text(text.format(line))
    found = checked(str(script))
    # Of such an exit it is not known which status it is, as of `exit $?`; such a signal is none.
    script.write_text(text.format(line.replace(LONG, "$?") if "exit" in line else "trap 'echo x' KILL"))
    assert found.verdict is checked(str(script)).verdict


def test_no_signal_has_such_a_number() -> None:
    assert [signal_name(text) for text in (LONG, "10", "0010", "0" * 5000 + "10")] == [None, "USR1", "USR1", None]


def test_such_a_number_of_licences_is_above_each_limit() -> None:
    answer = ANSWER.replace("GrpTRES=cpu=9(4)", "GrpTRES=cpu=9(4),license/a=5(0)")
    reasons = [limits(replace(JOB, licenses=f"a:{count}"), answer).reason for count in ("5", "6", LONG)]
    assert reasons == ["", "AssocGrpLicense", "AssocGrpLicense"]


def test_tasks_of_an_array_with_one_are_counted() -> None:
    assert tasks_in(waiting(1, array_tasks=f"1-{LONG}")) > 10**9
    assert tasks_in(waiting(1, array_tasks="0-9:2,20%3")) == 6


def test_a_user_of_such_a_number_is_none_that_is_known() -> None:
    assert jobs._names(frozenset({LONG})) == {LONG}
