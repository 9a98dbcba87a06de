"""Nodes of which pyslurm does not show all GRES are read by scontrol."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import msgspec
from tesched_core.model.cluster import SlurmSettings
from tesched_slurm.pyslurm_client import PyslurmObserver
from tesched_slurm.pyslurm_jobs import lacking
from tesched_slurm.pyslurm_process import PyslurmProcess
from tesched_slurm.pyslurm_wire import PolledObjects
from tesched_slurm.run_command import Commands

from tests.unit.slurm.test_cluster_bounds import NODE_RECORD, node

WITH_DISKS = SlurmSettings(gres_types=frozenset({"gpu", "tmp"}))
SEEN = PolledObjects(jobs=(), nodes=(NODE_RECORD,))


class Said:
    """Answers with these nodes, and counts the questions."""

    def __init__(self, answer: str) -> None:
        self.answer, self.asked = answer, 0

    def run(self, argv: Sequence[str]) -> str:
        assert argv[-2:] == ("show", "node")
        self.asked += 1
        return self.answer


def disks(observer: PyslurmObserver, settings: SlurmSettings) -> list[int]:
    """Return how many bytes of local disk each node has."""
    nodes = observer._nodes(SEEN, settings)
    assert isinstance(nodes, tuple)
    return [dict(one.total.gres).get("tmp", 0) for one in nodes]


def observing(answer: str) -> tuple[PyslurmObserver, Said]:
    said = Said(answer)
    return PyslurmObserver(process=cast("PyslurmProcess", None), commands=cast("Commands", said)), said


def test_a_kind_that_the_site_has_and_no_node_shows_is_lacking() -> None:
    assert lacking([NODE_RECORD], WITH_DISKS) == {"tmp"}
    typed = msgspec.structs.replace(NODE_RECORD, configured_gres={"gpu:a": 2})
    assert lacking([typed], WITH_DISKS) == {"tmp"}
    assert lacking([NODE_RECORD], replace(WITH_DISKS, gres_types=frozenset({"gpu"}))) == frozenset()


def test_nodes_with_a_kind_that_pyslurm_leaves_out_are_read_by_scontrol_each_time() -> None:
    observer, said = observing(node(gres="gpu:a:4,tmp:400G", used="gpu:a:2(IDX:0-1),tmp:0"))
    assert [disks(observer, WITH_DISKS) for _ in range(3)] == [[400 << 30]] * 3
    assert said.asked == 3


def test_scontrol_is_queried_once_for_the_same_settings_where_no_node_has_it() -> None:
    observer, said = observing(node())
    assert [disks(observer, WITH_DISKS) for _ in range(3)] == [[0]] * 3
    assert said.asked == 1
    again = replace(WITH_DISKS, kill_wait_s=31)
    disks(observer, again)
    assert said.asked == 2, "they were read anew, and nodes may have changed with them"
