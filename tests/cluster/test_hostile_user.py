"""An ordinary user types what it likes into each field of a job: nothing is run, forged, hidden, stopped or slowed."""

from __future__ import annotations

import grp
import json
import pwd
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest
from tesched_core.intake.class_rules import Classification
from tesched_core.intake.classify import classified
from tesched_core.model.cluster import JobState
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import ClusterDefinition, NodeGroup
from tesched_testcluster.harness.attacks import raw_rpc
from tesched_testcluster.harness.attacks.requests import (
    MODES,
    WITH_DEFAULTS,
    giants,
    record_of,
    script_file,
    with_slurmdbd,
)
from tesched_testcluster.harness.daemon_process import Daemon, running_daemon
from tesched_testcluster.harness.hostile import run
from tesched_testcluster.harness.slurm_clients import Connect
from tesched_testcluster.local import LocalCluster
from tesched_testcluster.users import ordinary_user

from tests.cluster.conftest import MakeCluster
from tests.cluster.gate import gated

pytestmark = [pytest.mark.slurm, pytest.mark.release]

#: all that a user may type into a job; {text} stands for it
FIELDS = (
    "--job-name={text}",
    "--comment={text}",
    "--network={text}",
    "--mail-user={text}",
    "--account={text}",
    "--mcs-label={text}",
    "--cluster-constraint={text}",
)
#: these too; a job with such a path fails when it is started
PATHS = ("--output=/{text}", "--chdir=/{text}")


def submit(cluster: LocalCluster, text: str, *options: str, wrap: str = "exec sleep 1000") -> int:
    """Submit a job with this text in every field, as an ordinary user."""
    held = "--hold" in options
    fields = [field.replace("{text}", text) for field in (*FIELDS, *(PATHS if held else ("--output=/dev/null",)))]
    return cluster.sbatch(*fields, *options, wrap=wrap, user=ordinary_user())


def seen_by(connect: Connect, cluster: LocalCluster) -> Snapshot:
    seen = connect(cluster).observer.observe()
    assert isinstance(seen, Snapshot), seen
    return seen


@contextmanager
def daemon_that_goes_on(cluster: LocalCluster, folder: Path, client: ClientChoice, mode: str) -> Iterator[Daemon]:
    """Run a daemon; when the block ends, it must still poll without trouble."""
    with running_daemon(cluster, folder, client, mode, poll_interval_s=0.2) as daemon:
        yield daemon
        assert daemon.process.poll() is None, daemon.log.read_text()

        def polls_well() -> bool:
            status = json.loads(daemon.ask("status", "--json").stdout)["daemon"]
            return bool(status["seen_at"] and status["seen_at"] > began and not status["failure"])

        began = time.time()
        cluster.wait_for(polls_well, "a good look at the queue")


@pytest.mark.parametrize("mode", gated(MODES, "enforce"))
def test_no_text_is_run_as_a_command(
    cluster: LocalCluster, tmp_path: Path, client_choice: ClientChoice, mode: str
) -> None:
    proof = cluster.shared / "proof"
    with daemon_that_goes_on(cluster, tmp_path, client_choice, mode) as daemon:
        for text in (
            f"x NodeList=@x'$(touch {proof})'",
            f"@x'`touch {proof}`'",
            f"a\nJobId=1 JobName=b NodeList=@y'$(touch {proof})' ",
            f"$(touch {proof})",
        ):
            submit(cluster, text, "--hold")
            submit(cluster, text)
        for command in ("status", "jobs", "explain 1"):
            daemon.ask(*command.split())
    assert not proof.exists()


@pytest.mark.parametrize(
    "text", gated(["x NodeList=n[1-", "x NodeList=n[1-99999999]", "x NumCPUs=abc"], "x NumCPUs=abc")
)
def test_no_text_ends_the_daemon_or_hides_a_job(
    cluster: LocalCluster, tmp_path: Path, client_choice: ClientChoice, connect: Connect, text: str
) -> None:
    """Neither the one that runs, nor the next one, nor `tesched undo`."""
    ids = [submit(cluster, text, "--gpus=8", "--no-requeue") for _ in range(7)] + [
        submit(cluster, text, "--hold") for _ in range(5)
    ]
    for job_id in ids[:7]:
        cluster.wait_state(job_id, "RUNNING")
    for _ in range(2):
        with daemon_that_goes_on(cluster, tmp_path, client_choice, "enforce") as daemon:
            last = cluster.sbatch("-J", "be", "--gpus=8", "--requeue", wrap="trap 'exit 0' USR1; sleep 1000 & wait")
            cluster.wait_state(last, "RUNNING")
            te = cluster.sbatch("-J", "te", "--gpus=8", "-t", "5", wrap="exec sleep 1")
            cluster.wait_state(te, "RUNNING", "COMPLETED")
        undone = daemon.ask("undo")
        assert undone.returncode == 0, undone.stderr
        cluster.run("scancel", str(last))
    jobs = seen_by(connect, cluster).jobs
    assert {jobs[JobId(job_id)].user for job_id in ids} == {ordinary_user()}
    assert sum(jobs[JobId(job_id)].on_nodes for job_id in ids) == 7
    assert not any(jobs[JobId(job_id)].doubt or jobs[JobId(job_id)].partly_read for job_id in ids)


def is_stored(daemon: Daemon, job_id: int) -> bool:
    shown = json.loads(daemon.ask("jobs", "--all", "--json").stdout)["jobs"]
    return any(job["job_id"] == job_id for job in shown)


@pytest.mark.gate
def test_no_number_ends_the_daemon_or_hides_another_job(
    make_cluster: MakeCluster, tmp_path: Path, client_choice: ClientChoice
) -> None:
    """In no mode, not after a restart, and not `tesched undo`; the others are served, and the job is shown."""
    cluster, user = make_cluster(WITH_DEFAULTS), ordinary_user()
    asked = [("-J", name, "-H", *options) for name in ("be", "te") for options in giants(cluster)]
    held = [cluster.sbatch(*options, wrap="true", user=user) for options in asked]
    for mode in MODES:
        with daemon_that_goes_on(cluster, tmp_path, client_choice, mode) as daemon:
            # slurmctld lets them wait for a moment before it sees that no node has so much.
            cluster.run("scontrol", "release", ",".join(map(str, held)), user=user, check=False)
            te = cluster.sbatch("-J", "te", "-t", "5", wrap="exec sleep 1")
            cluster.wait_state(te, "RUNNING", "COMPLETED")
            cluster.wait_for(partial(is_stored, daemon, te), "the honest job in the store")
            shown = daemon.ask("status").stdout
            assert "out of all bounds" in shown
            assert user in shown
        undone = daemon.ask("undo")
        assert undone.returncode == 0, undone.stderr


@pytest.mark.gate
def test_a_script_of_line_feeds_holds_up_no_poll(
    make_cluster: MakeCluster, tmp_path: Path, client_choice: ClientChoice
) -> None:
    """What sbatch has wrapped is searched for in it, and how long that takes must not grow with the square of it."""
    cluster = make_cluster(with_slurmdbd(1))  # it is read where command lines are known
    wrapped = "#!/bin/sh\n# This script was created by sbatch --wrap.\n\nsleep 3000"
    # All of it is within what is read of a script.
    script = script_file(cluster, "feeds.sh", f"{wrapped}{chr(10) * 200_000}x")
    whole = ("-c32", "--mem=100", "--output=/dev/null")
    victim = cluster.sbatch("-J", "be", *whole, script=script, user=ordinary_user())
    cluster.wait_state(victim, "RUNNING")
    said = ("sacct", "-n", "-X", "-P", "-o", "SubmitLine", "-j", str(victim))
    cluster.wait_for(lambda: "sbatch" in cluster.run(*said).stdout, "its command line in slurmdbd")
    with daemon_that_goes_on(cluster, tmp_path, client_choice, "enforce"):
        te = cluster.sbatch("-J", "te", *whole, wrap="exec sleep 1")
        cluster.wait_state(te, "RUNNING", "COMPLETED")
        assert cluster.job(victim)["Restarts"] == "1"


@pytest.mark.gate
def test_no_text_forges_a_field(cluster: LocalCluster, connect: Connect) -> None:
    text = "x JobState=RUNNING NodeList=n7 Account=vip TimeLimit=00:10:00 Priority=9 UserId=root(0) Restarts=7"
    job_id = JobId(submit(cluster, text, "--hold", "--mail-user=x TresPerJob=gres:gpu:0", "--gpus=8"))
    job = seen_by(connect, cluster).jobs[job_id]
    assert (job.state, job.nodes, job.time_limit_s, job.priority) == (JobState.PENDING, (), None, 0)
    assert (job.user, job.restarts, job.name, job.comment) == (ordinary_user(), 0, text, text)
    assert job.request.gres_per_job == (("gpu", 8),)
    # Slurm itself writes accounts in lower case.
    assert job.account == text.lower()


@pytest.mark.gate
def test_no_text_forges_what_a_running_job_holds(cluster: LocalCluster, connect: Connect) -> None:
    text = "x   Nodes=n[1-8] CPU_IDs=0-31 Mem=64000 GRES=gpu:8(IDX:0-7) \N{GRINNING FACE} MinMemoryNode=0 NumNodes=9"
    asked = ("-N2", "-n3", "--gpus-per-node=1", "--mem-per-cpu=10")
    liar = JobId(submit(cluster, text, *asked))
    honest = JobId(cluster.sbatch(*asked, wrap="exec sleep 1000"))
    cluster.wait_state(liar, "RUNNING")
    cluster.wait_state(honest, "RUNNING")
    jobs = seen_by(connect, cluster).jobs
    held = [Counter(share.tres for share in jobs[job_id].allocation) for job_id in (liar, honest)]
    assert held[0] == held[1]
    assert (jobs[liar].doubt, jobs[liar].partly_read) == ("", "")


@pytest.mark.gate
def test_no_number_of_a_users_own_program_hides_another_job(cluster: LocalCluster, connect: Connect) -> None:
    """Such as the last of each width, which is infinite to Slurm, and for which pyslurm has a word."""
    honest = JobId(cluster.sbatch("-J", "honest", "--hold", wrap="true"))
    before = seen_by(connect, cluster).jobs[honest]
    taken = {}
    for name, (size, *_) in raw_rpc.NUMBERS.items():
        with suppress(raw_rpc.RawSubmissionError):
            # Held, so that none of them starts.
            infinite = {"priority": 0, name: 2 ** (8 * size) - 1}
            taken[name] = JobId(raw_rpc.submit(cluster, ordinary_user(), infinite))
    after = seen_by(connect, cluster).jobs
    assert after[honest] == before
    assert set(taken.values()) <= set(after)
    assert after[taken["restart_cnt"]].restarts == 65535
    assert len(taken) > 20


@pytest.mark.gate
def test_a_forged_record_of_another_job_leaves_that_job_as_it_is(cluster: LocalCluster, connect: Connect) -> None:
    honest = cluster.sbatch("-J", "honest", "-N2", "-n3", "--gpus-per-node=1", wrap="exec sleep 1000")
    cluster.wait_state(honest, "RUNNING")
    before = seen_by(connect, cluster).jobs[JobId(honest)]
    record = record_of(cluster, honest)
    submit(cluster, f"x\n{record.replace('NodeList=n', 'NodeList=n[5-6]x')}", "--hold")
    cluster.sbatch(f"--comment=x\n{record}", "--hold", wrap="true", user=ordinary_user())
    after = seen_by(connect, cluster).jobs[JobId(honest)]
    assert after == before
    assert (after.doubt, after.partly_read) == ("", "")


#: prints what a client reads, as JSON; run where users and groups have other names
LOOK = """
import json, sys
from tesched_slurm.clients import choose
from tesched_slurm.client_choice import ClientChoice
from tesched_slurm.run_command import Commands
client = choose(ClientChoice(sys.argv[2]), Commands(slurm_conf=sys.argv[1]))
jobs = client.observer.observe().jobs.values()
print(json.dumps([[job.name, job.user, job.doubt or job.partly_read, len(job.nodes)] for job in jobs]))
"""


@pytest.mark.parametrize("name", ["domain user", "DOMAIN\\ada", "Zoë Ümläut", "x" * 255])
def test_names_of_users_and_groups_may_be_anything(
    make_cluster: MakeCluster, tmp_path: Path, client_choice: ClientChoice, name: str
) -> None:
    """As a directory service has them: seen in a mount namespace with other files of users and groups."""
    cluster = make_cluster(ClusterDefinition(groups=(NodeGroup(count=2),)))
    account = pwd.getpwnam(ordinary_user())
    group = grp.getgrgid(account.pw_gid)
    running = cluster.sbatch("-N2", "-n3", "--gpus-per-node=1", wrap="exec sleep 1000", user=account.pw_name)
    cluster.wait_state(running, "RUNNING")
    cluster.sbatch("-J", "a b", "--hold", wrap="true", user=account.pw_name)
    for file, old, new in (
        ("passwd", f"{account.pw_name}:x:{account.pw_uid}:", f"{name}:x:{account.pw_uid}:"),
        ("group", f"{group.gr_name}:x:{group.gr_gid}:", f"{name} users:x:{group.gr_gid}:"),
    ):
        text = Path(f"/etc/{file}").read_text()
        assert old in text
        (tmp_path / file).write_text(text.replace(old, new))
    mounts = " && ".join(f"mount --bind {tmp_path / file} /etc/{file}" for file in ("passwd", "group"))
    look = ("unshare", "--mount", "sh", "-c", f'{mounts} && exec "$@"', "sh", sys.executable, "-c", LOOK)
    done = cluster.run(*look, str(cluster.slurm_conf), client_choice)
    assert sorted(json.loads(done.stdout)) == [["a b", name, "", 0], ["wrap", name, "", 2]]


@pytest.mark.gate
def test_a_poll_costs_the_same_whatever_users_type(cluster: LocalCluster, connect: Connect) -> None:
    honest = cluster.sbatch("-J", "honest", "--hold", wrap="true")
    array = cluster.sbatch("-J", "array", "--array=0-999", "--hold", wrap="true")
    record = record_of(cluster, honest)
    # A task with a record of its own, as one that was requeued has it.
    task = record.replace(f"JobId={honest} ", f"JobId=99999 ArrayJobId={array} ArrayTaskId=7 ")
    calls = connect(cluster).calls

    def cost() -> int:
        seen_by(connect, cluster)
        before = sum(calls.values())
        seen_by(connect, cluster)
        return sum(calls.values()) - before

    plain = cost()
    before = seen_by(connect, cluster).jobs
    for number in range(60):
        text = f"x\nJobId={honest} JobName=a UserId=root(0) GroupId=x(1) MCS_label= Command=/x{number}"
        comment = f"x\n{task if number % 2 else record}"
        cluster.sbatch(f"--job-name={text}", f"--comment={comment}", "--hold", wrap="true", user=ordinary_user())
    # Records of each other, too: each resembles the next one.
    for number in range(20):
        cluster.sbatch(
            f"--comment=x\n{record_of(cluster, array + 1 + number)}", "--hold", wrap="true", user=ordinary_user()
        )
    assert cost() == plain
    after = seen_by(connect, cluster).jobs
    assert not any(job.doubt or job.partly_read for job in after.values())
    assert {job_id: after[job_id] for job_id in before} == before


@pytest.mark.gate
def test_one_users_scripts_put_off_no_other_users_scripts(cluster: LocalCluster, connect: Connect) -> None:
    with tempfile.NamedTemporaryFile("w", prefix="tesched-script-", suffix=".sh") as script:
        # As large as slurmctld takes it.
        script.write(f"#!/bin/sh\n#SBATCH --signal=USR1@60\nexec sleep 1000\n#{'x' * 4_000_000}\n")
        script.flush()
        Path(script.name).chmod(0o644)
        options = ("--array=0-11", "-n1", "--mem=10", "--output=/dev/null")
        flood = cluster.sbatch(*options, script=Path(script.name), user=ordinary_user())
    honest = cluster.sbatch("-n1", "--mem=10", wrap="exec sleep 1000")
    cluster.wait_state(honest, "RUNNING")
    cluster.wait_for(lambda: [job["JobState"] for job in cluster.jobs(flood)] == ["RUNNING"] * 12, "all tasks to run")
    client = connect(cluster)
    snapshot = classified(seen_by(connect, cluster), Classification())
    before = client.calls["scontrol write"]
    # Twice: one script may take all the time that a poll has for scripts.
    client.declarations.read(snapshot)
    found = client.declarations.read(snapshot)
    signals = [found[job.job_id].signal for job in snapshot.jobs.values() if job.array_job_id == flood and job.on_nodes]
    assert [signal.name for signal in signals if signal] == ["USR1"] * 12
    assert JobId(honest) in found
    assert client.calls["scontrol write"] - before == 2


def test_jobs_that_come_and_go_during_a_poll_are_never_mixed_up(make_cluster: MakeCluster, connect: Connect) -> None:
    """Slurmctld forgets a job between two answers; what is said of one is never said of another."""
    cluster = make_cluster(ClusterDefinition(groups=(NodeGroup(count=4),), min_job_age_s=2))
    for number in range(40):
        gpus = number % 4
        cluster.sbatch(f"-Jj{gpus}", f"--comment=c{gpus}", *([f"--gpus={gpus}"] if gpus else []), wrap="exec sleep 0.1")
        seen = seen_by(connect, cluster)
        for job in seen.jobs.values():
            wanted = int(job.name.removeprefix("j"))
            assert job.comment == f"c{wanted}"
            assert dict(job.request.gres_per_job).get("gpu", 0) == wanted


def test_what_is_read_is_what_was_submitted(make_cluster: MakeCluster) -> None:
    """Random text in every field; `python -m benchmarks.hostile` does it with 20,000 jobs."""
    cluster = make_cluster(ClusterDefinition(groups=(NodeGroup(count=4),)))
    assert run(cluster, 300, seed=7) == []


@pytest.mark.parametrize("text", ["[/x]", "[bold red]x", "\x1b[2J\x1b]0;owned\x07", "a\nb\rc", "\u202egnp.exe"])
def test_no_text_ends_a_command_or_reaches_the_terminal_as_it_is(
    cluster: LocalCluster, tmp_path: Path, one_client: ClientChoice, text: str
) -> None:
    with running_daemon(cluster, tmp_path, one_client, "shadow", poll_interval_s=0.2) as daemon:
        job_id = submit(cluster, text, "--hold")
        cluster.wait_for(
            lambda: any(job["job_id"] == job_id for job in json.loads(daemon.ask("jobs", "--json").stdout)["jobs"]),
            "the job in the store",
        )
        for command in (("jobs",), ("status",), ("explain", str(job_id))):
            done = daemon.ask(*command)
            assert done.returncode in {0, 1}, done.stderr
            assert "Traceback" not in done.stderr
            shown = done.stdout.replace("\n", "")
            assert not any(ord(letter) < 32 or letter in "\x7f\x9b\u202e" for letter in shown), shown


@pytest.mark.gate
def test_no_variable_of_the_daemons_changes_what_it_does(
    cluster: LocalCluster, tmp_path: Path, one_client: ClientChoice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scancel would ask before it sends the notice, for ever, or send it to waiting jobs alone."""
    told = cluster.shared / "told"
    script = f"trap 'touch {told}; exit 0' USR1; sleep 1000 & wait"
    victim = cluster.sbatch("--nodes=8", "--exclusive", "--comment=signal=B:USR1 grace=60", wrap=script)
    cluster.wait_state(victim, "RUNNING")
    monkeypatch.setenv("SCANCEL_INTERACTIVE", "1")
    monkeypatch.setenv("SCANCEL_STATE", "PENDING")
    with running_daemon(cluster, tmp_path, one_client) as daemon:
        cluster.sbatch("-J", "te", "-t", "5", wrap="exec sleep 1")
        cluster.wait_for(told.exists, "the notice")
        cluster.wait_for(lambda: daemon.json("status")["tally"]["started_here"] == 1, "the TE job to start")
