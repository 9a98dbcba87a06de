"""All attacks, by name: each module that has some is imported here, in the order in which they run."""

from __future__ import annotations

from tesched_testcluster.harness.attacks import commands, counts, own_jobs, requests
from tesched_testcluster.harness.attacks.registry import ATTACKS, run_attacks

#: the modules with attacks
MODULES = (requests, counts, own_jobs, commands)

__all__ = ["ATTACKS", "MODULES", "run_attacks"]
