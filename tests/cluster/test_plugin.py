"""preempt/tesched on a real Slurm: slurmctld preempts the marked jobs, in the order of their marks, and no other.

No daemon runs here: the tests write the marks. Jobs in the partition `te` are trial-and-error (TE) jobs.

Over 400 lines: one cluster with the plugin is made once, for all of them.
"""

from __future__ import annotations

import os
import pwd
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tesched_testcluster.definition import (
    REQUEUE_EXIT,
    Account,
    Accounting,
    ClusterDefinition,
    NativePreemption,
    NodeGroup,
    PartitionDefinition,
    Qos,
)
from tesched_testcluster.harness.plugin_marks import Mark, marks_text, put_marks, put_text
from tesched_testcluster.local import LocalCluster, installed_release
from tesched_testcluster.users import ordinary_user

from tests.cluster.conftest import MakeCluster
from tests.cluster.gate import gated

pytestmark = pytest.mark.slurm

ROOT = Path(__file__).parents[2]
NODES = 4
DEFINITION = ClusterDefinition(
    groups=(NodeGroup(count=NODES),),
    partitions=(PartitionDefinition(name="main", default=True), PartitionDefinition(name="te")),
    preemption=NativePreemption(kind="tesched", send_user_signal=True, parameters=("tesched_te_partition=dev:te",)),
)
#: a script that ends as soon as it is signalled: an ordinary one that sleeps in the foreground reacts to the kill alone
TRAPPING = """
trap 'echo notice >>{name}; exit {status}' USR1
echo run${{SLURM_RESTART_COUNT:-0}} >>{name}
for _ in $(seq 3000); do sleep 0.1; done
"""


def build_plugin() -> None:
    """Build the plugin for the Slurm that is installed here."""
    if installed_release() >= (26, 5):
        pytest.skip("the image of Slurm 26.05 has no plugin: Debian's mirror lacks the source package")
    made = subprocess.run(["make", "-C", str(ROOT), "plugin"], capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr[-2000:]


@pytest.fixture(scope="module", autouse=True)
def plugin() -> None:
    """Build it before a cluster is made."""
    build_plugin()


@pytest.fixture(scope="module")
def shared(plugin: None) -> Iterator[LocalCluster]:
    """Give the nodes that these tests share."""
    with LocalCluster(DEFINITION) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared: LocalCluster) -> LocalCluster:
    """Give them idle, with a marks file that has no mark."""
    shared.reset()
    put_marks(shared)
    return shared


def best_effort(cluster: LocalCluster, *options: str, wrap: str = "sleep 300", nodes: int = 1) -> int:
    """Submit a job that takes whole nodes, and wait until it runs."""
    job_id = cluster.sbatch("--gres=gpu:8", f"--nodes={nodes}", "--output=/dev/null", *options, wrap=wrap)
    cluster.wait_state(job_id, "RUNNING")
    return job_id


def full(cluster: LocalCluster) -> list[int]:
    """Fill the cluster with ordinary scripts, one a node."""
    return [best_effort(cluster) for _ in range(NODES)]


def trial(
    cluster: LocalCluster, *options: str, wrap: str = "sleep 300", nodes: int = 1, user: str | None = None
) -> int:
    """Submit a TE job that wants whole nodes."""
    where = () if any(option.startswith("--partition") for option in options) else ("--partition=te",)
    asked = ("--gres=gpu:8", f"--nodes={nodes}", "--output=/dev/null", *where, *options)
    return cluster.sbatch(*asked, wrap=wrap, user=user)


def others_trial(cluster: LocalCluster, *options: str, wrap: str = "sleep 300", nodes: int = 1) -> int:
    """Submit one of another user than the victims': what an own one costs counts in no limit but that user's."""
    return trial(cluster, *options, wrap=wrap, nodes=nodes, user=ordinary_user())


def passes(cluster: LocalCluster) -> int:
    """Return how many passes slurmctld's main scheduler has made; without any change it makes one a second here."""
    return int(re.findall(r"^\s*Total cycles:\s*(\d+)$", cluster.run("sdiag").stdout, re.MULTILINE)[0])


def let_it_look(cluster: LocalCluster) -> None:
    """Wait until slurmctld has made three passes more. The backfill scheduler makes none while nothing changes."""
    before = passes(cluster)
    cluster.wait_for(lambda: passes(cluster) >= before + 3, "three passes")


def let_it_try_again(cluster: LocalCluster) -> None:
    """Wait until slurmctld may preempt another job for the same TE job, and has made three passes more.

    It does not for KillWait and MessageTimeout, 10 s, since it preempted the first one.
    """
    over = time.time() + cluster.definition.kill_wait_s + 10 + 1
    cluster.wait_for(lambda: time.time() > over, "Slurm's own wait to be over")
    let_it_look(cluster)


def untouched(cluster: LocalCluster, jobs: list[int]) -> None:
    """Assert that these jobs are in their first run, and that none is in a grace period."""
    for job_id in jobs:
        job = cluster.job(job_id)
        assert (job["JobState"], job["Restarts"], job.get("PreemptTime")) == ("RUNNING", "0", "None"), job_id


def said(cluster: LocalCluster, since: int) -> list[str]:
    """Return what the plugin has logged since the log was so long, without time and prefix."""
    lines = cluster.slurmctld_log.read_text()[since:].splitlines()
    return [line.partition("preempt/tesched: ")[2] for line in lines if "preempt/tesched: " in line]


@pytest.mark.gate
def test_the_marked_job_alone_is_preempted_and_runs_again(cluster: LocalCluster) -> None:
    jobs = full(cluster)
    te = trial(cluster, wrap="true")
    let_it_look(cluster)
    untouched(cluster, jobs)
    put_marks(cluster, Mark(job_id=jobs[2]))
    cluster.wait_state(te, "RUNNING", "COMPLETED")
    cluster.wait_for(lambda: cluster.put_back(jobs) == [jobs[2]], "one requeue")
    cluster.wait_state(jobs[2], "RUNNING")
    untouched(cluster, [job_id for job_id in jobs if job_id != jobs[2]])
    assert cluster.put_back(jobs) == [jobs[2]]


@pytest.mark.gate
def test_marks_are_taken_in_their_order(cluster: LocalCluster) -> None:
    jobs = full(cluster)
    order = [jobs[1], jobs[3], jobs[0], jobs[2]]
    put_marks(cluster, *(Mark(job_id=job_id, prio=place) for place, job_id in enumerate(order)))
    for number in range(NODES):
        te = trial(cluster)
        cluster.wait_state(te, "RUNNING")
        assert sorted(cluster.put_back(jobs)) == sorted(order[: number + 1])


def test_a_te_job_of_two_nodes_takes_two_victims(cluster: LocalCluster) -> None:
    jobs = full(cluster)
    put_marks(cluster, *(Mark(job_id=job_id, prio=10 - place) for place, job_id in enumerate(jobs)))
    te = trial(cluster, nodes=2)
    cluster.wait_state(te, "RUNNING")
    assert sorted(cluster.put_back(jobs)) == jobs[2:]


@dataclass(frozen=True, kw_only=True)
class Bad:
    """A marks file by which no job is preemptable."""

    #: writes it, for the running jobs
    write: Callable[[LocalCluster, list[int]], None]
    #: the one line in slurmctld's log; None: nothing is wrong with it
    line: str | None


def _every(jobs: list[int], mark: Mark | None = None) -> tuple[Mark, ...]:
    """Return such a mark for each of the jobs."""
    like = mark if mark is not None else Mark(job_id=0)
    return tuple(replace(like, job_id=job_id) for job_id in jobs)


def _all(**values: int) -> Callable[[LocalCluster, list[int]], None]:
    """Return what marks all jobs in this way."""
    return lambda cluster, jobs: put_marks(cluster, *_every(jobs, Mark(job_id=0, **values)))  # type: ignore[arg-type]


def _none(cluster: LocalCluster, jobs: list[int]) -> None:
    put_marks(cluster)


def _missing(cluster: LocalCluster, jobs: list[int]) -> None:
    cluster.marks.unlink()


def _broken(cluster: LocalCluster, jobs: list[int]) -> None:
    put_text(cluster, marks_text(_every(jobs), barred=(70_000,)).replace("barred ", "barred x", 1))


def _cut_short(cluster: LocalCluster, jobs: list[int]) -> None:
    put_text(cluster, marks_text(_every(jobs)).partition("end")[0])


BAD = {
    "none": Bad(write=_none, line=None),
    "missing": Bad(write=_missing, line="No such file or directory"),
    "expired": Bad(
        write=_all(until_s=-1),
        line="all marks of {path} have expired; does tesched run?",
    ),
    "too early": Bad(write=_all(after_s=3000), line=None),
    "for another job": Bad(write=_all(preemptor=999_999), line=None),
    "too short a run": Bad(write=_all(least_run_s=3000), line=None),
    "no restart left": Bad(write=_all(max_restarts=0), line=None),
    "its user is barred": Bad(
        write=lambda cluster, jobs: put_text(cluster, marks_text(_every(jobs), barred=(os.getuid(), 70_000))),
        line=None,
    ),
    "a broken rule": Bad(write=_broken, line="{path}: line 2 is wrong"),
    "cut short": Bad(write=_cut_short, line="{path}: line 6 is wrong"),
    "of another user": Bad(
        write=lambda cluster, jobs: put_text(
            cluster, marks_text(_every(jobs)), owner=None if os.getuid() else pwd.getpwnam("nobody").pw_uid
        ),
        line="{path}: it belongs to another user than root, SlurmUser or tesched_marks_user",
    ),
    "that others may write": Bad(
        write=lambda cluster, jobs: put_text(cluster, marks_text(_every(jobs)), mode=0o666),
        line="{path}: others than its owner may write it",
    ),
    "of 100 MB": Bad(
        write=lambda cluster, jobs: put_text(cluster, marks_text(_every(jobs)), size=100_000_000),
        line="{path}: it is too large",
    ),
}


@pytest.mark.parametrize("case", gated(BAD, "missing"))
def test_by_a_mark_that_does_not_hold_no_job_is_preempted(cluster: LocalCluster, case: str) -> None:
    if case == "of another user" and os.getuid():
        pytest.skip("only root can give a file away")
    jobs = full(cluster)
    since = len(cluster.slurmctld_log.read_text())
    BAD[case].write(cluster, jobs)
    te = trial(cluster)
    let_it_look(cluster)
    untouched(cluster, jobs)
    assert cluster.state(te) == "PENDING"
    line = BAD[case].line
    lines = [one for one in said(cluster, since) if "in force" not in one]
    if line is None:
        assert lines == []
    else:
        assert len(lines) == 1, lines
        assert lines[0].startswith("no job is preemptable: ")
        assert lines[0].endswith(line.format(path=cluster.marks))
    # A good mark then holds at once.
    put_marks(cluster, Mark(job_id=jobs[0]))
    cluster.wait_state(te, "RUNNING")
    assert cluster.put_back(jobs) == [jobs[0]]


def test_a_job_is_preempted_as_often_as_its_mark_says(cluster: LocalCluster) -> None:
    jobs = full(cluster)
    cluster.run("scontrol", "requeue", str(jobs[0]))
    cluster.wait_for(lambda: cluster.put_back(jobs) == [jobs[0]], "its restart")
    cluster.wait_state(jobs[0], "RUNNING")
    put_marks(cluster, Mark(job_id=jobs[0], max_restarts=1), Mark(job_id=jobs[1], prio=9))
    te = trial(cluster)
    cluster.wait_state(te, "RUNNING")
    assert sorted(cluster.put_back(jobs)) == jobs[:2], "the first in the order has been restarted once already"
    put_marks(cluster, Mark(job_id=jobs[0], max_restarts=2), Mark(job_id=jobs[2], prio=9))
    another = trial(cluster)
    cluster.wait_state(another, "RUNNING")
    assert sorted(cluster.put_back(jobs)) == [jobs[0], jobs[0], jobs[1]]


@pytest.mark.parametrize("options", [("--begin=now+1hour",), ("--dependency=afterok:{be}",), ("--hold",)])
def test_for_a_te_job_that_cannot_start_no_job_is_preempted(cluster: LocalCluster, options: tuple[str, ...]) -> None:
    jobs = full(cluster)
    put_marks(cluster, *_every(jobs))
    te = trial(cluster, *(option.format(be=jobs[0]) for option in options))
    let_it_look(cluster)
    untouched(cluster, jobs)
    assert cluster.state(te) == "PENDING"


def test_a_job_that_is_no_te_job_preempts_none(cluster: LocalCluster) -> None:
    jobs = full(cluster)
    put_marks(cluster, *_every(jobs))
    ordinary = trial(cluster, "--partition=main", "--comment=tesched:te")
    let_it_look(cluster)
    untouched(cluster, jobs)
    # An administrator's word makes it one.
    cluster.run("scontrol", "update", f"jobid={ordinary}", "admincomment=ticket 7; tesched:te")
    cluster.wait_state(ordinary, "RUNNING")
    assert len(cluster.put_back(jobs)) == 1


def test_a_te_job_is_no_victim_and_comes_first_in_line(cluster: LocalCluster) -> None:
    jobs = full(cluster)
    first = trial(cluster)
    put_marks(cluster, Mark(job_id=jobs[0]))
    cluster.wait_state(first, "RUNNING")
    # The victim waits again, and so does another ordinary job, both submitted before the next TE job.
    waiting = trial(cluster, "--partition=main")
    put_marks(cluster, Mark(job_id=first, prio=0), Mark(job_id=jobs[1], prio=1))
    second = trial(cluster)
    cluster.wait_state(second, "RUNNING")
    assert (cluster.state(first), cluster.job(first)["Restarts"]) == ("RUNNING", "0")
    assert sorted(cluster.put_back(jobs)) == jobs[:2]
    assert cluster.state(waiting) == "PENDING"


@pytest.mark.parametrize("status", [99, 0])
def test_a_jobs_own_signal_is_sent(cluster: LocalCluster, status: int) -> None:
    script = TRAPPING.format(name="told", status=status)
    job_id = best_effort(cluster, "--signal=B:USR1", wrap=script, nodes=NODES)
    cluster.wait_for((cluster.shared / "told").exists, "its first line")
    put_marks(cluster, Mark(job_id=job_id, grace_s=30))
    te = trial(cluster, wrap="true")
    cluster.wait_state(te, "RUNNING", "COMPLETED")
    assert (cluster.shared / "told").read_text().split()[:2] == ["run0", "notice"]
    # 24.11 and 26.05 put it back whatever its exit status, 22.05 does not.
    if status == 99 or cluster.release >= (24, 11):
        cluster.wait_state(job_id, "RUNNING")
        assert cluster.job(job_id)["Restarts"] == "1"
    else:
        cluster.wait_state(job_id, "COMPLETED")


def test_a_job_in_its_grace_period_is_the_only_victim(cluster: LocalCluster) -> None:
    # It leaves by itself, when the test says so.
    first = best_effort(cluster, wrap=f"trap : TERM; until [ -e go ]; do sleep 0.1; done; exit {REQUEUE_EXIT}")
    others = [best_effort(cluster) for _ in range(NODES - 1)]
    put_marks(cluster, Mark(job_id=first, grace_s=3600), *(Mark(job_id=one, prio=9, grace_s=3600) for one in others))
    te = trial(cluster)
    cluster.wait_for(lambda: cluster.job(first)["PreemptTime"] != "None", "its grace period")
    # The daemon takes the mark away as soon as it sees that.
    put_marks(cluster, *(Mark(job_id=one, prio=9, grace_s=3600) for one in others))
    let_it_try_again(cluster)
    untouched(cluster, others)
    (cluster.shared / "go").touch()
    cluster.wait_state(te, "RUNNING")
    assert cluster.put_back([first, *others]) == [first]
    untouched(cluster, others)


def test_a_job_after_its_grace_period_is_the_only_victim(cluster: LocalCluster) -> None:
    jobs = full(cluster)
    put_marks(cluster, *(Mark(job_id=job_id, prio=place, grace_s=1) for place, job_id in enumerate(jobs)))
    te = trial(cluster)
    cluster.wait_state(te, "RUNNING")
    assert cluster.put_back(jobs) == [jobs[0]]
    untouched(cluster, jobs[1:])


def newest(cluster: LocalCluster, *, above: int) -> list[int]:
    """Return the ids of the jobs that are newer than this one."""
    return [number for job in cluster.jobs() if (number := int(job["JobId"])) > above]


@pytest.mark.gate
def test_a_job_that_slurm_cannot_requeue_is_not_killed(cluster: LocalCluster) -> None:
    fixed = [best_effort(cluster, "--no-requeue") for _ in range(2)]
    command = ["srun", "--gres=gpu:8", "--quiet", "sleep", "300"]
    asked = subprocess.Popen(command, env=cluster.env, cwd=cluster.shared, stderr=subprocess.DEVNULL)
    try:
        ids = cluster.wait_for(lambda: newest(cluster, above=fixed[-1]), "srun's job")
        cluster.wait_state(ids[0], "RUNNING")
        last = best_effort(cluster)
        marked = [*fixed, ids[0]]
        put_marks(cluster, *_every(marked))
        te = trial(cluster)
        let_it_look(cluster)
        untouched(cluster, [*marked, last])
        put_marks(cluster, *_every(marked), Mark(job_id=last, prio=9))
        cluster.wait_state(te, "RUNNING")
        untouched(cluster, marked)
    finally:
        cluster.run("scancel", "--state=RUNNING")
        asked.wait(60)


def test_marks_hold_after_a_restart_of_slurmctld(cluster: LocalCluster) -> None:
    jobs = full(cluster)
    put_marks(cluster, Mark(job_id=jobs[3]))
    cluster.stop_slurmctld()
    cluster.start_slurmctld()
    te = trial(cluster)
    cluster.wait_state(te, "RUNNING")
    assert cluster.put_back(jobs) == [jobs[3]]


def test_new_parameters_hold_after_a_reconfiguration(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(DEFINITION)
    jobs = full(cluster)
    put_marks(cluster, Mark(job_id=jobs[0]))
    te = trial(cluster, "--partition=main")
    let_it_look(cluster)
    untouched(cluster, jobs)
    conf = cluster.slurm_conf.read_text()
    cluster.slurm_conf.write_text(conf.replace("tesched_te_partition=dev:te", "tesched_te_partition=main"))
    cluster.run("scontrol", "reconfigure")
    let_it_look(cluster)
    untouched(cluster, jobs)  # all are TE jobs now, and a TE job is no victim
    cluster.slurm_conf.write_text(conf)
    cluster.run("scontrol", "reconfigure")
    cluster.run("scontrol", "update", f"jobid={te}", "partition=te")
    cluster.wait_state(te, "RUNNING")
    assert cluster.put_back(jobs) == [jobs[0]]


def test_a_qos_makes_a_te_job(make_cluster: MakeCluster) -> None:
    definition = replace(
        DEFINITION,
        groups=(NodeGroup(count=1),),
        preemption=NativePreemption(kind="tesched", parameters=("tesched_te_qos=dev:te",)),
        accounting=Accounting(qos=(Qos(name="be"), Qos(name="te")), accounts=(Account(name="lab", qos=("be", "te")),)),
    )
    cluster = make_cluster(definition)
    victim = best_effort(cluster, "--account=lab")
    put_marks(cluster, Mark(job_id=victim))
    other = trial(cluster, "--account=lab", "--qos=be")
    let_it_look(cluster)
    untouched(cluster, [victim])
    te = trial(cluster, "--account=lab", "--qos=te")
    cluster.wait_state(te, "RUNNING")
    assert cluster.put_back([victim]) == [victim]
    assert cluster.state(other) == "PENDING"


def test_a_job_that_is_enough_alone_goes_before_several_that_are_cheaper(make_cluster: MakeCluster) -> None:
    # With accounting Slurm counts GPUs; in CPUs these jobs are all alike.
    accounts = Accounting(accounts=(Account(name="lab"),))
    cluster = make_cluster(replace(DEFINITION, groups=(NodeGroup(count=2),), accounting=accounts))
    large = best_effort(cluster, "--account=lab")
    small = []
    for _ in range(2):
        job_id = cluster.sbatch("--account=lab", "--gres=gpu:4", "--output=/dev/null", wrap="sleep 300")
        cluster.wait_state(job_id, "RUNNING")
        small.append(job_id)
    put_marks(cluster, Mark(job_id=large, prio=9), *(Mark(job_id=job_id, prio=1) for job_id in small))
    cluster.wait_state(trial(cluster, "--account=lab"), "RUNNING")
    assert cluster.put_back([large, *small]) == [large]
    # And for what they are enough for, the cheaper one goes.
    put_marks(cluster, Mark(job_id=small[1], prio=1), Mark(job_id=small[0], prio=2))
    half = cluster.sbatch("--account=lab", "--gres=gpu:4", "--partition=te", "--output=/dev/null", wrap="sleep 300")
    cluster.wait_state(half, "RUNNING")
    assert cluster.put_back(small) == [small[1]]


@pytest.mark.gate
def test_a_wrong_line_is_void_and_the_others_hold(cluster: LocalCluster) -> None:
    jobs = full(cluster)
    since = len(cluster.slurmctld_log.read_text())
    # As the mark of a job with 65,535 restarts once was: its count of restarts is above 16 bits.
    first, *rest = _every(jobs)
    put_marks(cluster, replace(first, max_restarts=65_536), *rest)
    te = trial(cluster)
    cluster.wait_state(te, "RUNNING")
    (gone,) = cluster.put_back(jobs)
    assert gone != jobs[0]
    assert [one for one in said(cluster, since) if "in force" not in one] == [
        f"line 2 of {cluster.marks} is wrong: its job is not preemptable"
    ]


@pytest.mark.gate
def test_a_patient_trial_has_no_victim_whatever_the_marks_say(cluster: LocalCluster) -> None:
    jobs = full(cluster)
    put_marks(cluster, *(Mark(job_id=job_id, prio=place) for place, job_id in enumerate(jobs)))
    patient = trial(cluster, "--comment=te patience=99999")
    let_it_look(cluster)
    untouched(cluster, jobs)
    # Another one has a victim, and its node, though it came later.
    other = trial(cluster)
    cluster.wait_state(other, "RUNNING")
    assert cluster.put_back(jobs) == [jobs[0]]
    assert cluster.state(patient) == "PENDING"
    cluster.run("scontrol", "update", f"JobId={patient}", "Comment=te patience=never")
    cluster.wait_state(patient, "RUNNING")
    assert sorted(cluster.put_back(jobs)) == jobs[:2]
