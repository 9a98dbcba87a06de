"""A site as it is usual: the cluster, its limits and the daemon's configuration, for random users beside an honest one.

Six nodes of 32 CPUs and 4 GPUs. The partition `main` takes best-effort jobs, and lets a user run eight of them on two
GPUs (the QOS `normal`). `debug` has a higher PriorityTier, a limit of five minutes, and a QOS by which a user may run
two jobs on two GPUs; its jobs are trial and error. One account computes in the background without a limit: its jobs
fill the cluster, so that each TE job needs a victim. What a user can make others do is bounded by [guard]; its numbers
are for a soak of minutes, in which a user starts as many TE jobs as else in a day. Users may say `te` in the comment of
a job of two minutes.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from tesched_slurm.client_choice import ClientChoice

from tesched_testcluster.cluster import ClusterError
from tesched_testcluster.definition import Account, Accounting, ClusterDefinition, NodeGroup, PartitionDefinition, Qos
from tesched_testcluster.local import LocalCluster
from tesched_testcluster.users import ordinary_users

NODES, GPUS = 6, 4
#: jobs that fill the cluster, as many again wait
FILL = 2 * NODES * GPUS
HOSTILE = 3
MIN_RUN_TIME_S = 5.0

CONFIG = """
mode = "enforce"
[store]
url = "sqlite:///{store}"
[slurm]
client = "{client}"
conf = "{slurm_conf}"
[loop]
poll_interval_s = 1.0
socket = ""
[policy]
te = "fitgpp"
[guard]
max_preemptions_per_job = 1000
max_lost_runs_per_job = 1000
min_run_time_s = {min_run_time_s}
cool_down_s = 30
# A TE job needs a victim at once, so that its wait shows what the daemon does.
wait_for_free_s = 0
max_preemptions_per_hour = 2000
max_preemptions_per_user_hour = 2000
max_preemptions_per_account_hour = 2000
max_preemptions_per_node_hour = 1000
max_victims_for_te_user_hour = 500
max_victims_for_te_account_hour = 2000
[classes]
default_grace_period_s = 10
[classes.user_word]
may_say_te = true
within = {{ max_time_limit_s = 120, max_gpus = 2 }}
max_grace_period_s = 60
[[classes.rules]]
name = "debug"
job_class = "te"
match = {{ partitions = ["debug"], max_time_limit_s = 300 }}
"""


def definition() -> ClusterDefinition:
    """Define the cluster."""
    users = tuple(ordinary_users(HOSTILE + 1))
    debug = {"QOS": "debug"}
    return ClusterDefinition(
        groups=(NodeGroup(count=NODES, gres={"gpu": GPUS}, features=("fast", "big")),),
        partitions=(
            PartitionDefinition(name="main", default=True, priority_tier=1),
            PartitionDefinition(name="debug", priority_tier=10, max_time="5", settings=debug),
        ),
        min_job_age_s=60,
        accounting=Accounting(
            qos=(Qos(name="debug"), Qos(name="background")),
            accounts=(
                Account(name="lab", users=users, qos=("normal",)),
                Account(name="base", users=("root",), qos=("background",)),
            ),
        ),
        settings={"Licenses": "matlab:4,fluent:2"},
    )


#: sacctmgr's words for the limits of each partition's QOS
_LIMITS = {
    "debug": ("debug", "MaxJobsPU=2", "MaxTRESPU=gres/gpu=2,cpu=8,node=2,mem=32G"),
    "main": ("normal", "MaxJobsPU=8", "MaxTRESPU=gres/gpu=2,cpu=16,node=4,mem=64G"),
}


def set_limits(cluster: LocalCluster) -> None:
    """Give the QOS their limits for each user, and wait until slurmctld keeps to them."""
    for qos, *limits in _LIMITS.values():
        # slurmdbd knows gres/gpu only once slurmctld has registered it.
        cluster.run("sacctmgr", "--immediate", "modify", "qos", qos, "set", *limits)
    # slurmdbd does not reach every release's slurmctld here, but is queried by each that starts.
    cluster.stop_slurmctld()
    cluster.start_slurmctld()
    cluster.wait_idle()
    for partition in _LIMITS:
        options = (f"--partition={partition}", "--gres=gpu:3", "--time=1", "--mem=100", "--output=/dev/null")
        job_id = cluster.sbatch(*options, wrap="exec sleep 60", user=ordinary_users(1)[0])
        cluster.wait_for(partial(_is_over_its_limit, cluster, job_id), f"the limits of {partition}")
        cluster.run("scancel", str(job_id))


def _is_over_its_limit(cluster: LocalCluster, job_id: int) -> bool:
    job = cluster.job(job_id)
    if job["JobState"] != "PENDING":
        raise ClusterError(f"slurmctld does not keep to a limit of the site: job {job_id} is {job['JobState']}")
    return job["Reason"].startswith("QOSMax")


def fill_up(cluster: LocalCluster) -> None:
    """Submit the jobs of the background, and wait until they hold all GPUs."""
    every = ("-A", "base", "-J", "background", "--gres=gpu:1", "--mem=100", "--requeue", "--output=/dev/null")
    jobs = [cluster.sbatch(*every, wrap="exec sleep 100000") for _ in range(FILL)]

    def running() -> int:
        return cluster.run("squeue", "-h", "-t", "R", "-o", "%i").stdout.count("\n")

    cluster.wait_for(lambda: running() >= min(len(jobs), NODES * GPUS), "the background to run")


def write_config(cluster: LocalCluster, folder: Path, client: ClientChoice) -> Path:
    """Write the daemon's configuration."""
    config = folder / "tesched.toml"
    values = {"client": client, "slurm_conf": cluster.slurm_conf, "min_run_time_s": MIN_RUN_TIME_S}
    config.write_text(CONFIG.format(store=folder / "tesched.sqlite", **values), encoding="utf-8")
    return config
