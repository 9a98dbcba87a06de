"""Gavel's rounds with pairs of jobs on the same accelerators, at the speeds that were measured for the pair.

As the authors' simulator (rounds.py), with combinations, a job alone or a pair, in the place of jobs (pair_rounds.py in
core): a combination has its fraction, its time received and its deficit. In a pair each job goes at its own speed
beside the other, to the end of its slice: also if the other has ended before, since nothing is moved in mid-round.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from tesched_policies.gavel.pair_rounds import ALONE, Claims, assign_sharing
from tesched_policies.gavel.round_scheduling import deficits, priorities

from tesched_papers.gavel.rounds import Allocate, Cluster, Division, Manner, Run, Waiting
from tesched_papers.gavel.throughputs import TYPES
from tesched_papers.gavel.workload import GavelJob

_Pair = tuple[int, int]


class SharingRun(Run):
    """The same state, with the pairs to which time is allocated."""

    by_job: ClassVar[tuple[str, ...]] = (*Run.by_job, "partner")

    def __init__(
        self, jobs: Iterator[GavelJob], cluster: Cluster, allocate: Allocate, manner: Manner, seed: int
    ) -> None:
        """Begin with an empty cluster."""
        super().__init__(jobs, cluster, allocate, manner, seed)
        #: by the indices of its two jobs, the lower one first; (T,) each: X, seconds received, deficit
        self.pair_share: dict[_Pair, NDArray[np.float64]] = {}
        self.pair_received_s: dict[_Pair, NDArray[np.float64]] = {}
        self.pair_deficit_s: dict[_Pair, NDArray[np.float64]] = {}
        #: (2, T) steps/s of each of them beside the other
        self.pair_speed: dict[_Pair, NDArray[np.float64]] = {}
        #: index of the job with which it shares its accelerators in this round, or ALONE
        self.partner = np.zeros(0, dtype=np.int64)

    def arrive(self) -> None:
        """Take in all jobs that have come by now."""
        super().arrive()
        self.partner = np.append(self.partner, np.full(len(self.jobs) - len(self.partner), ALONE, dtype=np.int64))

    def leave(self, done: NDArray[np.intp]) -> list[int]:
        """Take out the jobs that are done, and their pairs."""
        ended = set(super().leave(done))
        for kept in (self.pair_share, self.pair_received_s, self.pair_deficit_s, self.pair_speed):
            for pair in [pair for pair in kept if ended & set(pair)]:
                del kept[pair]
        return sorted(ended)

    def book(self, running: NDArray[np.intp], took_s: NDArray[np.float64]) -> None:
        """Count the time to jobs alone, and once to each pair: until the later of its jobs has ended its slice."""
        alone = self.partner[running] == ALONE
        super().book(running[alone], took_s[alone])
        by_pair: dict[_Pair, tuple[int, float]] = {}
        for row, seconds in zip(running[~alone].tolist(), took_s[~alone].tolist(), strict=True):
            pair = self._pair(row)
            by_pair[pair] = int(self.on[row]), max(seconds, by_pair.get(pair, (0, 0.0))[1])
        for pair, (kind, seconds) in by_pair.items():
            self.pair_received_s[pair][kind] += seconds
            self.given_s[kind] += seconds

    def ask(self, waiting: Waiting, elapsed_s: float) -> NDArray[np.float64]:
        """Return the new fractions of jobs alone, and keep those of pairs."""
        for pair, share in self.pair_share.items():
            received_s = self.pair_received_s[pair] - self.head_start_s
            self.pair_deficit_s[pair] = deficits(self.pair_deficit_s[pair], share, received_s, elapsed_s)
        answer = self.allocate(waiting)
        self.pair_share, self.pair_received_s, self.pair_speed = {}, {}, {}
        if not isinstance(answer, Division):
            return answer
        pairs, pairs_x = answer.pairs, answer.pairs_x
        for place in np.flatnonzero(pairs_x.max(axis=1, initial=0.0) > 0).tolist():
            first, second = int(pairs.first[place]), int(pairs.second[place])
            speed = np.stack([pairs.first_throughput[place], pairs.second_throughput[place]])
            if first > second:
                first, second, speed = second, first, speed[::-1]
            pair = int(waiting.job[first]), int(waiting.job[second])
            # Where one of them has no step in a round they do not run.
            runs = np.floor(speed * (self.cluster.round_s - self.cluster.restart_cost_s)).min(axis=0) > 0
            self.pair_share[pair] = np.where(runs, pairs_x[place], 0.0)
            self.pair_received_s[pair] = np.full(len(TYPES), self.head_start_s)
            self.pair_speed[pair] = speed
            self.pair_deficit_s.setdefault(pair, np.zeros(len(TYPES)))
        return answer.x

    def place(self) -> NDArray[np.intp]:
        """Return the type of each job in this round, and keep the pairs that share."""
        row_of = {job.index: row for row, job in enumerate(self.jobs)}
        pairs = list(self.pair_share)
        members = np.array([(row_of[one], row_of[other]) for one, other in pairs], dtype=np.int64).reshape(-1, 2)
        share = self._table(self.pair_share, pairs)
        placed = assign_sharing(
            self.order_of_types(),
            Claims(
                priority=priorities(self.share, self.received_s, self.given_s, self.throughput),
                deficit_s=self.deficit_s,
                share=self.share,
            ),
            Claims(
                priority=priorities(share, self._table(self.pair_received_s, pairs), self.given_s, np.ones_like(share)),
                deficit_s=self._table(self.pair_deficit_s, pairs),
                share=share,
            ),
            members,
            throughput=self.throughput,
            scale_factor=self.scale_factor,
            capacity=self.capacity,
        )
        index = np.array([job.index for job in self.jobs], dtype=np.int64)
        self.partner = np.where(placed.partner == ALONE, ALONE, index[placed.partner])
        return placed.kind

    def speeds(self, rows: NDArray[np.intp], kinds: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return steps/s on these types, alone or beside the partner."""
        found = super().speeds(rows, kinds)
        for place, row in enumerate(rows.tolist()):
            if self.partner[row] != ALONE:
                pair = self._pair(row)
                found[place] = self.pair_speed[pair][pair.index(self.jobs[row].index), kinds[place]]
        return found

    def held(self, rows: NDArray[np.intp], took_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return accelerator-seconds of each slice: a pair's count once, for the later of the two."""
        found = super().held(rows, took_s)
        until = dict(zip(rows.tolist(), took_s.tolist(), strict=True))
        row_of = {job.index: row for row, job in enumerate(self.jobs)}
        for place, row in enumerate(rows.tolist()):
            if self.partner[row] == ALONE:
                continue
            other = row_of[int(self.partner[row])]
            if (until[row], -row) < (until[other], -other):
                found[place] = 0.0
        return found

    def _pair(self, row: int) -> _Pair:
        mine, other = self.jobs[row].index, int(self.partner[row])
        return (mine, other) if mine < other else (other, mine)

    def _table(self, values: dict[_Pair, NDArray[np.float64]], pairs: list[_Pair]) -> NDArray[np.float64]:
        return np.array([values[pair] for pair in pairs], dtype=np.float64).reshape(-1, len(TYPES))
