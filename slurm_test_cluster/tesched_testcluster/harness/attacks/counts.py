"""Attacks by counts that slurmctld takes from a user's own program."""

from __future__ import annotations

from tesched_testcluster.definition import ClusterDefinition, NativePreemption, NodeGroup, PartitionDefinition
from tesched_testcluster.harness.attacks import raw_rpc
from tesched_testcluster.harness.attacks.bench import BE_OF_A_NODE, LONGEST_POLL_S, LONGEST_WAIT_S, Bench
from tesched_testcluster.harness.attacks.registry import PLAIN, Result, attack
from tesched_testcluster.local import installed_release, plugin_is_built

#: of 16 bits: the next restart begins at 0 again
MOST_RESTARTS = 65535
WITH_PLUGIN = ClusterDefinition(
    groups=PLAIN.groups,
    partitions=(
        PartitionDefinition(name="main", default=True),
        PartitionDefinition(name="debug", priority_tier=10, preempt_mode="OFF"),
    ),
    preemption=NativePreemption(kind="tesched", parameters=("tesched_te_partition=debug",)),
)


def _no_plugin() -> str:
    """Say why there can be no plugin here; empty if there can. A built one may be another release's."""
    if installed_release() >= (26, 5):
        return "the image of Slurm 26.05 has no plugin"
    return "" if plugin_is_built() else "the plugin is not built (make plugin)"


def _beside_forged_counts(bench: Bench, toml: str, *te_options: str) -> Result:
    """Serve two TE jobs where every second BE job has a forged count of restarts."""
    cluster, hostile = bench.cluster, bench.users[0]
    numbers = {"restart_cnt": MOST_RESTARTS, "requeue": 1, "pn_min_memory": 100, "min_cpus": 1, "num_tasks": 1}
    forged = []
    for number, _ in enumerate(cluster.definition.node_names):
        if number % 2:
            forged.append(raw_rpc.submit(cluster, hostile, numbers, tres_per_node="gres:gpu:8", partition="main"))
        else:
            bench.fill.append(cluster.sbatch(*BE_OF_A_NODE, wrap="exec sleep 3000"))
    for job_id in forged:
        cluster.wait_state(job_id, "RUNNING")
    with bench.daemon(toml=toml):
        waited = []
        for _ in bench.fill:
            bench.fill_up()  # each TE job needs a victim: who has left runs again first
            waited.append(bench.serve(*te_options))
        polls = bench.polls()
    kept = [int(cluster.job(job_id)["Restarts"]) for job_id in forged] == [MOST_RESTARTS] * len(forged)
    figure = (
        f"honest TE jobs served after {' and '.join(f'{one:.1f}' for one in waited)} s by other victims,"
        f" the {len(forged)} forged jobs {'run on' if kept else 'were PREEMPTED'}, longest poll {polls.longest_s:.2f} s"
    )
    held = kept and max(waited) <= LONGEST_WAIT_S and polls.longest_s <= LONGEST_POLL_S
    return Result(figure=figure, held=held)


@attack(
    "restart-counts",
    f"BE jobs with {MOST_RESTARTS} restarts, by a program of the user's",
    ClusterDefinition(groups=(NodeGroup(count=4),)),
    lacking=raw_rpc.lacking,
)
def restart_counts(bench: Bench) -> Result:
    """A job whose count would begin again is no victim, and no other is kept from it."""
    return _beside_forged_counts(bench, "")


@attack(
    "restart-marks",
    f"the same with the plugin, whose marks file would have a line of {MOST_RESTARTS + 1} restarts",
    WITH_PLUGIN,
    lacking=lambda: raw_rpc.lacking() or _no_plugin(),
)
def restart_marks(bench: Bench) -> Result:
    """The marks of other jobs hold."""
    toml = f'[guard]\nlever = "plugin"\n[slurm]\nmarks = "{bench.cluster.marks}"\n'
    return _beside_forged_counts(bench, toml, "-p", "debug")
