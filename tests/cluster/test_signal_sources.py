"""Sources of a job's signal on a real Slurm: sbatch's command line, the site's rules that look into scripts.

A command line is to be had on 26.05. On 22.05 without slurmdbd it is not: such a job is requeued at once, unharmed.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import ClusterDefinition, NodeGroup
from tesched_testcluster.harness.daemon_process import running_daemon
from tesched_testcluster.kinds import WAITS, Ending, batch
from tesched_testcluster.kinds_stage import KindsOnStage

from tests.cluster.conftest import MakeCluster

pytestmark = [pytest.mark.slurm, pytest.mark.release]

NO_SIGNAL = "requeued at once, without a signal"

#: no line of these scripts says which signal they trap; on 26.05 their command line does
ON_THE_LINE = tuple(
    batch(
        name,
        "a signal on the command line alone",
        WAITS.format(signal="USR2", name=name),
        options=options,
        before_26=Ending.AGAIN,
    )
    for name, options in (
        ("line", ("--signal=B:USR2@60",)),
        ("blanks", ("--comment=it's saved at -- step 7", "--sig", "B:USR2@60")),
    )
)
#: the same on both releases
ANYWHERE = (
    batch(
        "comment",
        "a text that looks like an option is none",
        "python3 work.py comment '' 0",
        Ending.AGAIN,
        options=("--comment=a --signal=USR1",),
        explained=NO_SIGNAL,
    ),
    batch(
        "ruled",
        "a notice rule that looks into the script",
        "# made by our launcher\nexec python3 work.py ruled USR2 99",
        explained="SIGUSR2 to its batch shell, from notice rule launcher",
    ),
)
RULE = """
[[classes.notice_rules]]
name = "launcher"
script_contains = ["made by our launcher"]
notice_signal = "B:USR2"
"""
#: a wrapped command with a text that looks like an option
WRAPPED = ": --signal=USR1; exec python3 work.py wrapped '' 0"


def test_the_signal_is_found_where_it_was_declared(
    make_cluster: MakeCluster, tmp_path: Path, client_choice: ClientChoice
) -> None:
    kinds = (*ON_THE_LINE, *ANYWHERE)
    cluster = make_cluster(ClusterDefinition(name="sources", groups=(NodeGroup(count=len(kinds) + 2, cpus=4),)))
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "rule.toml").write_text(RULE)
    with KindsOnStage(cluster, kinds) as stage:
        alone = ("-N1", "--exclusive", "--mem=100", f"--chdir={stage.folder}")
        wrapped = cluster.sbatch(*alone, "--job-name=be-wrapped", wrap=WRAPPED)
        stage.await_begun()
        cluster.wait_for(lambda: stage.events("wrapped"), "the wrapped command to begin")
        with running_daemon(cluster, tmp_path, client_choice) as daemon:
            stage.preempt()
            node = cluster.job(wrapped)["NodeList"]
            cluster.sbatch("--job-name=te", *alone, f"--nodelist={node}", wrap="sleep 0.5")
            cluster.wait_state(wrapped, "COMPLETED")
            stage.await_end()
            outcomes = stage.outcomes(lambda job: daemon.ask("explain", job).stdout)
            assert [outcome.wrong for outcome in outcomes if outcome.wrong] == []
            assert stage.events("wrapped") == ["begun", "begun", "done"]
            seen = cluster.release >= (26, 5)
            on_the_line = "SIGUSR2 to its batch shell, from --signal on sbatch's command line" if seen else NO_SIGNAL
            explained = {stage.jobs(kind.name)[0]: on_the_line for kind in ON_THE_LINE}
            explained |= {stage.jobs(kind.name)[0]: kind.explained for kind in ANYWHERE} | {str(wrapped): NO_SIGNAL}
            for job, words in explained.items():
                told = daemon.ask("explain", job).stdout
                assert words in told, job
                # What it took to leave is what the next job of that name is expected to take.
                assert ("learned from 1 job of the same user and name" in told) is (words == NO_SIGNAL), job
            tally = daemon.json("status")["tally"]
            assert (tally["lost"], tally["died_of_notice"]) == (0, 0)
