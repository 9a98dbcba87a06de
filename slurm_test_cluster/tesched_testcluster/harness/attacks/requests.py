"""Attacks by what a job asks for and what it says of itself."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

from tesched_testcluster.definition import Account, Accounting, ClusterDefinition, NodeGroup, PartitionDefinition
from tesched_testcluster.harness.attacks.bench import BE_OF_A_NODE, LONGEST_POLL_S, LONGEST_WAIT_S, Bench
from tesched_testcluster.harness.attacks.registry import Result, attack
from tesched_testcluster.harness.attacks.usage import peak_of, resident_mib
from tesched_testcluster.harness.daemon_process import Daemon
from tesched_testcluster.local import LocalCluster
from tesched_testcluster.users import ordinary_users

#: requests that slurmctld takes from any user, and which overflow 64 bits once they are multiplied: by each
#: other, or by what the site gives with each GPU
GIANTS = (
    ("--mem-per-gpu=9223372036854775807", "--gpus=2"),
    ("--gpus=18446744073709551614",),
    ("--gpus=9007199254740991",),
    ("--mem=9007199254740991M",),
    ("-N", "1000000"),
    ("--tmp=4294967293",),
    ("--nice=2147483645", "--begin=9999-12-30"),
)
#: more of them, which sbatch 22.05 takes and 26.05 refuses
GIANTS_BEFORE_26 = (
    ("--gpus-per-task=9007199254740991", "-n", "4"),
    ("--cpus-per-gpu=2147483647", "--gpus=2147483647"),
    ("-n", "2147483647"),
)
#: with 8 GPUs a node, and defaults for each
WITH_DEFAULTS = ClusterDefinition(
    groups=(NodeGroup(count=4),),
    partitions=(
        PartitionDefinition(name="main", default=True, settings={"DefMemPerGPU": "8000", "DefCpuPerGPU": "4"}),
    ),
)
MODES = ("observe", "shadow", "enforce")
#: what sbatch makes of --wrap begins so
_WRAPPED = "#!/bin/sh\n# This script was created by sbatch --wrap.\n\n"


def giants(cluster: LocalCluster) -> tuple[tuple[str, ...], ...]:
    """Return the requests that the cluster's sbatch takes."""
    return GIANTS if cluster.release >= (26, 0) else (*GIANTS, *GIANTS_BEFORE_26)


def record_of(cluster: LocalCluster, job_id: int) -> str:
    """Return as much of a job's record as Slurm lets a user type: texts of more than 1,024 bytes are refused."""
    said = cluster.run("scontrol", "-d", "-o", "show", "job", str(job_id)).stdout
    return f"{said[:900]} NumNodes=1 NumCPUs=1 ExcNodeList=(null) Network=x"


def script_file(cluster: LocalCluster, name: str, text: str) -> Path:
    """Write a script that any user may submit."""
    script = cluster.shared / name
    script.write_text(text)
    script.chmod(0o644)
    return script


def beside(bench: Bench, running: Daemon, quiet_s: float) -> Result:
    """Serve an honest TE job beside what a hostile user has done, and say how that and the polls went."""
    bench.fill_up()
    with peak_of(lambda: resident_mib(running.process.pid)) as memory:
        waited_s = bench.serve()
    polls = bench.polls()
    calls = sum(running.json("status")["daemon"]["calls"].values())
    figure = (
        f"honest TE job served after {waited_s:.1f} s ({quiet_s:.1f} quiet), longest of {polls.count} polls"
        f" {polls.longest_s:.2f} s, {calls:.0f} calls in a minute, {memory.value:.0f} MiB"
    )
    return Result(figure=figure, held=waited_s <= LONGEST_WAIT_S and polls.longest_s <= LONGEST_POLL_S)


def _polls_since(bench: Bench, began: float, count: int) -> bool:
    return bench.polls(began).count >= count


@attack("giant-numbers", "requests of up to 64 bits, in each mode and by `tesched undo`", WITH_DEFAULTS)
def giant_numbers(bench: Bench) -> Result:
    """No number of a request ends a daemon; the job is shown with its user."""
    cluster, hostile = bench.cluster, bench.users[0]
    named = []
    bench.fill_up()
    with bench.daemon():
        quiet_s = bench.serve()
    asked = [("-J", name, "-H", *options) for name in ("be", "te") for options in giants(cluster)]
    held = [cluster.sbatch(*options, wrap="true", user=hostile) for options in asked]
    results = []
    for mode in MODES:
        began = time.time()
        with bench.daemon(mode) as running:
            # slurmctld lets them wait for a moment before it sees that no node has so much.
            cluster.run("scontrol", "release", ",".join(map(str, held)), user=hostile, check=False)
            if mode == "enforce":
                results.append(beside(bench, running, quiet_s))
            cluster.wait_for(partial(_polls_since, bench, began, 3), "three polls")
            named.append(hostile in {user for _, user in bench.unread()})
            shown = running.ask("status").stdout
            named.append("out of all bounds" in shown and hostile in shown)
        named.append(running.ask("undo").returncode == 0)
    figure = f"{len(held)} jobs named by status and left alone in {len(MODES)} modes, undo works; {results[0].figure}"
    return Result(
        figure=figure if all(named) else f"not named, or no undo: {named}", held=all(named) and results[0].held
    )


def with_slurmdbd(nodes: int) -> ClusterDefinition:
    """Return a cluster whose slurmdbd knows command lines, which are read with the scripts that they wrap."""
    account = Account(name="lab", users=("root", *ordinary_users(2)))
    return ClusterDefinition(groups=(NodeGroup(count=nodes),), accounting=Accounting(accounts=(account,), enforce=""))


@attack(
    "newlines",
    "BE jobs on all nodes, each with 200,000 line feeds in what sbatch wrapped",
    partial(with_slurmdbd, 4),
)
def newlines(bench: Bench) -> Result:
    """A script is read in one pass, and the daemon obeys SIGTERM."""
    cluster, hostile = bench.cluster, bench.users[0]
    script = script_file(cluster, "newlines.sh", _WRAPPED + "sleep 3000" + "\n" * 200_000 + "x")
    with bench.daemon() as running:
        bench.fill_up()
        quiet_s = bench.serve()
        bench.empty()
    nodes = cluster.definition.node_names
    bench.fill = [cluster.sbatch(*BE_OF_A_NODE, script=script, user=hostile) for _ in nodes]
    # Each script is read once, and searched for what sbatch wrapped only where its job's command line is known.
    said = ("sacct", "-n", "-X", "-P", "-o", "SubmitLine", "-j", ",".join(map(str, bench.fill)))
    cluster.wait_for(lambda: cluster.run(*said).stdout.count("sbatch") == len(bench.fill), "the command lines")
    with bench.daemon() as running:
        result = beside(bench, running, quiet_s)
        for job_id in bench.fill:
            cluster.wait_for(
                partial(_is_explained, running, job_id, " or on its command line"), "the scripts to be read"
            )
    return Result(figure=f"{result.figure}; each read; SIGTERM obeyed", held=result.held)


def _is_explained(running: Daemon, job_id: int, words: str) -> bool:
    return words in running.ask("explain", str(job_id)).stdout


@attack("forged-records", "300 held jobs with records of each other and of 60 jobs of another user in --comment")
def forged_records(bench: Bench) -> Result:
    """A record that a user wrote is never believed, and puts no other job in doubt."""
    cluster, (hostile, honest) = bench.cluster, bench.users
    others = [cluster.sbatch("-J", "held", "-H", wrap="true", user=honest) for _ in range(60)]
    with bench.daemon() as running:
        bench.fill_up()
        quiet_s = bench.serve()
        last = others[0]
        for number in range(300):
            short = (
                f"JobId={others[(3 * number + k) % 60]} JobName=a UserId=root(0) GroupId=x(1) MCS_label="
                for k in range(3)
            )
            text = "x\n" + ("\n".join(short) if number % 15 == 0 else record_of(cluster, last))
            last = cluster.sbatch("-J", text[:60], f"--comment={text}", "-H", wrap="true", user=hostile)
        began = time.time()
        result = beside(bench, running, quiet_s)
        cluster.wait_for(partial(_polls_since, bench, began, 5), "five polls")
        unread = sum(user == honest for _, user in bench.unread())
    return Result(figure=f"{result.figure}; {unread} honest jobs in doubt", held=result.held and not unread)


@attack("large-scripts", "an array of short tasks with a script of 4 MB, 60 of them running")
def large_scripts(bench: Bench) -> Result:
    """Scripts are read for users in turn, an array's once."""
    cluster, hostile = bench.cluster, bench.users[0]
    # As large as slurmctld takes it.
    text = f"#!/bin/sh\n#SBATCH --signal=USR1@60\nexec sleep 15\n#{'x' * 4_000_000}\n"
    script = script_file(cluster, "large.sh", text)
    with bench.daemon() as running:
        bench.fill_up()
        quiet_s = bench.serve()
        flood = cluster.sbatch("--array=0-999%60", "-n1", "--mem=10", "-o", "/dev/null", script=script, user=hostile)

        def tasks() -> int:
            return cluster.run("squeue", "-h", "-r", "-j", str(flood), "-t", "R", "-o", "%i").stdout.count("\n")

        cluster.wait_for(lambda: tasks() >= 50, "the array to run")
        # Jobs that begin beside it: their scripts have yet to be read.
        bench.empty()
        result = beside(bench, running, quiet_s)
        cluster.wait_for(partial(_is_read, running, flood), "the array's script to be read")
    return Result(figure=f"{result.figure}; its script is read", held=result.held)


def _is_read(running: Daemon, array: int) -> bool:
    jobs = running.json("jobs")["jobs"]
    return any(job["label"].startswith(f"{array}_") and "script" in job["notice_source"] for job in jobs)


@attack("made-up-tasks", "comments with records of tasks that waiting arrays do not have")
def made_up_tasks(bench: Bench) -> Result:
    """No text of a user's adds a call: an array is never read task by task for it."""
    cluster, (hostile, honest) = bench.cluster, bench.users
    arrays = [
        cluster.sbatch("-J", "array", "--array=0-999", "-H", wrap="true", user=user) for user in (honest, hostile)
    ]
    arrays += [cluster.sbatch("-J", "array", "--array=0-999", "--begin=now+9999", wrap="true", user=hostile)]
    with bench.daemon() as running:
        bench.fill_up()
        quiet_s = bench.serve()
        bench.fill_up()
        plain = bench.calls_of_a_poll()
        for number in range(30):
            array = arrays[number % len(arrays)]
            task = f"x\nJobId={99990 + number} ArrayJobId={array} ArrayTaskId={number} JobName=a UserId=root(0)"
            comment = f"--comment={task} GroupId=x(1) MCS_label=N/A JobState=RUNNING"
            cluster.sbatch(comment, "-H", wrap="true", user=hostile)
        calls = bench.calls_of_a_poll()
        result = beside(bench, running, quiet_s)
    figure = f"{result.figure}; a poll makes {calls} calls, {plain} without them"
    return Result(figure=figure, held=result.held and calls <= plain)
