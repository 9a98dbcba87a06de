"""Sources of a job's signal on a real Slurm: sbatch's command line, the site's rules that read scripts.

A command line is to be had on 26.05. On 22.05 without slurmdbd it is not: such a job is requeued at once, unharmed.
With slurmdbd it is to be had some seconds after the job's start, and the job is no victim until then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from tesched_core.intake.class_rules import Classification
from tesched_core.intake.classify import classified
from tesched_core.model.notice import Declared
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_slurm.client_choice import ClientChoice
from tesched_slurm.clients import Client
from tesched_slurm.run_command import Commands
from tesched_testcluster.definition import ClusterDefinition, NodeGroup
from tesched_testcluster.harness.attacks.requests import script_file, with_slurmdbd
from tesched_testcluster.harness.daemon_process import running_daemon
from tesched_testcluster.harness.slurm_clients import Connect
from tesched_testcluster.kinds import WAITS, Ending, batch
from tesched_testcluster.kinds_stage import KindsOnStage

from tests.cluster.conftest import MakeCluster

pytestmark = [pytest.mark.slurm, pytest.mark.release]

NO_SIGNAL = "requeued without a signal"

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
#: a wrapped command with a text that resembles an option
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


def declarations(client: Client) -> Mapping[JobId, Declared]:
    seen = client.observer.observe()
    assert isinstance(seen, Snapshot)
    return client.declarations.read(classified(seen, Classification()))


@pytest.mark.gate
def test_a_command_line_that_slurmdbd_stores_seconds_after_the_start_is_read_for_every_job(
    make_cluster: MakeCluster, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = make_cluster(with_slurmdbd(1))
    client = connect(cluster)
    without: list[str] = []
    answer = Commands._answer

    def keeping(commands: Commands, argv: Sequence[str], *rest: object) -> object:
        said = answer(commands, argv, *rest)  # type: ignore[arg-type]
        if argv[0] == "sacct" and "--signal" not in str(said):
            without.append(argv[-1])
        return said

    monkeypatch.setattr(Commands, "_answer", keeping)
    script = script_file(cluster, "job.sh", "#!/bin/sh\nexec sleep 1000\n")
    options = ("-n1", "--mem=10", "--signal=B:USR1@60", "--output=/dev/null")
    jobs = []
    for _ in range(12):
        jobs.append(JobId(cluster.sbatch(*options, script=script)))
        cluster.wait_state(jobs[-1], "RUNNING")
        # Read as soon as it runs: slurmctld sends what has started to slurmdbd every five seconds.
        declarations(client)
    assert cluster.release >= (23, 2) or without
    found: Mapping[JobId, Declared] = {}

    def all_read() -> bool:
        nonlocal found
        found = declarations(client)
        return set(jobs) <= set(found)

    cluster.wait_for(all_read, "all command lines to be read")
    sources = {(declared.signal.name if declared.signal else "", declared.source) for declared in found.values()}
    assert sources == {("USR1", "--signal on sbatch's command line")}


@pytest.mark.gate
def test_a_victim_that_has_just_started_gets_the_notice_that_its_command_line_declares(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    cluster = make_cluster(with_slurmdbd(1))
    saved = cluster.shared / "saved"
    text = f"#!/bin/sh\ntrap 'touch {saved}; exit 99' USR2\nsleep 1000 & wait\n"
    script = script_file(cluster, "saves.sh", text)
    whole = ("--exclusive", "--mem=100", "--output=/dev/null")
    with running_daemon(cluster, tmp_path, one_client) as daemon:
        victim = cluster.sbatch("-J", "be", *whole, "--signal=B:USR2@60", script=script)
        cluster.wait_state(victim, "RUNNING")
        te = cluster.sbatch("-J", "te", *whole, wrap="exec sleep 1")
        cluster.wait_state(te, "RUNNING", "COMPLETED")
        assert saved.exists()
        assert (
            "SIGUSR2 to its batch shell, from --signal on sbatch's command line"
            in daemon.ask("explain", str(victim)).stdout
        )
