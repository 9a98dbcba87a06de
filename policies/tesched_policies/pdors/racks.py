"""Racks, nodes near each other: by Slurm's topology, or by a feature of the nodes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from tesched_core.model.snapshot import Snapshot


def racks_of(snapshot: Snapshot, nodes: Sequence[str], prefix: str) -> tuple[NDArray[np.intp], tuple[str, ...]]:
    """Return the rack of each of the nodes, as a row of the names, and the names.

    With a `prefix`, a node's rack is its feature that begins so. Else it is its leaf switch, or block, in Slurm's
    topology; without a topology all nodes are one rack. A node of which nothing is said is a rack by itself.
    """
    of: dict[str, str] = {}
    if prefix:
        for name in nodes:
            features = sorted(each for each in snapshot.nodes[name].features if each.startswith(prefix))
            if features:
                of[name] = features[0]
    elif snapshot.settings.switches:
        of = {name: switch.name for switch in snapshot.settings.switches for name in switch.nodes}
    else:
        of = dict.fromkeys(nodes, "all")
    names = tuple(dict.fromkeys(of.get(name, name) for name in nodes))
    row = {name: number for number, name in enumerate(names)}
    return np.array([row[of.get(name, name)] for name in nodes], dtype=np.intp), names
