"""Jobs of a cluster in a federation (`sacctmgr add federation`), as that cluster alone shows them."""

from __future__ import annotations

#: Slurm's number for none, which several records of one cluster may have in the place of an id: each of a job that
#: another cluster has started (22.05.8). They are no jobs.
NO_ID = 0xFFFFFFFE


def is_federated(origin: str, viable: str, *, of_array: bool) -> bool:
    """Check whether other clusters may run it, too: by where it was submitted to, and the clusters that may run it.

    A task of an array, which is its origin's alone, is put in the queues of all when it is requeued (22.05.8). One with
    `--clusters` has the same two words, so each counts as one that others may run.
    """
    return origin not in {"", "NA"} and (of_array or viable != origin)
