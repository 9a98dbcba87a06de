"""Jobs whose account has used up what it may use are no victims: they would wait until its usage is less."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import Account, Accounting, ClusterDefinition, NodeGroup, Qos
from tesched_testcluster.users import ordinary_user

from tests.cluster.conftest import MakeCluster
from tests.cluster.victims import await_victims

pytestmark = [pytest.mark.slurm, pytest.mark.release]

WHOLE = ("-c32", "--mem=100", "--output=/dev/null")
#: usage is worked out once a minute, and stays
USAGE = {
    "PriorityType": "priority/multifactor",
    "PriorityCalcPeriod": "00:01:00",
    "PriorityDecayHalfLife": "0",
    "PriorityUsageResetPeriod": "NONE",
}


class Case(NamedTuple):
    """What is set of a job's user, account or QOS, each of its own, and whether the job starts again."""

    of: str
    limit: str
    returns: bool
    #: with AccountingStorageEnforce=safe
    returns_safely: bool
    time: str = "60"


CASES = {
    "used": Case("user", "GrpTRESMins=cpu=1", False, False),
    "of-account": Case("account", "GrpTRESMins=cpu=1", False, False),
    "of-qos": Case("qos", "GrpTRESMins=cpu=1", False, False),
    "little": Case("user", "GrpTRESMins=cpu=1900", True, False),
    "short": Case("user", "GrpWall=59", True, False),
    "enough": Case("user", "GrpTRESMins=cpu=100000 GrpWall=1000", True, True),
    "billed": Case("user", "GrpTRESMins=billing=1", False, False),
    "endless": Case("user", "GrpTRESMins=cpu=100000", True, False, "UNLIMITED"),
    "endless-job": Case("user", "MaxTRESMins=cpu=100000", False, False, "UNLIMITED"),
}


@pytest.mark.parametrize("safe", [False, True], ids=["limits", "safe"])
def test_a_job_is_no_victim_when_its_account_has_used_up_what_it_may_use(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice, *, safe: bool
) -> None:
    user = ordinary_user()
    qos = tuple(f"q-{name}" for name in CASES)
    accounting = Accounting(
        qos=tuple(Qos(name=name) for name in qos),
        # Accounts with the same users and rights are added in one call.
        accounts=tuple(Account(name=name, users=("root", user), qos=("normal", *qos)) for name in (*CASES, "te")),
        enforce=f"associations,limits,qos{',safe' if safe else ''}",
    )
    cluster = make_cluster(
        ClusterDefinition(groups=(NodeGroup(count=len(CASES)),), accounting=accounting, settings=USAGE)
    )
    cluster.run("scontrol", "update", "partitionname=main", "maxtime=infinite")
    jobs = {
        name: cluster.sbatch(
            "--job-name=be",
            *WHOLE,
            f"--time={case.time}",
            f"--account={name}",
            f"--qos=q-{name}",
            wrap="sleep 1000",
            user=user,
        )
        for name, case in CASES.items()
    }
    for job_id in jobs.values():
        cluster.wait_state(job_id, "RUNNING")
    for name, case in CASES.items():
        which = {
            "user": ("user", user, "set", *case.limit.split(), "where", f"account={name}"),
            "account": ("account", name, "set", case.limit),
            "qos": ("qos", f"q-{name}", "set", case.limit),
        }
        cluster.run("sacctmgr", "-i", "modify", *which[case.of])

    def used() -> list[int]:
        shown = cluster.run("scontrol", "-o", "show", "assoc_mgr", "flags=assoc", f"users={user}").stdout
        found = re.findall(rf"Account=(\S+) UserName={user}\(.*?GrpTRESMins=cpu=\w+\((\d+)\)", shown)
        return [int(minutes) for account, minutes in found if account in CASES]

    cluster.wait_for(lambda: len(used()) == len(CASES) and min(used()) > 0, "usage to be worked out")
    returns = {jobs[name]: case.returns_safely if safe else case.returns for name, case in CASES.items()}
    te_job = ("--account=te", *WHOLE, "--time=60")
    await_victims(cluster, tmp_path, one_client, returns, *te_job, user=user, reasons=("Assoc", "QOS"))
