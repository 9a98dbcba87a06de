"""Which of the jobs of a cluster become victims, and that those are the ones that Slurm starts again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.harness.daemon_process import running_daemon
from tesched_testcluster.local import LocalCluster


def await_victims(
    cluster: LocalCluster,
    store: Path,
    client: ClientChoice,
    jobs: Mapping[int, bool],
    *te_job: str,
    user: str,
    reasons: tuple[str, ...],
) -> None:
    """Assert that a daemon makes those of these jobs victims for which `jobs` says so, and no other job.

    As many TE jobs with the options `te_job` are submitted as there are jobs. Afterwards all jobs are put back in the
    queue of the empty cluster: the victims start, and the others wait for one of these `reasons`.
    """
    victims = sorted(job_id for job_id, is_victim in jobs.items() if is_victim)
    with running_daemon(cluster, store, client) as daemon:
        for _ in jobs:
            cluster.sbatch("--job-name=te", *te_job, wrap="sleep 1000", user=user)
        cluster.wait_for(lambda: sorted(cluster.put_back(jobs)) == victims, "the victims")
        daemon.await_polls(cluster)
        assert sorted(cluster.put_back(jobs)) == victims
    cluster.run("scancel", "--name=te")
    others = sorted(jobs.keys() - set(victims))
    for job_id in others:
        cluster.run("scontrol", "requeue", str(job_id))
    for job_id in victims:
        cluster.wait_state(job_id, "RUNNING")
    cluster.wait_for(
        lambda: all(cluster.job(job_id)["Reason"].startswith(reasons) for job_id in others),
        "the others to wait for a limit",
    )
