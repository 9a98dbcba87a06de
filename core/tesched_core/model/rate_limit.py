"""Limit of slurmctld on the RPCs of one user (`SlurmctldParameters=rl_enable`, Slurm 23.02 and later).

Principle
    Each user has a bucket of tokens, and each RPC takes one. With none left slurmctld does not serve the RPC but has
    the client wait for a second and ask again, as often as needed: a command is slow then, and says nothing of it.
    root and SlurmUser are exempt, an Operator is not.

Source
    slurm.conf(5), `rl_enable` and the settings after it; seen on 26.05.5 (docs/reference/slurm-clients.md).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimit:
    """Size of the bucket, and how fast it fills."""

    #: RPCs at once, after a rest (rl_bucket_size)
    burst: int = 30
    #: RPCs a second in the long run (rl_refill_rate for each rl_refill_period)
    per_s: float = 2.0
