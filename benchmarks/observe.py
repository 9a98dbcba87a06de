"""Cost of one observation of the cluster: milliseconds an observe, for each client that runs here.

Run it from the repository: `python -m benchmarks.observe`, or, with pyslurm, in the test image:
`python -m tesched_testcluster docker run -- python -m benchmarks.observe`. It starts a local cluster for each size. The
queue: that many waiting jobs, each with a record of its own, and eight running ones. `first` is the first poll of a
daemon; `unchanged` a poll of the same queue again; `10 % changed` one after every tenth job got another nice value;
`at rest` one that need not be whole. Beside them, in turn with them, stands what the bare `scontrol show job` takes,
with its answer thrown away, and how many times longer the first client took.
"""

from __future__ import annotations

import statistics
import subprocess
import time
from collections.abc import Callable

from tesched_core.model.actions import Failure
from tesched_slurm.client_choice import ClientChoice
from tesched_slurm.clients import Client
from tesched_testcluster.harness.slurm_clients import CLIENTS, connecting
from tesched_testcluster.local import LocalCluster

SIZES = (100, 1_000, 10_000)
ROUNDS = 7
BARE = "scontrol"


def main() -> None:
    """Print the table."""
    columns = (*CLIENTS, BARE)
    print(f"{'jobs':>7} {'poll':<13}" + "".join(f"{column:>11}" for column in columns) + f"{'ratio':>8}   ms, medians")
    for size in SIZES:
        with LocalCluster() as cluster:
            array = fill(cluster, size)
            clients = {choice: connecting(choice)(cluster, timeout_s=60) for choice in CLIENTS}
            first = {str(choice): [look(client)] for choice, client in clients.items()}
            show(size, "first", first | {BARE: [bare(cluster)]})
            show(size, "unchanged", measured(cluster, clients, lambda _: None))

            def change(number: int, array: int = array, cluster: LocalCluster = cluster, size: int = size) -> None:
                cluster.run("scontrol", "update", f"jobid={array}_[1-{size // 10}]", f"nice={number + 2}")

            show(size, "10 % changed", measured(cluster, clients, change))
            for client in clients.values():
                look(client, whole=False)
            show(size, "at rest", measured(cluster, clients, lambda _: None, whole=False))


def fill(cluster: LocalCluster, size: int) -> int:
    """Submit eight jobs that run and `size` that wait, and return the id of the array that these are."""
    running = [cluster.sbatch("--gpus=2", "-n4", wrap="exec sleep 1000") for _ in range(8)]
    for job_id in running:
        cluster.wait_state(job_id, "RUNNING")
    array = cluster.sbatch(f"--array=0-{size}", "--begin=now+1day", "--gpus=2", wrap="true")
    # A change of some tasks alone gives each of them a record.
    cluster.run("scontrol", "update", f"jobid={array}_[1-{size - 1}]", "nice=1", timeout_s=60)
    return array


def look(client: Client, *, whole: bool = True) -> float:
    """Return the milliseconds that one observation took."""
    began = time.perf_counter()
    seen = client.observer.observe(whole=whole)
    took_ms = (time.perf_counter() - began) * 1000
    if isinstance(seen, Failure):
        raise SystemExit(f"{client.name}: {seen.message}")
    return took_ms


def measured(
    cluster: LocalCluster, clients: dict[ClientChoice, Client], change: Callable[[int], None], *, whole: bool = True
) -> dict[str, list[float]]:
    """Measure each client's milliseconds an observation, the clients in turn, with a change before each turn."""
    took: dict[str, list[float]] = {str(choice): [] for choice in (*clients, BARE)}
    for number in range(ROUNDS):
        change(number)
        for choice, client in clients.items():
            took[str(choice)].append(look(client, whole=whole))
        took[BARE].append(bare(cluster))
    return took


def bare(cluster: LocalCluster) -> float:
    """Return the milliseconds of `scontrol show job`, all jobs, with its answer thrown away."""
    began = time.perf_counter()
    argv = ["scontrol", "-a", "-d", "-o", "show", "job"]
    subprocess.run(argv, env=cluster.env, stdout=subprocess.DEVNULL, timeout=60, check=True)
    return (time.perf_counter() - began) * 1000


def show(size: int, what: str, took: dict[str, list[float]]) -> None:
    """Print one line: medians, and how many times longer the first client took than the last column."""
    medians = [statistics.median(each) for each in took.values()]
    ratio = f"{medians[0] / medians[-1]:8.1f}" if len(medians) > 1 else ""
    print(f"{size:>7} {what:<13}" + "".join(f"{median:>11.0f}" for median in medians) + ratio)


if __name__ == "__main__":
    main()
