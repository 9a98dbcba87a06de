"""The clients that can run here. A test that takes `connect` runs with each of them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Protocol

from tesched_slurm.client_choice import ClientChoice
from tesched_slurm.clients import Client, choose
from tesched_slurm.run_command import Commands

from tesched_testcluster import processes
from tesched_testcluster.local import LocalCluster


class Connect(Protocol):
    """Makes clients of one kind."""

    def __call__(self, cluster: LocalCluster, timeout_s: float = 10) -> Client:
        """Return a client of the cluster that gives up a call after `timeout_s` seconds."""
        ...


#: pyslurm is left out where it is not installed; where it must be (the image says so), its tests then fail
CLIENTS = (
    ClientChoice.COMMANDS,
    *([ClientChoice.PYSLURM] if find_spec("pyslurm") or "TESCHED_REQUIRE_PYSLURM" in os.environ else []),
)


def connecting(choice: ClientChoice) -> Connect:
    """Return what makes clients of this kind, one for each cluster and time-out."""
    made: dict[tuple[str, float], Client] = {}

    def connect(cluster: LocalCluster, timeout_s: float = 10) -> Client:
        key = (str(cluster.slurm_conf), timeout_s)
        if key not in made:
            made[key] = choose(choice, Commands(slurm_conf=key[0], timeout_s=timeout_s))
        return made[key]

    return connect


@contextmanager
def hanging(cluster: LocalCluster) -> Iterator[None]:
    """Let slurmctld take connections without answering any, until the block ends."""
    pids = processes.find_processes(cluster.folder, "slurmctld")
    processes.send(pids, signal.SIGSTOP)
    try:
        yield
    finally:
        processes.send(pids, signal.SIGCONT)
