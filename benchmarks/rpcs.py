"""RPCs a minute of a daemon at rest, as slurmctld counts them (sdiag), beside what `tesched status` says.

Run it from the repository: `python -m benchmarks.rpcs [SECONDS]`, or, with pyslurm, in the test image:
`python -m tesched_testcluster docker run -- python -m benchmarks.rpcs`. No TE job waits. `idle`: no job is there;
`steady`: eight jobs run and twelve wait, and nothing changes; `changing`: besides, four short jobs a minute come, run
and end, from the daemon's start on. Each is measured for a minute that begins so many seconds after the start (90),
with the default interval of the polls and with one of a second. It takes 16 minutes for each client.
"""

from __future__ import annotations

import re
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from tesched_daemon.settings import Pace
from tesched_daemon.wakeup_shares import LEFT, SERVED
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.harness.daemon_process import running_daemon
from tesched_testcluster.harness.slurm_clients import CLIENTS
from tesched_testcluster.local import LocalCluster

#: what slurmd, the jobs and this program send
OTHERS = {
    "REQUEST_STATS_INFO",
    "REQUEST_SUBMIT_BATCH_JOB",
    "REQUEST_COMPLETE_BATCH_SCRIPT",
    "MESSAGE_NODE_REGISTRATION_STATUS",
    "MESSAGE_EPILOG_COMPLETE",
    "REQUEST_COMPLETE_PROLOG",
    "REQUEST_STEP_COMPLETE",
}
CASES = ("idle", "steady", "changing")
WINDOW_S = 60.0


def main() -> None:
    """Print the table."""
    after_s = float(sys.argv[1]) if len(sys.argv) > 1 else 90.0
    print(f"{'client':<10}{'poll':>6} {'case':<10}{'sdiag':>6}{'status':>8}   RPCs/min")
    for choice in CLIENTS:
        for interval_s in (Pace().poll_interval_s, 1.0):
            for case in CASES:
                had, said = measured(choice, interval_s, case, after_s)
                kinds = ", ".join(f"{kind} {count}" for kind, count in had.most_common())
                print(f"{choice:<10}{interval_s:>6g} {case:<10}{had.total():>6}{said:>8.0f}   {kinds}", flush=True)


def measured(
    choice: ClientChoice, interval_s: float, case: str, after_s: float, *, watches: bool = True
) -> tuple[Counter[str], float]:
    """Return the RPCs that slurmctld had of a daemon in a minute, by kind, and how many the daemon says there were.

    By default it finds new jobs in slurmctld's state folder.
    """
    with LocalCluster() as cluster, TemporaryDirectory() as folder:
        if case != "idle":
            fill(cluster)
        with running_daemon(cluster, Path(folder), choice, poll_interval_s=interval_s, watches=watches) as daemon:
            spend(cluster, after_s, case)
            cluster.run("sdiag", "-r")
            spend(cluster, WINDOW_S, case)
            had = counted(cluster)
            rates = daemon.json("status")["daemon"]["calls"]
    return had, sum(rate for kind, rate in rates.items() if kind not in {SERVED, LEFT})


def spend(cluster: LocalCluster, seconds: float, case: str) -> None:
    """Let so much time pass, with what the case has happen meanwhile."""
    until = time.monotonic() + seconds
    while (left_s := until - time.monotonic()) > 0:
        if case == "changing":
            cluster.sbatch("--time=1", "--nodelist=n8", "-n1", "--mem=1", wrap="exec sleep 5")
        time.sleep(min(left_s, WINDOW_S / 4))


def fill(cluster: LocalCluster) -> None:
    """Submit seven jobs that fill their nodes, one that leaves a place beside it, and twelve that wait."""
    running = [cluster.sbatch("--exclusive", f"--nodelist=n{number}", wrap="exec sleep 1000") for number in range(1, 8)]
    running.append(cluster.sbatch("--nodelist=n8", "-n4", "--mem=100", wrap="exec sleep 1000"))
    for job_id in running:
        cluster.wait_state(job_id, "RUNNING")
    for _ in range(12):
        cluster.sbatch("--exclusive", wrap="exec sleep 1000")


def counted(cluster: LocalCluster) -> Counter[str]:
    """Return what slurmctld has counted since it was last reset, but for the others' RPCs."""
    said = cluster.run("sdiag").stdout
    by_type = said[said.index("by message type") : said.index("by user")]
    found = re.findall(r"(\w+) +\( *\d+\) count:(\d+)", by_type)
    return Counter({name: int(count) for name, count in found if name not in OTHERS})


if __name__ == "__main__":
    main()
