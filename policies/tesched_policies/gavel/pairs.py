"""Pairs of jobs that share a GPU on a real cluster: the possible ones, what they have received, what they claim.

Definitions
    pair     two jobs that ask for shards, which together fit on one GPU, and whose workloads' speeds beside each other
             are known (`tesched throughputs import`, the columns partner and partner_scale).

Principle
    A policy that shares gives time to pairs as to jobs alone (problem.py), and a round is pair_rounds.py's. Time that
    two jobs spend on one GPU counts to the pair if it has been allocated time, else to each of them. Nothing is
    believed of speeds that were not measured: such a pair is not formed.

Source
    OSDI 2020, sections 3.2 and 5.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass
from tesched_core.policy import View

from tesched_policies.gavel.allocators.problem import Pairs
from tesched_policies.gavel.jobs import NOWHERE, GavelJobs, Kinds, requested_shards
from tesched_policies.gavel.pair_rounds import Claims
from tesched_policies.gavel.round_scheduling import deficits, priorities
from tesched_policies.gavel.state import JobRounds, PairRounds

Pair = tuple[JobId, JobId]

#: Jobs among which pairs are weighed: they are as many as the square of that, and so is the problem.
MOST_SHARERS = 300


def pair_of(managed: GavelJobs, row: int) -> Pair | None:
    """Return the pair that the job is in now, if it shares its GPU with one other."""
    other = int(managed.mate[row])
    if other == NOWHERE or managed.mate[other] != row:
        return None
    one, two = sorted((managed.jobs[row].job_id, managed.jobs[other].job_id))
    return one, two


def with_time(
    pairs: Mapping[Pair, PairRounds], ran_s: Mapping[Pair, NDArray[np.float64]], known: Mapping[JobId, JobRounds]
) -> dict[Pair, PairRounds]:
    """Return the pairs of which both jobs are still known, with what they received, [types] seconds."""
    return {
        pair: replace(one, received_s=tuple((np.array(one.received_s) + ran_s.get(pair, 0.0)).tolist()))
        for pair, one in pairs.items()
        if pair[0] in known and pair[1] in known
    }


def pairs_of(view: View, kinds: Kinds, managed: GavelJobs) -> Pairs:
    """Return the pairs that there may be, with their speeds; of many jobs, of the first `MOST_SHARERS`.

    The others have GPUs alone until they are among the first.
    """
    sharers = np.flatnonzero(managed.shards > 0)[:MOST_SHARERS].tolist()
    # Jobs of one workload that ask for the same are alike, and there are few of those.
    looks = {row: (view.snapshot.workload(managed.jobs[row].job_id), managed.demands[row].shape) for row in sharers}
    known: dict[object, NDArray[np.float64] | None] = {}
    rows: list[tuple[int, int]] = []
    speeds: list[NDArray[np.float64]] = []
    for place, first in enumerate(sharers):
        for second in sharers[place + 1 :]:
            both = looks[first], looks[second]
            if both not in known:
                known[both] = _speeds(view, kinds, managed, first, second)
            found = known[both]
            if found is not None:
                rows.append((first, second))
                speeds.append(found)
    members = np.array(rows, dtype=np.int64).reshape(-1, 2)
    each = np.array(speeds, dtype=np.float64).reshape(-1, 2, len(kinds.names))
    return Pairs(first=members[:, 0], second=members[:, 1], first_throughput=each[:, 0], second_throughput=each[:, 1])


def _speeds(view: View, kinds: Kinds, managed: GavelJobs, first: int, second: int) -> NDArray[np.float64] | None:
    """Return (2, types) steps a second beside each other, 0 where they do not go together; None: nowhere."""
    snapshot, capacity = view.snapshot, view.columns.capacity
    one, other = (snapshot.workload(managed.jobs[row].job_id) for row in (first, second))
    mine, its = snapshot.beside.get((one, other), {}), snapshot.beside.get((other, one), {})
    if not mine or not its:
        return None
    both = managed.demands[first].per_node + managed.demands[second].per_node
    nodes = managed.demands[first].allowed & managed.demands[second].allowed & (capacity.total >= both).all(axis=1)
    found = np.zeros((2, len(kinds.names)))
    for kind, name in enumerate(kinds.names):
        fits = managed.shards[first] + managed.shards[second] <= kinds.shards[kind]
        if fits and (nodes & (kinds.of_node == kind)).any() and name in mine and name in its:
            found[:, kind] = mine[name], its[name]
    return found if found.any() else None


def allocated(
    before: Mapping[Pair, PairRounds],
    pairs: Pairs | None,
    pairs_x: NDArray[np.float64] | None,
    managed: GavelJobs,
    elapsed_s: float,
) -> dict[Pair, PairRounds]:
    """Return the pairs to which time is allocated now, with what they are behind by from `elapsed_s` before."""
    found: dict[Pair, PairRounds] = {}
    if pairs is None or pairs_x is None:
        return found
    for place in np.flatnonzero((pairs_x > 0).any(axis=1)).tolist():
        first, second = managed.jobs[int(pairs.first[place])].job_id, managed.jobs[int(pairs.second[place])].job_id
        pair = (first, second) if first < second else (second, first)
        old = before.get(pair)
        none = (0.0,) * pairs_x.shape[1]
        behind = none
        if old is not None:
            was, had, got = (np.array(part) for part in (old.deficit_s, old.share, old.received_s))
            behind = tuple(deficits(was, had, got, elapsed_s).tolist())
        found[pair] = PairRounds(jobs=pair, share=tuple(pairs_x[place].tolist()), received_s=none, deficit_s=behind)
    return found


def claims_of(
    pairs: Mapping[Pair, PairRounds],
    managed: GavelJobs,
    free: NDArray[np.intp],
    given_s: NDArray[np.float64],
    head_start_s: float,
) -> tuple[NDArray[np.int64], Claims]:
    """Return the pairs of which both jobs are among `free`, by their places there, and what they claim."""
    place = {managed.jobs[row].job_id: at for at, row in enumerate(free.tolist())}
    mine = [pair for pair in pairs if pair[0] in place and pair[1] in place]
    members = np.array([sorted((place[one], place[two])) for one, two in mine], dtype=np.int64).reshape(-1, 2)

    def table(name: str) -> NDArray[np.float64]:
        return np.array([getattr(pairs[pair], name) for pair in mine], dtype=np.float64).reshape(-1, len(given_s))

    share = table("share")
    priority = priorities(share, table("received_s") + head_start_s, given_s, np.ones_like(share))
    return members, Claims(priority=priority, deficit_s=table("deficit_s"), share=share)


def unshared(view: View, kinds: Kinds, policy: str, *, sharing: bool) -> Iterator[tuple[JobId, str]]:
    """Yield for each job that asks for shards, where none are shared by tesched, why not."""
    if sharing and not kinds.unshared:
        return
    why = kinds.unshared if sharing else f"policy.gavel.allocator is {policy}"
    text = f"it asks for shards, and Slurm alone says where: GPUs are not shared by turns, since {why}"
    snapshot = view.snapshot
    for job_id, job in snapshot.jobs.items():
        if not job.finished and snapshot.job_class(job_id) is JobClass.BE and requested_shards(job):
            yield job_id, text
