"""`tesched top` on a terminal of 80 columns by 24 lines, beside a daemon and a real Slurm."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.harness.daemon_process import TESCHED, running_daemon
from tesched_testcluster.local import LocalCluster

from tests.terminal import ENTER, ESCAPE, on_terminal

pytestmark = pytest.mark.slurm

#: has a grace period, and takes all of it
VICTIM = "#!/bin/bash\n#SBATCH --signal=USR1@300\ntrap '' USR1\nsleep 3600 & wait; sleep 3600\n"


def has(*words: str) -> Callable[[list[str]], bool]:
    """Return what says whether each word is on the screen."""
    return lambda lines: all(any(word in line for line in lines) for word in words)


def line_with(lines: list[str], word: str) -> str:
    return next((line for line in lines if word in line), "")


@pytest.mark.gate
def test_a_preemption_is_watched_on_a_terminal_and_its_story_opened(
    cluster: LocalCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    script = cluster.shared / "victim.sh"
    script.write_text(VICTIM)
    options = ("-N1", "--exclusive", "--mem=100", f"--chdir={cluster.shared}", "--output=/dev/null")
    be = cluster.sbatch(*options, "--job-name=be-1", "-wn1", script=script)
    cluster.wait_state(be, "RUNNING")
    with (
        running_daemon(cluster, tmp_path, one_client) as daemon,
        on_terminal([TESCHED, "top", "-i", "0.5", "--config", daemon.config]) as terminal,
    ):
        terminal.wait_for(has("well: pid", "BE 1 R, 0 PD", "no order is under way", "be-1"), "the running job")
        te = cluster.sbatch(*options, "--job-name=te-1", "-wn1", wrap="sleep 3600")
        lines = terminal.wait_for(has("noticed", "of grace left"), "the order with its countdown")
        assert f" {te} " in line_with(lines, "of grace left")
        assert f" {be} " in line_with(lines, "of grace left")
        assert line_with(lines, "te-1").split()[:3] == ["TE", str(te), cluster.job(te)["UserId"].partition("(")[0]]

        terminal.press("2")
        # A screen may be read while half of it is drawn.
        terminal.wait_for(lambda lines: f"for {te}" in line_with(lines, "n1 "), "the nodes, and the order for n1")
        terminal.press("3")
        terminal.wait_for(has("DECISION", f"job {te} on n1 from {be}"), "the decision")
        terminal.press("1")
        terminal.wait_for(has("JOBID"), "the queue again")
        terminal.press(ENTER)
        # The cursor has stayed on the job that was there alone.
        story = has(f"job {be} 'be-1'", "best effort (BE)", f"it was notified, for job {te}")
        terminal.wait_for(story, "the story of the BE job")
        terminal.press(ESCAPE)
        terminal.wait_for(has("JOBID"), "the queue again")
        terminal.press("q")
        assert terminal.process.wait(60) == 0
