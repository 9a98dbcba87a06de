"""The observer says what a real Slurm was given: expected values are worked out by hand."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from tesched_core.model.cluster import Job, JobState
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_core.placement.capacity_of import capacity_of
from tesched_core.placement.demand import demand_of
from tesched_slurm.clients import Client
from tesched_testcluster.definition import ClusterDefinition, NodeGroup
from tesched_testcluster.harness.slurm_clients import Connect
from tesched_testcluster.local import LocalCluster

pytestmark = [pytest.mark.slurm, pytest.mark.release]

MakeCluster = Callable[[ClusterDefinition | None], LocalCluster]

SLEEP = "exec sleep 100"


def look(client: Client) -> Snapshot:
    seen = client.observer.observe()
    assert isinstance(seen, Snapshot), seen
    return seen


def job(client: Client, job_id: int) -> Job:
    return look(client).jobs[JobId(job_id)]


def running(cluster: LocalCluster, client: Client, *options: str) -> Job:
    job_id = cluster.sbatch(*options, wrap=SLEEP)
    # squeue, since a forged name must not fool the test itself.
    look_up = ("squeue", "-h", "-j", str(job_id), "-o", "%T")
    cluster.wait_for(lambda: cluster.run(*look_up).stdout == "RUNNING\n", "the job to run")
    return job(client, job_id)


def shares(seen: Job) -> list[tuple[str, int, int, tuple[tuple[str, int], ...]]]:
    return [(share.node, share.tres.cpus, share.tres.mem_mib, share.tres.gres) for share in seen.allocation]


@pytest.mark.gate
def test_a_queue_that_has_never_had_a_job(make_cluster: MakeCluster, connect: Connect) -> None:
    made = make_cluster(ClusterDefinition(groups=(NodeGroup(count=1),)))
    assert not look(connect(made)).jobs


def test_a_probe_sees_that_slurm_has_considered_a_job(make_cluster: MakeCluster, connect: Connect) -> None:
    # With slurm.conf's own parameters the first pass over a new job comes seconds after its submission; here later.
    later = {"SchedulerParameters": "batch_sched_delay=20"}
    made = make_cluster(ClusterDefinition(groups=(NodeGroup(count=1),), scheduling="stock", settings=later))
    watcher = connect(made).watcher
    held = made.sbatch("--hold", wrap=SLEEP)
    new = made.sbatch(wrap=SLEEP)
    assert not watcher.looked_at(JobId(new))
    assert watcher.looked_at(JobId(held))
    assert watcher.looked_at(JobId(999_999))
    made.wait_for(lambda: watcher.looked_at(JobId(new)), "slurmctld to look at the job")
    assert made.job(new)["JobState"] != "PENDING"


def test_a_probe_sees_a_run_end(cluster: LocalCluster, connect: Connect) -> None:
    watcher = connect(cluster).watcher
    runs, suspended = (cluster.sbatch(wrap="exec sleep 1000") for _ in range(2))
    # The last task of an array bears the array's id: what Slurm says of that is of all tasks.
    (array,) = [cluster.sbatch("--array=1-2%1", wrap="exec sleep 1000")]
    for job_id in (runs, suspended, f"{array}_1"):
        cluster.wait_state(job_id, "RUNNING")
    cluster.run("scontrol", "suspend", str(suspended))
    assert not any(watcher.has_ended(JobId(job_id)) for job_id in (runs, suspended, array))
    assert watcher.has_ended(JobId(999_999))
    cluster.run("scancel", "--signal=KILL", "--full", str(runs))
    cluster.wait_for(lambda: watcher.has_ended(JobId(runs)), "its end to be seen")


@pytest.mark.gate
def test_settings_are_read(cluster: LocalCluster, connect: Connect) -> None:
    client = connect(cluster)
    settings = look(client).settings
    assert settings.cluster_name == "tesched"
    assert settings.release.startswith(f"{cluster.release[0]}.{cluster.release[1]:02}")
    assert (settings.kill_wait_s, settings.requeue_exit, settings.min_job_age_s) == (2, frozenset({99}), 300)
    assert (settings.priority_type, settings.preempt_type) == ("priority/basic", "preempt/none")
    assert settings.memory_is_shared_out


@pytest.mark.gate
def test_plain_job_is_read(cluster: LocalCluster, connect: Connect) -> None:
    client = connect(cluster)
    before = time.time()
    seen = running(cluster, client, "-J", "two words", "--comment=a b=c", "-t", "1-02:00:00", "--gres=gpu:2", "-c", "3")
    assert (seen.name, seen.user, seen.comment, seen.partitions) == ("two words", "root", "a b=c", ("main",))
    assert (seen.state, seen.batch, seen.requeueable, seen.restarts) == (JobState.RUNNING, True, True, 0)
    assert seen.time_limit_s == 26 * 3600
    assert shares(seen) == [("n1", 3, 3000, (("gpu", 2),))]
    assert (seen.request.cpus, seen.request.cpus_per_task, seen.request.mem_per_cpu_mib) == (3, 3, 1000)
    assert seen.request.gres_per_node == (("gpu", 2),)
    assert before - 2 <= seen.submit_time <= time.time()
    assert seen.start_time is not None
    assert seen.submit_time <= seen.start_time <= time.time()
    assert seen.end_time is None


@pytest.mark.gate
def test_array_is_read(cluster: LocalCluster, connect: Connect) -> None:
    client = connect(cluster)
    array = cluster.sbatch("--array=0-9%2", wrap=SLEEP)

    def started() -> dict[str, Job]:
        seen = {each.label: each for each in look(client).jobs.values() if each.array_job_id == array}
        # For a moment slurmctld shows both tasks, and the rest still with all indices.
        is_split = {f"{array}_1", f"{array}_[2-9%2]"} <= seen.keys()
        return seen if is_split and seen[f"{array}_1"].state is JobState.RUNNING else {}

    seen = cluster.wait_for(started, "two tasks to run, and the rest to be without them")
    assert set(seen) == {f"{array}_0", f"{array}_1", f"{array}_[2-9%2]"}
    rest = seen[f"{array}_[2-9%2]"]
    assert (rest.job_id, rest.array_task_id, rest.array_tasks) == (array, None, "2-9%2")
    assert (rest.state, rest.allocation) == (JobState.PENDING, ())
    task = seen[f"{array}_1"]
    assert (task.array_task_id, task.array_tasks) == (1, "")
    assert task.nodes == ("n1",)


@pytest.mark.gate
def test_uneven_job_is_read(cluster: LocalCluster, connect: Connect) -> None:
    client = connect(cluster)
    seen = running(cluster, client, "-N2", "-n6", "--gpus=4")
    assert seen.nodes == ("n1", "n2")
    assert sum(share.tres.cpus for share in seen.allocation) == 6
    assert sum(share.tres.gpus for share in seen.allocation) == 4
    # Slurm fills the first node, and leaves one task and one GPU for the second.
    assert shares(seen) == [("n1", 5, 5000, (("gpu", 3),)), ("n2", 1, 1000, (("gpu", 1),))]
    assert (seen.request.min_nodes, seen.request.max_nodes, seen.request.cpus) == (2, 2, 6)
    assert seen.request.gres_per_job == (("gpu", 4),)


@pytest.mark.gate
def test_typed_gpus_and_features(make_cluster: MakeCluster, connect: Connect) -> None:
    made = make_cluster(
        ClusterDefinition(groups=(NodeGroup(count=1, gres={"gpu:a100": 4, "gpu:v100": 2}, features=("ib", "fast")),))
    )
    client = connect(made)
    seen = running(made, client, "--gres=gpu:a100:3", "-C", "ib&fast")
    assert seen.request.gres_per_node == (("gpu:a100", 3),)
    assert seen.request.features == "ib&fast"
    assert shares(seen) == [("n1", 1, 1000, (("gpu", 3), ("gpu:a100", 3)))]
    node = look(client).nodes["n1"]
    assert node.total.gres == (("gpu", 6), ("gpu:a100", 4), ("gpu:v100", 2))
    assert node.features == {"ib", "fast"}


@pytest.mark.gate
def test_exclusive_job_is_read(cluster: LocalCluster, connect: Connect) -> None:
    client = connect(cluster)
    seen = running(cluster, client, "--exclusive")
    assert seen.request.exclusive
    assert shares(seen) == [("n1", 32, 32000, (("gpu", 8),))]


@pytest.mark.gate
def test_what_pending_jobs_ask_for(cluster: LocalCluster, connect: Connect) -> None:
    client = connect(cluster)
    span = cluster.sbatch("-N", "2-4", "--mem=2G", "--hold", wrap=SLEEP)
    listed = cluster.sbatch("-w", "n[2-3]", "-x", "n5", "-N2", "--hold", wrap=SLEEP)
    seen = look(client).jobs
    request = seen[JobId(span)].request
    assert (request.min_nodes, request.max_nodes) == (2, 4)
    assert (request.mem_per_node_mib, request.mem_per_cpu_mib) == (2048, None)
    request = seen[JobId(listed)].request
    assert (request.required_nodes, request.excluded_nodes) == (("n2", "n3"), ("n5",))


@pytest.mark.gate
def test_default_memory_of_gpus_and_all_memory_are_distinguished_where_slurm_counts_them(
    make_cluster: MakeCluster, connect: Connect
) -> None:
    made = make_cluster(
        ClusterDefinition(
            groups=(NodeGroup(count=1, gres={"gpu": 8}),),
            settings={"DefMemPerGPU": "700"},
            def_mem_per_cpu_mib=None,
        )
    )
    all_gpus = made.sbatch("--gpus=8", "--mem=5600", wrap=SLEEP)
    made.wait_state(all_gpus, "RUNNING")
    asked = {"": 1400, "--mem=0": 0, "--mem=500": 500, "--mem=3000": 3000, "--mem-per-gpu=600": 1200}
    held = [made.sbatch("--hold", "--gpus=2", "-N1", *option.split(), wrap=SLEEP) for option in asked]
    looked_at = [made.sbatch("--gpus=2", "-N1", *option.split(), wrap=SLEEP) for option in asked]
    client = connect(made)
    made.wait_for(lambda: job(client, looked_at[-1]).reason in {"Resources", "Priority"}, "slurmctld to look at them")
    snapshot = look(client)
    capacity = capacity_of(snapshot)
    whole = snapshot.nodes["n1"].total.mem_mib
    for ids in (held, looked_at):
        declined = replace(snapshot, declined=frozenset(map(JobId, ids)))
        takes, more = (
            [int(demand_of(one.jobs[JobId(job_id)], one, capacity).takes[0, 1]) for job_id in ids]
            for one in (snapshot, declined)
        )
        for option, taken, then in zip(asked, takes, more, strict=True):
            assert then >= taken >= (asked[option] or 1400), (option, taken, then)
            assert then >= (asked[option] or whole), (option, then)
        assert (takes[0], takes[-1], more[-1]) == (1400, 1200, 1200)
        # 22.05 has the same record of none and of --mem=0, of which the former is tried first.
        assert takes[1] == (whole if made.release >= (26, 5) else 1400)


@pytest.mark.gate
def test_reasons_of_waiting_jobs_are_read(cluster: LocalCluster, connect: Connect) -> None:
    client = connect(cluster)
    before = time.time()
    held = cluster.sbatch("--hold", "--nice=7", "--no-requeue", wrap=SLEEP)
    later = cluster.sbatch("--begin=now+1hour", wrap=SLEEP)
    after = cluster.sbatch(f"--dependency=afterok:{held}", wrap=SLEEP)
    seen = look(client).jobs
    first = seen[JobId(held)]
    assert (first.held, first.priority, first.reason, first.nice) == (True, 0, "JobHeldUser", 7)
    assert not first.requeueable
    second = seen[JobId(later)]
    assert second.reason == "BeginTime"
    assert second.eligible_time is not None
    assert int(before) <= second.eligible_time - 3600 <= time.time()
    assert second.start_time is None
    third = seen[JobId(after)]
    assert third.reason == "Dependency"
    assert third.dependency == f"afterok:{held}(unfulfilled)"


@pytest.mark.gate
def test_reservation_is_read(cluster: LocalCluster, connect: Connect) -> None:
    client = connect(cluster)
    cluster.create_reservation("r1", nodes="n[6-7]", duration="60")
    seen = running(cluster, client, "--reservation=r1")
    assert (seen.reservation, seen.nodes) == ("r1", ("n6",))
    reservation = look(client).reservations["r1"]
    assert reservation.nodes == {"n6", "n7"}
    assert reservation.users == {"root"}
    assert reservation.end_time - reservation.start_time == 3600


@pytest.mark.gate
def test_nodes_are_read(cluster: LocalCluster, connect: Connect) -> None:
    client = connect(cluster)
    cluster.drain_node("n8", "bad fan State=IDLE [a@b]")
    cluster.run("scontrol", "update", "nodename=n7", "state=down", "reason=broken")
    nodes = look(client).nodes
    assert (nodes["n8"].available, nodes["n8"].reason) == (False, "bad fan State=IDLE [a@b]")
    assert "DRAIN" in nodes["n8"].flags
    assert (nodes["n7"].available, nodes["n7"].state, nodes["n7"].reason) == (False, "DOWN", "broken")
    assert nodes["n1"].available
    assert nodes["n1"].total.as_mapping() == {"cpu": 32, "mem_mib": 256000, "gpu": 8}
    assert nodes["n1"].partitions == {"main", "debug"}


@pytest.mark.gate
def test_partitions_are_read(cluster: LocalCluster, connect: Connect) -> None:
    client = connect(cluster)
    cluster.run("scontrol", "update", "partitionname=debug", "state=down")
    seen = look(client).partitions
    assert (seen["main"].state, seen["main"].default, seen["main"].max_time_s) == ("UP", True, None)
    assert (seen["debug"].state, seen["debug"].default) == ("DOWN", False)
    assert seen["main"].nodes == {f"n{number}" for number in range(1, 9)}


@pytest.mark.gate
@pytest.mark.parametrize(
    "name",
    [
        "x Priority=5 UserId=bob(1) GroupId=x(1) MCS_label= Command=/x",
        "x Priority=5 JobState=COMPLETED",
        " a  b ",
        "a\nJobId=99 JobName=x",
    ],
)
def test_a_name_forges_nothing(cluster: LocalCluster, connect: Connect, name: str) -> None:
    client = connect(cluster)
    seen = running(cluster, client, "-J", name, "--comment=x UserId=bob(1) GroupId=x(1) MCS_label= Restarts=9")
    assert (seen.name, seen.user, seen.state, seen.restarts) == (name, "root", JobState.RUNNING, 0)
    assert seen.priority > 5
    assert seen.nodes == ("n1",)


@pytest.mark.gate
def test_a_name_takes_the_place_of_no_other_job(cluster: LocalCluster, connect: Connect) -> None:
    client = connect(cluster)
    meant = running(cluster, client)
    rest = "UserId=bob(1) GroupId=x(1) MCS_label= Priority=5 JobState=PENDING Command=/x"
    name = f"a {rest}\nJobId={meant.job_id} JobName=b {rest}"
    forging = running(cluster, client, "-J", name)
    assert (forging.name, forging.user, forging.state) == (name, "root", JobState.RUNNING)
    again = job(client, meant.job_id)
    assert (again.name, again.user, again.state, again.nodes) == (meant.name, "root", JobState.RUNNING, ("n1",))


@pytest.mark.gate
def test_a_suspended_job_keeps_its_resources(cluster: LocalCluster, connect: Connect) -> None:
    client = connect(cluster)
    seen = running(cluster, client, "--gres=gpu:1")
    cluster.run("scontrol", "suspend", str(seen.job_id))
    suspended = job(client, seen.job_id)
    assert suspended.state is JobState.SUSPENDED
    assert shares(suspended) == [("n1", 1, 1000, (("gpu", 1),))]


@pytest.mark.gate
def test_finished_job_is_read(cluster: LocalCluster, connect: Connect) -> None:
    client = connect(cluster)
    job_id = cluster.sbatch(wrap="exit 3")
    cluster.wait_state(job_id, "FAILED")
    seen = job(client, job_id)
    assert (seen.state, seen.exit_status, seen.exit_signal, seen.allocation) == (JobState.FAILED, 3, 0, ())
    assert seen.end_time is not None
    assert seen.ran_on == tuple(cluster.job(job_id)["NodeList"].split(","))


@pytest.mark.parametrize("ran_before", [False, True])
def test_a_job_that_ended_in_the_queue_ran_nowhere(cluster: LocalCluster, connect: Connect, ran_before: bool) -> None:
    client = connect(cluster)
    job_id = cluster.sbatch("--requeue", *([] if ran_before else ["--hold"]), wrap="exec sleep 1000")
    if ran_before:
        cluster.wait_state(job_id, "RUNNING")
        cluster.run("scontrol", "requeuehold", str(job_id))
        cluster.wait_state(job_id, "PENDING")
    cluster.run("scancel", str(job_id))
    cluster.wait_state(job_id, "CANCELLED")
    assert job(client, job_id).ran_on == ()


@pytest.mark.gate
def test_a_job_killed_by_a_signal(cluster: LocalCluster, connect: Connect) -> None:
    client = connect(cluster)
    job_id = cluster.sbatch(wrap="kill -9 $$")
    cluster.wait_state(job_id, "FAILED")
    assert job(client, job_id).exit_signal == 9


@pytest.mark.gate
def test_interactive_job_is_read(cluster: LocalCluster, connect: Connect) -> None:
    client = connect(cluster)
    cluster.run("salloc", "--no-shell", "-J", "shell")
    (seen,) = (each for each in look(client).jobs.values() if each.state is JobState.RUNNING)
    assert (seen.name, seen.batch, seen.nodes) == ("shell", False, ("n1",))


@pytest.mark.gate
def test_heterogeneous_job_is_read(cluster: LocalCluster, connect: Connect) -> None:
    client = connect(cluster)
    said = cluster.run("sbatch", "--parsable", "-J", "two", f"--wrap={SLEEP}", ":", "--gpus=1").stdout
    first = int(said)
    cluster.wait_state(first, "RUNNING")
    seen = look(client).jobs
    parts = [seen[JobId(first)], seen[JobId(first + 1)]]
    assert [(part.het_job_id, part.het_offset, part.label) for part in parts] == [
        (first, 0, f"{first}+0"),
        (first, 1, f"{first}+1"),
    ]
    # Slurm gives the second component no name option of the first's.
    assert parts[0].name == "two"
    assert parts[1].request.gres_per_job == (("gpu", 1),)


@pytest.mark.gate
def test_waiting_tasks_of_an_array_that_have_a_record_of_their_own(cluster: LocalCluster, connect: Connect) -> None:
    client = connect(cluster)
    array = cluster.sbatch("--array=0-3", "--begin=now+1hour", wrap=SLEEP)
    cluster.run("scontrol", "update", f"jobid={array}_2", "nice=5")
    seen = {each.label: each.nice for each in look(client).jobs.values() if each.array_job_id == array}
    assert seen == {f"{array}_2": 5, f"{array}_[0-1,3]": 0}
