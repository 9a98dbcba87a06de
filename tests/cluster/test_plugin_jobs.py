"""Jobs as strangers write them, under the lever `plugin`: Slurm preempts those that declare no signal, and no other.

The jobs are those of `tesched_testcluster.kinds`; each has a node of its own, and a trial-and-error job asks for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import ClusterDefinition, NativePreemption, NodeGroup, PartitionDefinition
from tesched_testcluster.harness.daemon_process import Daemon, running_daemon
from tesched_testcluster.kinds import ARRAY, CLIENTS, NEVER, SCRIPTS, Ending, Kind
from tesched_testcluster.kinds_stage import KindsOnStage
from tesched_testcluster.patience import HANG_S

from tests.cluster.conftest import MakeCluster
from tests.cluster.test_plugin import build_plugin

pytestmark = pytest.mark.slurm

#: submitit's script declares one
DECLARING = {"submitit", "submitit-comment"}
TE = "--partition=te"
SIGNAL = "it is not marked, as it has declared a signal"
BY_SLURM = "Slurm preempted it"


def under_the_plugin(kind: Kind) -> Kind:
    """Return the kind with what must become of it: one that declares a signal runs to its own end."""
    if kind in NEVER:
        return kind
    if not kind.declares and kind.name not in DECLARING:
        return replace(kind, explained=BY_SLURM)
    return replace(
        kind,
        parts=dict.fromkeys(kind.parts, Ending.UNTOUCHED),
        parts_before_26={},
        explained=SIGNAL,
    )


def definition(*kinds: Kind, kill_wait_s: int = 2) -> ClusterDefinition:
    """Return a cluster with the plugin, a node for each job, and two more."""
    nodes = sum(len(kind.parts) for kind in kinds) + 2
    return ClusterDefinition(
        name="kinds-plugin",
        groups=(NodeGroup(count=nodes, cpus=4),),
        kill_wait_s=kill_wait_s,
        partitions=(PartitionDefinition(name="main", default=True), PartitionDefinition(name="te")),
        preemption=NativePreemption(kind="tesched", send_user_signal=True, parameters=("tesched_te_partition=te",)),
    )


def marked(stage: KindsOnStage) -> int:
    """Return how many jobs are marked."""
    marks = stage.cluster.marks
    return marks.read_text().count(" requeue ") if marks.exists() else 0


def configured(stage: KindsOnStage, folder: Path) -> None:
    """Write the drop-in that chooses the lever."""
    (folder / "conf.d").mkdir()
    lever = f'[guard]\nlever = "plugin"\nmin_run_time_s = 0\n[slurm]\nmarks = "{stage.cluster.marks}"\n'
    (folder / "conf.d" / "plugin.toml").write_text(lever)


def preempted(stage: KindsOnStage, daemon: Daemon, marks: int, kinds: Sequence[Kind]) -> dict[str, str]:
    """Let TE jobs ask for every node once so many jobs are marked; when each job has ended return what explains each.

    Those that declare a signal would work for ever: each is to stop once the reason is known.
    """
    known: dict[str, str] = {}

    def await_known(reason: str) -> list[Kind]:
        explained = {stage.jobs(kind.name)[0]: kind for kind in kinds if kind.explained == reason}

        def all_known() -> bool:
            # What is said of a job while it works may be different when it ends.
            for job in explained.keys() - known.keys():
                if reason in (said := daemon.ask("explain", job).stdout):
                    known[job] = said
            return explained.keys() <= known.keys()

        stage.cluster.wait_for(all_known, f"{reason!r} of each of {[kind.name for kind in explained.values()]}")
        return list(explained.values())

    stage.cluster.wait_for(lambda: marked(stage) == marks, f"{marks} marks")
    stage.preempt(TE)
    for kind in await_known(SIGNAL):
        (stage.folder / f"{kind.name}.stop").touch()
    stage.await_end()
    await_known(BY_SLURM)
    stage.cluster.wait_for(
        lambda: not daemon.json("status")["orders"] and daemon.json("status")["daemon"]["marks_trouble"] == "",
        "the orders to end",
    )
    return known


@pytest.mark.gate
def test_every_kind_of_script_comes_back_or_is_left_alone_and_ends_once(
    make_cluster: MakeCluster, tmp_path: Path
) -> None:
    build_plugin()
    kinds = tuple(under_the_plugin(kind) for kind in (*SCRIPTS, *NEVER, ARRAY))
    ordinary = [kind for kind in kinds if kind.explained == BY_SLURM]
    # Those that save on SIGTERM may take as long as they need.
    with KindsOnStage(make_cluster(definition(*kinds, kill_wait_s=round(HANG_S))), kinds) as stage:
        stage.await_begun()
        configured(stage, tmp_path)
        with running_daemon(stage.cluster, tmp_path, ClientChoice.COMMANDS) as daemon:
            known = preempted(stage, daemon, sum(1 if kind.name != "array" else 2 for kind in ordinary), kinds)
            outcomes = stage.outcomes(known.__getitem__)
            tally = daemon.json("status")["tally"]
        assert [outcome.wrong for outcome in outcomes if outcome.wrong] == []
        assert {stage.cluster.state(te) for kind in NEVER for te in stage.trials(kind.name)} == {"PENDING"}
        assert (tally["lost"], tally["futile"], tally["died_of_notice"]) == (0, 0, 0)


@pytest.mark.parametrize("name", ["dask"])
def test_a_client_that_declares_nothing_comes_back(name: str, make_cluster: MakeCluster, tmp_path: Path) -> None:
    build_plugin()
    kind = under_the_plugin(next(kind for kind in CLIENTS if kind.name == name))
    with KindsOnStage(make_cluster(definition(kind)), (kind,)) as stage:
        stage.await_begun()
        configured(stage, tmp_path)
        with running_daemon(stage.cluster, tmp_path, ClientChoice.COMMANDS) as daemon:
            known = preempted(stage, daemon, 1, [kind])
            (outcome,) = stage.outcomes(known.__getitem__)
        assert outcome.wrong == ""
