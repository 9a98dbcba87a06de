"""Limits of accounts, users and QOS that `tesched ask` foretells, and the reason that Slurm gives to the same job."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
from sqlalchemy import Engine
from tesched_daemon.config import Config, SlurmConfig
from tesched_daemon.submission.asking import foretell
from tesched_daemon.submission.foretold import Foretold
from tesched_daemon.submission.sources import SubmissionError
from tesched_db import migrate
from tesched_db.engine import open_store
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import (
    Account,
    Accounting,
    ClusterDefinition,
    NodeGroup,
    PartitionDefinition,
    Qos,
)
from tesched_testcluster.harness.daemon_process import TESCHED, write_config
from tesched_testcluster.local import LocalCluster
from tesched_testcluster.users import ordinary_user

from tests.cluster.conftest import MakeCluster
from tests.cluster.test_ask import as_user

pytestmark = [pytest.mark.slurm, pytest.mark.release]

SLEEP = "exec sleep 1000"
#: what runs in each account, and what is submitted beside it
HOLDER = ("-c2", "--mem=100", "--gres=gpu:1", "--time=10", "--output=/dev/null")
JOB = ("-c2", "--mem=100", "--gres=gpu:1", "--output=/dev/null")


class Case(NamedTuple):
    """What is set once the holder runs: of its user, account or QOS, each of its own."""

    of: str
    limits: str
    options: tuple[str, ...] = ("--time=8",)
    #: further ones of what runs already
    of_holder: tuple[str, ...] = ()
    held: bool = True


WAITS = {
    "grp-cpu": Case("user", "GrpTRES=cpu=3"),
    "grp-gpu": Case("account", "GrpTRES=gres/gpu=1"),
    "grp-mem": Case("account", "GrpTRES=mem=150"),
    "grp-node": Case("account", "GrpTRES=node=1", ("--time=8", "-N2", "-n2")),
    "grp-jobs": Case("user", "GrpJobs=1"),
    "of-account": Case("account", "GrpJobs=1"),
    "max-jobs": Case("user", "MaxJobs=1"),
    "max-wall": Case("user", "MaxWall=5"),
    "of-job": Case("user", "MaxTRES=cpu=1"),
    "on-node": Case("user", "MaxTRESPerNode=cpu=1"),
    "minutes": Case("user", "MaxTRESMins=cpu=5"),
    "run-minutes": Case("account", "GrpTRESRunMins=cpu=30"),
    "first-of-two": Case("user", "MaxTRES=cpu=1 MaxJobs=1"),
    "q-user-cpu": Case("qos", "MaxTRESPerUser=cpu=3"),
    "q-user-gpu": Case("qos", "MaxTRESPerUser=gres/gpu=1"),
    "q-user-jobs": Case("qos", "MaxJobsPerUser=1"),
    "q-account-jobs": Case("qos", "MaxJobsPerAccount=1"),
    "q-account-cpu": Case("qos", "MaxTRESPerAccount=cpu=3"),
    "q-grp-jobs": Case("qos", "GrpJobs=1"),
    "q-grp-cpu": Case("qos", "GrpTRES=cpu=3"),
    "q-grp-mem": Case("qos", "GrpTRES=mem=150"),
    "q-max-wall": Case("qos", "MaxWall=5"),
    "q-least": Case("qos", "MinTRESPerJob=cpu=3"),
    "q-of-job": Case("qos", "MaxTRESPerJob=gres/gpu=0"),
    "q-unused": Case("qos", "MaxTRESPerUser=cpu=1", held=False),
    "of-partition": Case("partition", "MaxJobsPerUser=1"),
    "no-time": Case("user", "MaxTRESMins=cpu=1000", ("--partition=short",)),
    "no-time-run": Case("account", "GrpTRESRunMins=cpu=1000", ("--partition=short",)),
    "usual-time": Case("user", "MaxWall=5", ("--partition=usual",)),
    "above-max-time": Case("user", "MaxWall=500", ("--partition=short",)),
}
STARTS = {
    "enough": Case("user", "GrpTRES=cpu=4,gres/gpu=2,mem=200,node=2 GrpJobs=2 MaxJobs=2 MaxWall=8 MaxTRESMins=cpu=16"),
    "q-enough": Case("qos", "MaxTRESPerUser=cpu=4,gres/gpu=2 MaxJobsPerUser=2 GrpTRES=cpu=4 MinTRESPerJob=cpu=2"),
    # Requested in two ways, each of them two GPUs: Slurm gives two.
    "gpus-two-ways": Case("account", "GrpTRES=gres/gpu=3", ("--time=5", "-N2", "-n2", "--gpus=2")),
    "shortened": Case("user", "MaxWall=5 MaxTRESMins=cpu=10", ()),
    "usual-run": Case("account", "GrpTRESRunMins=cpu=1000", ("--partition=usual",)),
    "q-shortened": Case("qos", "MaxTRESMinsPerJob=cpu=10 flags=DenyOnLimit", ()),
    # Slurm puts what comes later on the same node, as much as its GPUs allow.
    "same-node": Case("user", "GrpTRES=node=1", ("--time=8", "--nodelist=n8"), ("--nodelist=n8",)),
    "submitted": Case("user", "MaxSubmitJobs=2"),
}
REFUSED = {
    "submit": Case("user", "MaxSubmitJobs=1"),
    "submit-account": Case("account", "GrpSubmitJobs=1"),
    "submit-array": Case("user", "MaxSubmitJobs=3", ("--time=8", "--array=0-2")),
    "q-submit": Case("qos", "MaxSubmitJobsPerUser=1"),
    "q-denies": Case("qos", "MaxTRESPerJob=cpu=1 flags=DenyOnLimit"),
}
CASES = WAITS | STARTS | REFUSED
LONE = "of-partition"


@pytest.fixture(scope="module")
def site() -> Iterator[LocalCluster]:
    """Give a cluster in which each case has its account and QOS, with a job running and the limit set."""
    qos = tuple(f"q-{name}" for name in CASES)
    definition = ClusterDefinition(
        groups=(NodeGroup(count=8),),
        partitions=(
            PartitionDefinition(name="main", default=True),
            PartitionDefinition(name="short", settings={"MaxTime": "10"}),
            PartitionDefinition(name="usual", settings={"MaxTime": "10", "DefaultTime": "8"}),
            PartitionDefinition(name="limited", settings={"QOS": "p-limited"}),
        ),
        accounting=Accounting(
            qos=(*(Qos(name=name) for name in qos), Qos(name="p-limited")),
            accounts=tuple(Account(name=name, users=("root", ordinary_user()), qos=("normal", *qos)) for name in CASES),
        ),
    )
    with LocalCluster(definition) as cluster:
        jobs = {name: submit(cluster, name, *HOLDER, *case.of_holder) for name, case in CASES.items() if case.held}
        for job in jobs.values():
            cluster.wait_state(job, "RUNNING")
        for name, case in CASES.items():
            limits = case.limits.split()
            which = {
                "user": ("user", "root", "set", *limits, "where", f"account={name}"),
                "account": ("account", name, "set", *limits),
                "qos": ("qos", f"q-{name}", "set", *limits),
                "partition": ("qos", "p-limited", "set", *limits),
            }
            cluster.run("sacctmgr", "-i", "modify", *which[case.of])
        cluster.wait_for(lambda: known(cluster), "slurmctld to know the limits")
        yield cluster


def known(cluster: LocalCluster) -> bool:
    """Check whether slurmctld has the limit that was set last."""
    shown = cluster.run("scontrol", "-o", "show", "assoc_mgr", "flags=qos").stdout
    return any(line.startswith("QOS=q-q-denies(") and "MaxTRESPJ=cpu=1" in line for line in shown.splitlines())


def words(name: str, *options: str) -> tuple[str, ...]:
    """Return the options of a case's job."""
    partition = ("--partition=limited",) if name == LONE else ()
    return (f"--account={name}", f"--qos=q-{name}", *partition, *options)


def submit(cluster: LocalCluster, name: str, *options: str) -> int:
    return cluster.sbatch(*words(name, *options), wrap=SLEEP)


@pytest.fixture
def ask(site: LocalCluster, tmp_path: Path) -> Iterator[Callable[[str], Foretold]]:
    """Give a function that foretells what becomes of a case's job."""
    url = f"sqlite:///{tmp_path}/store.sqlite"
    migrate.upgrade(url)
    engine: Engine = open_store(url)
    config = Config(slurm=SlurmConfig(client=ClientChoice.COMMANDS, conf=str(site.slurm_conf)))
    try:
        yield lambda name: foretell((*words(name, *JOB, *CASES[name].options), f"--wrap={SLEEP}"), config, engine)
    finally:
        engine.dispose()


def reason(cluster: LocalCluster, job: int) -> str:
    """Return the reason that Slurm gives to a waiting job; empty while it gives none, RUNNING once it runs."""
    seen = cluster.job(job)
    if seen["JobState"] == "RUNNING":
        return "RUNNING"
    return "" if seen["Reason"] in {"None", "Priority", "Resources"} else seen["Reason"]


def test_slurm_gives_the_reason_that_was_foretold(site: LocalCluster, ask: Callable[[str], Foretold]) -> None:
    foretold = {name: ask(name) for name in WAITS}
    jobs = {name: submit(site, name, *JOB, *WAITS[name].options) for name in WAITS}
    said = {name: site.wait_for(partial(reason, site, job), f"{name}'s reason") for name, job in jobs.items()}
    site.run("scancel", *map(str, jobs.values()))
    assert {name: word for name, word in said.items() if word == "RUNNING"} == {}
    first = {
        name: found.slurm_limits[0].rpartition("[")[2].rstrip("]") if found.slurm_limits else ""
        for name, found in foretold.items()
    }
    assert first == said
    assert {name: found.verdict for name, found in foretold.items() if found.verdict != "waits" or found.starts} == {}
    assert {found.reasons[0].code for found in foretold.values()} == {"limit"}
    assert {name: found.notes for name, found in foretold.items() if found.notes} == {}


def test_a_job_within_its_limits_starts_as_foretold(site: LocalCluster, ask: Callable[[str], Foretold]) -> None:
    for name, case in STARTS.items():
        found = ask(name)
        assert (found.starts, found.slurm_limits, found.slurm_limits_unread, found.notes) == (True, [], "", []), name
        job = submit(site, name, *JOB, *case.options)
        site.wait_state(job, "RUNNING")
        site.run("scancel", str(job))


@pytest.mark.parametrize("name", REFUSED)
def test_a_submission_that_slurm_refuses_is_said_with_its_limit(
    site: LocalCluster, ask: Callable[[str], Foretold], name: str
) -> None:
    with pytest.raises(SubmissionError, match=r"Slurm would not take it: .*accounting/QOS policy") as error:
        ask(name)
    limit = CASES[name].limits.split()[0]
    assert f"; {limit} of " in str(error.value)
    said = site.run(
        *("sbatch", *words(name, *JOB, *CASES[name].options), f"--wrap={SLEEP}"),
        check=False,
    )
    assert said.returncode != 0
    assert "accounting/QOS policy" in said.stderr


def test_an_ordinary_user_is_answered_on_the_own_limits(make_cluster: MakeCluster, one_client: ClientChoice) -> None:
    user = ordinary_user()
    accounting = Accounting(accounts=(Account(name="lab", users=("root", user)),))
    cluster = make_cluster(ClusterDefinition(groups=(NodeGroup(count=1),), accounting=accounting))
    folder = cluster.shared / "site"
    folder.mkdir()
    config = write_config(cluster, folder, one_client)
    cluster.run(str(TESCHED), "db", "upgrade", "--config", str(config))
    argv = (*as_user(user), str(TESCHED), "ask", "--config", str(config), *JOB, "--time=8", f"--wrap={SLEEP}")
    free = cluster.run(*argv, check=False)
    assert (free.returncode, "  limit" in free.stdout) == (0, False), free
    job = cluster.sbatch(*HOLDER, wrap=SLEEP, user=user)
    cluster.wait_state(job, "RUNNING")
    cluster.run("sacctmgr", "-i", "modify", "user", user, "set", "MaxJobs=1")
    cluster.wait_for(lambda: cluster.run(*argv, check=False).returncode, "the limit")
    asked = cluster.run(*argv, check=False)
    assert asked.returncode == 1
    text = f"  limit   MaxJobs=1 of user {user} in account lab: 1 running  [AssocMaxJobsLimit]"
    assert text in asked.stdout.splitlines()


def test_where_slurm_enforces_no_limits_one_line_says_so(cluster: LocalCluster, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.sqlite"
    migrate.upgrade(url)
    engine = open_store(url)
    config = Config(slurm=SlurmConfig(client=ClientChoice.COMMANDS, conf=str(cluster.slurm_conf)))
    found = foretell(("--wrap=true",), config, engine)
    engine.dispose()
    assert (found.starts, found.slurm_limits) == (True, [])
    assert found.slurm_limits_unread == "Slurm enforces none here (AccountingStorageEnforce)"
