"""Time from a TE job's submission to its victim's notice, with an early turn and without.

`python -m benchmarks.early_turn`

The cluster of `benchmarks/cycle.py`, without its trial: slurmctld knows as many jobs and nodes, eight best-effort jobs
fill the eight nodes that run, all other jobs wait for tomorrow. The daemon's own loop, in mode shadow, is at rest; then
a trial comes, with an early turn and without in turns. The seconds are those from before sbatch until the notice is
recorded; a poke's way to the daemon (0.03 s) is not in it, nor what is left of a poll under way, nor the time between
two polls that pokes ask for, which is as long as the poll before took.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

import click
from tesched_core.model.actions import Notify, Requeue
from tesched_daemon.config import load
from tesched_daemon.garbage import never_search_this, no_search_for_garbage
from tesched_daemon.loop import Loop
from tesched_daemon.wiring import opened_loop
from tesched_db import migrate
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import ClusterDefinition
from tesched_testcluster.local import LocalCluster

from benchmarks.cycle import CONFIG, PATIENCE_S, fill


def turn(loop: Loop, *, early: bool) -> float:
    """Make a turn as after a poke; return when the victim's notice was recorded, 0 if there is none."""
    with no_search_for_garbage():
        made = loop.early_turn() if early else loop.turn(asked=True)
    outcomes = made.outcomes if made is not None else ()
    return next((one.at for one in outcomes if isinstance(one.action, Notify | Requeue)), 0.0)


def noticed_s(cluster: LocalCluster, loop: Loop, *, early: bool) -> float:
    """Submit a trial; return the seconds until its victim's notice, and leave the loop at rest. Raises an error."""
    began = time.time()
    trial = cluster.sbatch("--exclusive", "-N1", "--job-name=te", wrap="exec sleep 100000")
    at = turn(loop, early=early)
    if not at:
        raise click.ClickException(f"no victim had its notice in {'the early turn' if early else 'the poll'}")
    cluster.run("scancel", str(trial), timeout_s=PATIENCE_S)
    # The first poll ends the order.
    for _ in range(2):
        turn(loop, early=False)
    return at - began


@click.command()
@click.option("--jobs", type=int, default=100_000, show_default=True, help="Jobs that slurmctld knows.")
@click.option("--nodes", type=int, default=10_000, show_default=True, help="Nodes that slurmctld knows.")
@click.option("--trials", type=int, default=3, show_default=True, help="Trials of each kind.")
def main(*, jobs: int, nodes: int, trials: int) -> None:
    """Print the table."""
    # With defer Slurm considers no job at its submission, as on sites of this size.
    settings = {"MaxJobCount": "200000", "MaxArraySize": "200000", "SchedulerParameters": "defer"}
    with LocalCluster(ClusterDefinition(settings=settings)) as cluster, tempfile.TemporaryDirectory() as folder:
        fill(cluster, jobs, nodes, trial=False)
        config = Path(folder) / "tesched.toml"
        store = f"sqlite:///{folder}/tesched.sqlite"
        text = CONFIG.format(
            store=store, client=ClientChoice.COMMANDS, slurm_conf=cluster.slurm_conf, patience=PATIENCE_S
        )
        text = text.replace("[loop]\n", "[loop]\nearly_turn = true\n")
        # Polls of this size are too old for what has ended lately.
        config.write_text(text.replace("[guard]\n", "[guard]\nwait_for_free_s = 0\n"))
        migrate.upgrade(store)
        with opened_loop(load(config)) as loop:
            for number in range(3):
                turn(loop, early=False)
                if not number:
                    never_search_this()
            found: dict[bool, list[float]] = {True: [], False: []}
            for number in range(2 * trials):
                early = number % 2 == 0
                found[early].append(noticed_s(cluster, loop, early=early))
                print(f"{'early turn' if early else 'poll':<12}{found[early][-1]:>7.2f} s", flush=True)
    for early, seconds in found.items():
        print(f"{'early turn' if early else 'poll':<12}{statistics.median(seconds):>7.2f} s, median of {trials}")


if __name__ == "__main__":
    main()
