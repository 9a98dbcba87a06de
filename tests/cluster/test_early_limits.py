"""Early turns on a real Slurm that enforces limits (slurmdbd): as a poll, they go by the limits as they are now."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from tesched_core.model.actions import Action, Requeue
from tesched_testcluster.definition import Account, Accounting, ClusterDefinition, NodeGroup, Qos
from tesched_testcluster.local import LocalCluster

from tests.cluster.conftest import MakeCluster
from tests.cluster.early_site import NO_PASS, PASSES, large_site, schedule
from tests.cluster.test_early_as_poll import alike, both, done

pytestmark = pytest.mark.slurm


class Case(NamedTuple):
    """What is set of a job's user, account or QOS, each of its own, in which a job holds a node; what that means."""

    of: str
    limits: str
    #: how slurmctld shows it
    shown: str
    acts: bool


CASES = {
    "jobs": Case("user", "MaxJobs=1", "MaxJobs=1(", acts=False),
    "gpus": Case("qos", "MaxTRESPerUser=gres/gpu=9", "gres/gpu=9(", acts=False),
    "cpus": Case("account", "GrpTRES=cpu=17", "cpu=17(", acts=False),
    "time": Case("user", "MaxWall=4", "MaxWallPJ=4 ", acts=False),
    "enough": Case("user", "MaxJobs=30 GrpTRES=cpu=1000,gres/gpu=200 MaxWall=60", "cpu=1000(", acts=True),
    "none": Case("user", "", "", acts=True),
}


def words(name: str) -> tuple[str, ...]:
    return (f"--account={name}", f"--qos=q-{name}", "-N1", "-n1", "-c16", "--mem=1000", "--gpus-per-node=8")


@pytest.fixture
def limited(make_cluster: MakeCluster) -> LocalCluster:
    """Give a full cluster in which each case has an account and a QOS, with a job that runs; no limit is set."""
    qos = tuple(f"q-{name}" for name in CASES)
    accounting = Accounting(
        qos=tuple(Qos(name=name) for name in qos),
        accounts=tuple(Account(name=name, qos=("normal", *qos)) for name in CASES),
    )
    settings = {"SchedulerParameters": PASSES, "Licenses": "matlab:1"}
    cluster = make_cluster(
        ClusterDefinition(groups=(NodeGroup(count=len(CASES)),), accounting=accounting, settings=settings)
    )
    for name in CASES:
        cluster.wait_state(cluster.sbatch("--job-name=be", *words(name), wrap="exec sleep 1000"), "RUNNING")
    return cluster


def limit(cluster: LocalCluster, name: str) -> None:
    """Set the limits of a case, and wait until slurmctld knows them."""
    case = CASES[name]
    which = {
        "user": ("user", "root", "set", *case.limits.split(), "where", f"account={name}"),
        "account": ("account", name, "set", *case.limits.split()),
        "qos": ("qos", f"q-{name}", "set", *case.limits.split()),
    }
    cluster.run("sacctmgr", "-i", "modify", *which[case.of])
    show = ("scontrol", "-o", "show", "assoc_mgr", "flags=assoc,qos")
    cluster.wait_for(lambda: case.shown in cluster.run(*show).stdout, "slurmctld to know the limit")


def comes(cluster: LocalCluster, name: str) -> Callable[[], int]:
    return lambda: cluster.sbatch("--job-name=te-1", "--time=5", *words(name), wrap="exec sleep 1000")


def victims(actions: list[Action]) -> int:
    return sum(isinstance(action, Requeue) for action in actions)


@pytest.mark.gate
def test_a_limit_that_is_set_after_the_last_poll_keeps_a_trial_from_a_victim_and_none_that_leaves_enough_does(
    limited: LocalCluster, tmp_path: Path
) -> None:
    schedule(limited, PASSES, NO_PASS)
    for name, case in CASES.items():

        def happens(name: str = name, case: Case = case) -> None:
            if case.limits:
                limit(limited, name)
            comes(limited, name)()

        early, polled = both(limited, tmp_path / name, happens)
        assert alike(early) == alike(polled), name
        assert bool(victims(early)) is case.acts, name
        limited.run("scancel", "--jobname=te-1")


def test_once_slurm_has_named_a_limit_a_trial_has_no_victim(limited: LocalCluster, tmp_path: Path) -> None:
    limit(limited, "jobs")
    with large_site(limited, tmp_path) as loop:
        assert loop.turn().early
        trial = comes(limited, "jobs")()
        limited.wait_for(lambda: limited.job(trial)["Reason"] != "None", "Slurm to have considered it")
        assert "MaxJobs" in limited.job(trial)["Reason"]
        assert loop.early_turn() is None
        assert not loop.turn(asked=True).outcomes


@pytest.mark.gate
@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize("of", ["limit", "licence"])
def test_the_reason_that_a_trial_has_from_its_submission_on_is_no_word_on_limits_or_licences(
    limited: LocalCluster, tmp_path: Path, of: str, *, early: bool
) -> None:
    name = "gpus" if of == "limit" else "none"
    if of == "limit":
        limit(limited, name)
    else:
        limited.wait_state(limited.sbatch("--job-name=be", "-n1", "--licenses=matlab:1", wrap="sleep 1000"), "RUNNING")
    schedule(limited, PASSES, NO_PASS)
    options = (f"--account={name}", f"--qos=q-{name}", "--exclusive", "-N1", "--gpus-per-node=8", "--time=5")
    with large_site(limited, tmp_path) as loop:
        assert loop.turn().early
        trials: list[int] = []

        def comes() -> bool:
            """Submit it, once more if slurmctld has made the pass that it may make after it has read slurm.conf."""
            for trial in trials:
                limited.run("scancel", str(trial))
            licence = () if of == "limit" else ("--licenses=matlab:1",)
            trials[:] = [limited.sbatch("--job-name=te-1", *options, *licence, wrap="sleep 1000")]
            return limited.job(trials[0])["Reason"] == "Resources"

        limited.wait_for(comes, "a trial of which Slurm says Resources at once")
        assert not victims(done(loop.early_turn() if early else loop.turn(asked=True)))
        schedule(limited, NO_PASS, PASSES)
        limited.stop_slurmctld()  # one that runs reads the time between its passes in a pass alone
        limited.start_slurmctld()
        limited.wait_for(
            lambda: limited.job(trials[0])["Reason"] in {"QOSMaxGRESPerUser", "Licenses"}, "Slurm to have considered it"
        )
        assert not victims(done(loop.turn(asked=True)))
