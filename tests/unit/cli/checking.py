"""`tesched check` beside a Slurm that says this."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass

import pytest
from click.testing import CliRunner
from tesched_cli import check
from tesched_core.model.cluster import SlurmSettings
from tesched_daemon.config import Config
from tesched_daemon.submission import read
from tesched_daemon.submission.survival import Survival
from tesched_testcluster.kinds import Ending

#: what each ending of a real job may have been called before: of a program's own handler nothing is known
AGREES: dict[Ending, frozenset[Survival]] = {
    Ending.RESUMED: frozenset({Survival.SAVES, Survival.PROGRAM, Survival.UNDECLARED}),
    Ending.AGAIN: frozenset({Survival.AGAIN, Survival.UNDECLARED}),
    Ending.UNTOUCHED: frozenset({Survival.UNDECLARED}),
    Ending.KEPT: frozenset({Survival.KEPT}),
    Ending.UNFINISHED: frozenset({Survival.PROGRAM, Survival.UNFINISHED}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What it says."""

    verdict: Survival
    text: str
    diff: str
    exit_status: int


def checked(
    *words: str,
    release: str = "22.05.8",
    requeue_exit: Collection[int] = (),
    requeue_exit_hold: Collection[int] = (),
    appends: bool = False,
    config: Config | None = None,
) -> Checked:
    """Return what it says of a job, on a site with the default configuration and these settings of Slurm's."""
    settings = SlurmSettings(
        release=release, requeue_exit=frozenset(requeue_exit), requeue_exit_hold=frozenset(requeue_exit_hold)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(read, "_slurm_settings", lambda _config: (settings, appends, []))
        patch.setattr(check, "_configured", lambda _path: (config or Config(), []))
        ran = CliRunner().invoke(check.check, ["--json", *words], catch_exceptions=False)
    said = json.loads(ran.stdout)
    return Checked(
        verdict=Survival(said["verdict"]),
        text="\n".join([*said["because"], *said["advice"]]),
        diff=said["diff"],
        exit_status=ran.exit_code,
    )
