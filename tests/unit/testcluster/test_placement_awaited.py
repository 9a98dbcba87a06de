"""Why Slurm's word is awaited on a case of the placement oracle."""

from __future__ import annotations

from tesched_core.model.cluster import Partition, Request
from tesched_core.placement.columns_of import columns_of
from tesched_core.policy import MakeRoom
from tesched_policies.fitgpp import FitGpp
from tesched_testcluster.harness.placement import why_awaited
from tesched_testcluster.harness.placement_outcome import Awaited

from tests.builders import cluster, node, running, share, view_of, waiting


def why(request: Request, of_n1: int, of_n2: int) -> Awaited:
    """Two nodes of 16 CPUs; the job that may go holds some of n1, one that may not holds some of n2.

    In p the job may have a part of either node, in q a whole one, n1.
    """
    p = Partition(name="p", nodes=frozenset({"n1", "n2"}))
    q = Partition(name="q", nodes=frozenset({"n1"}), oversubscribe="EXCLUSIVE")
    te = waiting(9, request, partitions=("q", "p"))
    held = running(1, share("n1", of_n1)), running(2, share("n2", of_n2))
    snapshot = cluster([node("n1", cpus=16), node("n2", cpus=16)], [*held, te], partitions=[p, q], exempt=[2])
    (plan,) = [one for one in FitGpp().propose(view_of(snapshot), None).plans if isinstance(one, MakeRoom)]
    assert plan.victim_ids == (1,)
    return why_awaited(plan, te, snapshot, columns_of(snapshot).capacity)


def test_the_reason_is_sums_or_free_resources() -> None:
    # Its record wants a whole node, as q would have it, in p it may have 12 CPUs of n2.
    whole = Request(cpus=12, tasks=12, mem_per_node_mib=1, exclusive=True)
    assert why(whole, of_n1=16, of_n2=5) is Awaited.NOT
    assert why(whole, of_n1=16, of_n2=4) is Awaited.SUMS
    # 4 of n1's CPUs are free, which others may take.
    assert why(whole, of_n1=12, of_n2=16) is Awaited.FREE
