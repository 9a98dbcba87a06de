"""The submission hook's mark is removed from a released job, and not tried again where Slurm denies it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest
from tesched_core.model.actions import Failure
from tesched_core.model.hook import HOOK_MARK
from tesched_slurm.errors import failure
from tesched_slurm.notes import without_hook_mark
from tesched_slurm.run_command import Commands

from tests.builders import waiting


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers(Commands):
    """Each command fails with this text; without one it works."""

    says: str = ""
    sent: list[tuple[str, ...]] = field(default_factory=list)

    def run(
        self,
        argv: Sequence[str],
        variables: Mapping[str, str] | None = None,
        *,
        enough: int | None = None,
    ) -> str | Failure:
        """Return the answer."""
        self.sent.append(tuple(argv))
        return failure(self.says) if self.says else ""


@pytest.mark.parametrize(
    ("says", "times"),
    [("", 2), ("Access/permission denied for job 1", 1), ("Unable to contact slurm controller", 2)],
)
def test_it_is_tried_for_each_job_until_slurm_denies_it(says: str, times: int) -> None:
    commands = Answers(says=says)
    for _ in range(2):
        without_hook_mark(commands, waiting(1, admin_comment=HOOK_MARK), "1")
    assert commands.sent == [("scontrol", "update", "jobid=1", "admincomment=")] * times


def test_a_text_of_the_sites_before_it_stays() -> None:
    commands = Answers()
    without_hook_mark(commands, waiting(1, admin_comment=f"site: a; b; {HOOK_MARK}"), "1")
    assert commands.sent == [("scontrol", "update", "jobid=1", "admincomment=site: a; b")]


def test_another_text_is_left() -> None:
    commands = Answers()
    without_hook_mark(commands, waiting(1, admin_comment="of the site"), "1")
    assert commands.sent == []
