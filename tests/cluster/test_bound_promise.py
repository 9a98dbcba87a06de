"""The bound in one case: TE jobs without end beside a BE job of a minute, on one node of a real Slurm, with B = 3."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import pytest
from tesched_db.engine import open_store
from tesched_db.finished_runs import LearnedRun, add
from tesched_predict.history import FinishedRun
from tesched_testcluster.harness.daemon_process import Daemon, daemon_of, run_tesched

from tests.cluster.admission_site import PLAIN, TRIAL, Site, site_of
from tests.cluster.conftest import MakeCluster

pytestmark = pytest.mark.slurm

WHOLE = ("--exclusive", "--mem=0")
RUN_S, SLOWDOWN = 60, 3
#: one poll, the requeue delay, and the second or two in which slurmctld starts a job and hears of its end
BESIDE_S = 5


@pytest.fixture
def site(make_cluster: MakeCluster) -> Iterator[Site]:
    with site_of(make_cluster) as one:
        yield one


def learn(site: Site, config: Path) -> None:
    """Have twenty jobs like the BE job run for as long as it does."""
    assert run_tesched("db", "upgrade", TESCHED_CONFIG=str(config)).returncode == 0
    ends = time.time() - 1000
    runs = [
        LearnedRun(
            run=FinishedRun(user=site.be_user, job_name="be", cpus=1, nodes=1, run_s=float(RUN_S), end_s=ends + number),
            name=f"{number}@{ends}",
            cluster=site.cluster.definition.name,
            source="sacct",
        )
        for number in range(20)
    ]
    engine = open_store(f"sqlite:///{config.parent / 'tesched.sqlite'}")
    add(engine, [runs])
    engine.dispose()


@pytest.mark.parametrize(
    ("known_by", "least"), [("nothing", 0), ("its-owners-word", 2), ("what-was-learned", 2)], ids=str
)
def test_te_jobs_without_end_keep_a_be_job_for_as_long_as_the_bound_allows(
    site: Site, known_by: str, least: int, record_property: Callable[[str, object], None]
) -> None:
    """Its run time is known by its owner's word, or from jobs like it; or not: then it may be no victim at all."""
    cluster = site.cluster
    flood: list[int] = []

    def waiting() -> list[int]:
        return [job_id for job_id in flood if cluster.state(job_id) == "PENDING"]

    def told(daemon: Daemon, job_id: int) -> bool:
        return f"job {be}" in daemon.ask("explain", str(job_id)).stdout

    def has_ended() -> bool:
        """Keep three TE jobs waiting, of 4 s each and a time limit of a minute."""
        flood.extend(site.submit(*TRIAL, *WHOLE, wrap="sleep 4") for _ in range(3 - len(waiting())))
        return cluster.state(be) == "COMPLETED"

    config = site.config()
    if known_by == "what-was-learned":
        learn(site, config)
    said = (f"--comment=run={RUN_S}",) if known_by == "its-owners-word" else ()
    with daemon_of(cluster, config) as daemon:
        be = site.submit(*PLAIN, *WHOLE, *said, "--job-name=be", wrap=f"sleep {RUN_S}", user=site.be_user)
        came = datetime.fromisoformat(cluster.wait_state(be, "RUNNING")["SubmitTime"])
        daemon.await_polls(cluster)
        cluster.wait_for(
            lambda: has_ended() or cluster.put_back([be]), "the BE job to be preempted, or end", timeout_s=90
        )
        cluster.wait_for(lambda: has_ended() or len(site.held()) >= 3, "TE jobs to wait for it", timeout_s=180)
        cluster.wait_for(
            lambda: all(told(daemon, job_id) for job_id in waiting()), "each that waits to be told for whom"
        )
        cluster.wait_for(has_ended, "the BE job to end", timeout_s=180)
        job = cluster.job(be)
        # A job that waits may have an expected start.
        begun = (cluster.job(job_id)["StartTime"] for job_id in {*flood} - {*waiting()})
        started = sum(start < job["EndTime"] for start in begun)
        took_s = (datetime.fromisoformat(job["EndTime"]) - came).total_seconds()
        record_property("figures", f"{took_s:.0f} s, {started} TE jobs, {job['Restarts']} preemptions")
    assert started >= least
    assert took_s <= SLOWDOWN * RUN_S + BESIDE_S
