"""Output of `scontrol show topology`, as Slurm 22.05.8 and 26.05.5 wrote it, and which node is in which rack by it."""

from __future__ import annotations

from dataclasses import replace

from tesched_core.model.cluster import SlurmSettings, Switch
from tesched_core.model.snapshot import Snapshot
from tesched_policies.pdors.racks import racks_of
from tesched_slurm.scontrol_cluster import has_topology, read_topology

from tests.builders import NOW, node

#: both releases, topology/tree
TREE = """\
SwitchName=r1 Level=0 LinkSpeed=1 Nodes=n[1-4]
SwitchName=r2 Level=0 LinkSpeed=1 Nodes=n[5-8]
SwitchName=root Level=1 LinkSpeed=1 Nodes=n[1-8] Switches=r[1-2]
"""
#: 26.05, topology/block
BLOCKS = """\
BlockName=b1 BlockIndex=0 Nodes=n[1-4] BlockSize=4
BlockName=b2 BlockIndex=1 Nodes=n[5-8] BlockSize=4
AggregatedBlock=b[1-2] BlockIndex=2 Nodes=n[1-8] BlockSize=8
"""
FOUR = ("n1", "n2", "n3", "n4"), ("n5", "n6", "n7", "n8")


def test_leaves_of_a_tree_and_blocks_are_racks_and_what_is_above_them_is_not() -> None:
    for answer, names in ((TREE, ("r1", "r2")), (BLOCKS, ("b1", "b2"))):
        assert read_topology(answer) == tuple(
            Switch(name=name, nodes=nodes) for name, nodes in zip(names, FOUR, strict=True)
        )


def test_slurm_is_queried_for_a_topology_only_where_it_has_one() -> None:
    line = "TopologyParam           = (null)\nTopologyPlugin          = topology/{}\n"
    asked = {name: has_topology(line.format(name)) for name in ("tree", "block", "none", "flat", "default")}
    assert asked == {"tree": True, "block": True, "none": False, "flat": False, "default": False}


def snapshot(*switches: Switch, features: dict[str, set[str]] | None = None) -> Snapshot:
    nodes = [replace(node(name), features=frozenset((features or {}).get(name, ()))) for name in ("n1", "n2", "n3")]
    return Snapshot.of(NOW, nodes=nodes, settings=SlurmSettings(switches=switches))


def racks(seen: Snapshot, prefix: str = "") -> dict[str, str]:
    nodes = tuple(seen.nodes)
    row, names = racks_of(seen, nodes, prefix)
    return {node: names[each] for node, each in zip(nodes, row.tolist(), strict=True)}


def test_a_node_that_the_topology_lacks_is_near_no_other() -> None:
    seen = snapshot(Switch(name="r1", nodes=("n1", "n2")))
    assert racks(seen) == {"n1": "r1", "n2": "r1", "n3": "n3"}


def test_without_a_topology_all_nodes_are_near_each_other() -> None:
    assert set(racks(snapshot()).values()) == {"all"}


def test_a_feature_comes_before_the_topology() -> None:
    seen = snapshot(
        Switch(name="r1", nodes=("n1", "n2", "n3")),
        features={"n1": {"gpu", "rack7"}, "n2": {"rack8"}, "n3": {"rack7"}},
    )
    assert racks(seen, "rack") == {"n1": "rack7", "n2": "rack8", "n3": "rack7"}
