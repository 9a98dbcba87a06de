"""Flags and factors of a QOS change what limits mean: which jobs would start again, and so may be victims."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import Account, Accounting, ClusterDefinition, NodeGroup, PartitionDefinition, Qos
from tesched_testcluster.users import ordinary_user

from tests.cluster.conftest import MakeCluster
from tests.cluster.gate import gated
from tests.cluster.victims import await_victims

pytestmark = [pytest.mark.slurm, pytest.mark.release]

WHOLE = ("-c32", "--mem=100", "--output=/dev/null", "--time=60")


class Case(NamedTuple):
    """What is set of a job's own QOS and association while it runs, and its partition."""

    returns: bool
    qos: str = ""
    user: str = ""
    partition: str = "main"


CASES = {
    "factor": Case(True, qos="LimitFactor=2", user="GrpTRES=cpu=16 MaxTRESPerJob=cpu=16"),
    "factor-half": Case(False, qos="LimitFactor=0.5", user="GrpTRES=cpu=32"),
    "factor-of-node": Case(False, qos="LimitFactor=2", user="MaxTRESPerNode=cpu=16"),
    "factor-of-minutes": Case(False, qos="LimitFactor=2", user="MaxTRESMins=cpu=1000"),
    "factor-of-qos": Case(False, qos="LimitFactor=2 MaxTRESPerJob=cpu=16"),
    "factor-of-partition": Case(True, user="GrpTRES=cpu=16", partition="factor"),
    "usage-less": Case(True, qos="UsageFactor=0.5 Flags=UsageFactorSafe", user="MaxWall=30 MaxTRESMins=cpu=960"),
    "usage-more": Case(False, qos="UsageFactor=2 Flags=UsageFactorSafe", user="MaxWall=60"),
    "usage-only": Case(False, qos="UsageFactor=0.5", user="MaxWall=30"),
    "first-tight": Case(False, qos="Flags=OverPartQOS MaxTRESPerJob=cpu=16", partition="loose"),
    "first-loose": Case(True, qos="Flags=OverPartQOS MaxTRESPerJob=cpu=32", partition="tight"),
    "second-tight": Case(True, qos="MaxTRESPerJob=cpu=16", partition="loose"),
    "second-loose": Case(False, qos="MaxTRESPerJob=cpu=32", partition="tight"),
    "time": Case(True, qos="Flags=PartitionTimeLimit", partition="short"),
    "time-none": Case(False, partition="short"),
    "fewest": Case(True, qos="Flags=PartitionMinNodes", partition="many"),
    "most": Case(True, qos="Flags=PartitionMaxNodes", partition="few"),
    "others": Case(True, qos="Flags=DenyOnLimit,NoDecay,NoReserve,RequiresReservation"),
}
#: A QOS of a partition's own, and what is set of it; what is set of the partition.
OF_PARTITION = {"factor": "LimitFactor=2", "loose": "MaxTRESPerJob=cpu=32", "tight": "MaxTRESPerJob=cpu=16"}
PARTITIONS = {"short": "maxtime=30", "many": "minnodes=2", "few": "maxnodes=1"}
FEW = ("factor", "usage-more", "first-tight", "time")


@pytest.mark.parametrize("names", gated((FEW, tuple(CASES)), FEW), ids=["few", "all"])
def test_flags_and_factors_of_its_qos_decide_which_limits_keep_a_job_from_being_a_victim(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice, names: tuple[str, ...]
) -> None:
    user = ordinary_user()
    qos = tuple(f"of-{name}" for name in names)
    definition = ClusterDefinition(
        groups=(NodeGroup(count=len(names) + ("most" in names)),),
        partitions=tuple(
            PartitionDefinition(name=name, default=name == "main") for name in ("main", *OF_PARTITION, *PARTITIONS)
        ),
        accounting=Accounting(
            qos=tuple(Qos(name=name) for name in (*qos, *OF_PARTITION)),
            # Accounts with the same users and rights are added in one call.
            accounts=tuple(Account(name=name, users=("root", user), qos=("normal", *qos)) for name in (*names, "te")),
        ),
    )
    cluster = make_cluster(definition)
    jobs: dict[str, int] = {}
    for name in names:
        where = (f"--account={name}", f"--qos=of-{name}", f"--partition={CASES[name].partition}")
        nodes = ("--nodes=2",) if name == "most" else ()
        jobs[name] = cluster.sbatch("--job-name=be", *WHOLE, *where, *nodes, wrap="sleep 1000", user=user)
    for job_id in jobs.values():
        cluster.wait_state(job_id, "RUNNING")
    for name, setting in OF_PARTITION.items():
        cluster.run("scontrol", "update", f"partitionname={name}", f"qos={name}")
        cluster.run("sacctmgr", "-i", "modify", "qos", name, "set", *setting.split())
    for name, setting in PARTITIONS.items():
        cluster.run("scontrol", "update", f"partitionname={name}", setting)
    for name in names:
        if of_qos := CASES[name].qos:
            cluster.run("sacctmgr", "-i", "modify", "qos", f"of-{name}", "set", *of_qos.split())
        if of_user := CASES[name].user:
            argv = ("sacctmgr", "-i", "modify", "user", user, "set", *of_user.split(), "where", f"account={name}")
            cluster.run(*argv)
    await_victims(
        cluster,
        tmp_path,
        one_client,
        {job_id: CASES[name].returns for name, job_id in jobs.items()},
        "--account=te",
        *WHOLE,
        user=user,
        reasons=("Assoc", "QOS", "Partition"),
    )
