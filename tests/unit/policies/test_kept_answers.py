"""What is kept of the answers for TE jobs, and what a plan makes of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from tesched_core.model.cluster import Partition
from tesched_core.model.decision import RefusalCode
from tesched_core.model.resources import JobId
from tesched_core.placement.eligibility import Eligibility
from tesched_policies.candidates import candidates_of
from tesched_policies.fitgpp import FitGpp
from tesched_policies.until_touched import UntilTouched

from tests.builders import cluster, node, plans_of, running, share, view_of, waiting


def test_answers_are_forgotten_where_a_plan_changes_a_node_on_which_they_rest() -> None:
    kept = UntilTouched[str, int]()
    kept.group(1, np.array([True, True, False]))["a"] = 1
    kept.group(2, np.array([False, False, True]))["b"] = 2
    kept.touch([0])
    assert (kept.group(1, np.zeros(3, dtype=np.bool_)), kept.group(2, np.zeros(3, dtype=np.bool_))) == ({}, {"b": 2})


def test_the_answers_for_a_job_of_two_partitions_rest_on_the_nodes_of_both() -> None:
    parts = [Partition(name="p", nodes=frozenset({"n1"})), Partition(name="q", nodes=frozenset({"n2"}))]
    nodes = [node(name) for name in ("n1", "n2", "n3")]
    view = view_of(cluster(nodes, [waiting(9, cpus=4, partitions=("p", "q"))], partitions=parts))
    job = view.snapshot.jobs[JobId(9)]
    assert candidates_of(job, view, view.columns.capacity).where.tolist() == [True, True, False]


def test_another_users_plan_may_free_enough_for_a_job_that_had_no_victim() -> None:
    # Ada's TE job may have her own job 1 as a victim, which is the smaller one, and leaves 7 of its CPUs.
    jobs = [
        running(1, share("n1", 8), user="ada"),
        running(2, share("n1", 9), user="eve"),
        waiting(7, cpus=16, user="bob"),
        waiting(8, cpus=1, user="ada"),
        waiting(9, cpus=16, user="bob"),
    ]
    view = view_of(cluster([node("n1", cpus=17)], jobs))
    own = view.running.row_of[JobId(1)]
    why = np.where(np.arange(len(view.running)) == own, 0, -1)
    dear = Eligibility(why=why, whys=((RefusalCode.BUDGET, "it is dear"),), by_own={"ada": [own]})
    found = FitGpp().propose(replace(view, find_eligible=lambda: dear), None)
    assert [(one.preemptor, one.victim_ids) for one in plans_of(found)] == [(8, (1,)), (9, (2,))]


def test_an_own_job_on_one_of_many_nodes_goes_first_also_after_a_plan_for_a_stranger() -> None:
    full = [running(2 * place + half + 1, share(f"n{place}", 16), user="eve") for place in range(10) for half in (0, 1)]
    jobs = [*full[:-1], replace(full[-1], user="ada")]
    asking = [waiting(100, cpus=16, user="bob"), waiting(101, cpus=16, user="ada"), waiting(102, cpus=16, user="bob")]
    view = view_of(cluster([node(f"n{place}") for place in range(10)], [*jobs, *asking]))
    found = plans_of(FitGpp().propose(view, None))
    assert [one.victim_ids for one in found] == [(1,), (20,), (2,)]


def test_a_victim_of_another_te_job_is_none_of_the_candidates_that_are_left() -> None:
    jobs = [running(1, share("n1", 8)), running(2, share("n1", 24)), waiting(100, cpus=8), waiting(101, cpus=8)]
    found = FitGpp().propose(view_of(cluster([node("n1")], jobs), excused=[2]), None)
    said = [one.text for one in found.refusals if one.code is RefusalCode.NO_VICTIM]
    assert said == ["none of the 2 running best-effort jobs may be preempted"]
