"""One run as reports keep it: its figures and a few thousand points. The result itself can be forgotten."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from tesched_core.model.told_error import ToldError

from tesched_sim.reports.curves import Distribution, Payers, Series
from tesched_sim.reports.summary import Summary, restart_intervals_s, slowdown, summarise, waited_s
from tesched_sim.result import Result
from tesched_sim.workload import Workload


class RunReportError(ToldError, ValueError):
    """Runs that cannot be reported on together. The text says which, and why."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Case:
    """One policy on one seed's workload."""

    policy: str
    seed: int
    #: what was swept, in words ("policy.fitgpp.s=2"); empty if nothing was
    variant: str
    summary: Summary
    settings: Mapping[str, object]
    #: the workload, its machines and what was made up of it
    workload: str
    nodes: int
    #: jobs of its trace that do not fit on the nodes
    left_out: int
    notes: tuple[str, ...]
    #: the same for the same jobs, whatever they are called
    fingerprint: str
    te_slowdown: Distribution
    be_slowdown: Distribution
    te_wait_s: Distribution
    be_wait_s: Distribution
    #: from leaving its nodes to running again; the victims that did not come back are counted
    restart_interval_s: Distribution
    series: Series
    payers: Payers

    @staticmethod
    def of(result: Result, *, seed: int, variant: str = "") -> Case:
        """Summarise a run for reports."""
        workload = result.workload
        te, be = workload.te, workload.be
        slowdowns, waits_s = slowdown(result), waited_s(result)
        return Case(
            policy=result.policy,
            seed=seed,
            variant=variant,
            summary=summarise(result),
            settings=dict(result.settings),
            workload=workload.name,
            nodes=len(workload.machines.names),
            left_out=workload.left_out,
            notes=workload.notes,
            fingerprint=_fingerprint(workload),
            te_slowdown=Distribution.of(slowdowns[te]),
            be_slowdown=Distribution.of(slowdowns[be]),
            te_wait_s=Distribution.of(waits_s[te]),
            be_wait_s=Distribution.of(waits_s[be]),
            restart_interval_s=Distribution.of(restart_intervals_s(result)),
            series=Series.of(result),
            payers=Payers.of(result),
        )

    @property
    def column(self) -> tuple[str, str]:
        """Key of its column in a report: seeds are taken together, variants and policies are not."""
        return self.variant, self.policy


def _fingerprint(workload: Workload) -> str:
    digest = blake2b(digest_size=8)
    for values in (workload.submit_s, workload.run_s, workload.nodes, workload.demand, workload.te):
        digest.update(np.ascontiguousarray(values).tobytes())
    return digest.hexdigest()
