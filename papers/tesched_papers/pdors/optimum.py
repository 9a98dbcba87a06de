"""The offline optimum: all jobs known in advance, as one integer program, for instances small enough.

Variables, for job i, slot t, machine h: workers and servers w, s (whole); y_iht = 1 if all of the job are on h in t;
e_it = 1 if it may be on several; samples done internally and externally, m_it and n_it; f_id = 1 if it ends in d.

    max    sum_i sum_d u_i(d - a_i) f_id
    with   sum_d f_id <= 1; sum_h y_iht + e_it <= 1; w_iht <= F_i (y_iht + e_it), s alike; sum_h w <= F_i
           gamma_i sum_h s >= sum_h w
           c_int m_it <= sum_h w, m_it <= (F_i / c_int) sum_h y;  c_ext n_it <= sum_h w, n_it <= (F_i / c_ext) e_it
           sum_t m + n >= V_i sum_d f_id; w_iht <= F_i sum_{d >= t} f_id; capacity on each machine, resource and slot

Where a machine can take fewer than F_i workers, F_i in its rows is that number: the sooner the program is solved. A
job never needs more than ceil(F_i / gamma_i) servers. Work is not counted in units here, so what PD-ORS loses by its
units is part of what it loses.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tesched_policies.pdors.model import Speed, TrainingJob
from tesched_sim.workload import WorkloadError

from tesched_papers.pdors.algorithm.schedule import workers_on_one
from tesched_papers.pdors.algorithm.slot import most_units
from tesched_papers.pdors.workload import Instance


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimum:
    """The best utility that was found, and its upper bound."""

    #: the best utility that was found
    utility: float
    #: no schedule has more; the same, if the solver was given time enough
    bound: float


class _Rows:
    """Rows of a constraint matrix, low <= A x <= high, as they come."""

    def __init__(self) -> None:
        self.entries: list[tuple[int, int, float]] = []
        self.low: list[float] = []
        self.high: list[float] = []

    def add(self, terms: list[tuple[int, float]], low: float, high: float) -> None:
        row = len(self.low)
        self.entries.extend((row, column, value) for column, value in terms)
        self.low.append(low)
        self.high.append(high)


class _Program:
    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.rows = _Rows()
        self.cost: list[float] = []
        self.most: list[float] = []
        self.whole: list[int] = []
        #: (slot, machine) -> (column, what it takes)
        self.taken: dict[tuple[int, int], list[tuple[int, NDArray[np.float64]]]] = {}
        for job in instance.jobs:
            self._job(job)
        for (_, machine), terms in self.taken.items():
            for resource, there in enumerate(instance.machines.capacity[machine]):
                self.rows.add([(column, float(amount[resource])) for column, amount in terms], -np.inf, float(there))

    def _new(self, most: float, *, whole: bool = True, cost: float = 0.0) -> int:
        self.cost.append(cost)
        self.most.append(most)
        self.whole.append(int(whole))
        return len(self.cost) - 1

    def _job(self, job: TrainingJob) -> None:
        slots = range(job.arrival, self.instance.horizon)
        ends = {slot: self._new(1.0, cost=-float(job.utility.worth(np.array(slot - job.arrival)))) for slot in slots}
        self.rows.add([(column, 1.0) for column in ends.values()], -np.inf, 1.0)
        work = [(column, -job.samples) for column in ends.values()]
        for slot in slots:
            work += [(column, 1.0) for column in self._slot(job, slot, [ends[end] for end in slots if end >= slot])]
        self.rows.add(work, 0.0, np.inf)

    def _slot(self, job: TrainingJob, slot: int, later_ends: list[int]) -> tuple[int, int]:
        """Add what a job may do in a slot, and return the columns of its samples."""
        machines, rows = range(len(self.instance.machines)), self.rows
        most, most_w, most_s, alone_most = self._limits(job)
        several = self._new(1.0)
        alone = [self._new(1.0 if alone_most[one] else 0.0) for one in machines]
        workers = [self._new(most_w[one]) for one in machines]
        servers = [self._new(most_s[one]) for one in machines]
        rows.add([(several, 1.0), *((one, 1.0) for one in alone)], -np.inf, 1.0)
        for machine in machines:
            for count, limit in ((workers[machine], most_w[machine]), (servers[machine], most_s[machine])):
                rows.add([(count, 1.0), (alone[machine], -limit), (several, -limit)], -np.inf, 0.0)
            rows.add([(workers[machine], 1.0), *((end, -most_w[machine]) for end in later_ends)], -np.inf, 0.0)
            self.taken.setdefault((slot, machine), []).extend(
                ((workers[machine], job.worker), (servers[machine], job.server))
            )
        every = [(one, 1.0) for one in workers]
        rows.add(every, -np.inf, most)
        rows.add([*every, *((one, -float(job.workers_per_server)) for one in servers)], -np.inf, 0.0)
        done = []
        switches = ([(one, -alone_most[machine]) for machine, one in enumerate(alone)], [(several, -most)])
        for internal, some in zip((True, False), switches, strict=True):
            takes = 1.0 / job.samples_per_slot(1, internal=internal)
            samples = self._new(np.inf, whole=False)
            rows.add([(samples, takes), *((one, -1.0) for one in workers)], -np.inf, 0.0)
            rows.add([(samples, takes), *some], -np.inf, 0.0)
            done.append(samples)
        return done[0], done[1]

    def _limits(self, job: TrainingJob) -> tuple[float, list[float], list[float], list[float]]:
        """Return the most workers, and of each machine alone: workers, servers, workers with their servers.

        The tighter these are, the sooner the program is solved.
        """
        machines = self.instance.machines
        nothing = np.zeros(len(machines))
        holds_w = most_units(machines.capacity, np.where(machines.takes_workers, nothing, np.inf), job.worker)
        holds_s = most_units(machines.capacity, np.where(machines.takes_servers, nothing, np.inf), job.server)
        both = machines.takes_workers & machines.takes_servers
        together = [
            workers_on_one(job, row[np.newaxis]) * float(one) for row, one in zip(machines.capacity, both, strict=True)
        ]
        servers = -(-job.batch // job.workers_per_server)
        most_w, most_s = np.minimum(holds_w, job.batch), np.minimum(holds_s, servers)
        return float(job.batch), most_w.astype(float).tolist(), most_s.astype(float).tolist(), together


def optimum(instance: Instance, *, limit_s: float = 60.0) -> Optimum:
    """Return the offline optimum, within a time. Raises WorkloadError for the batch model, and for no answer."""
    from scipy.optimize import Bounds, LinearConstraint, milp  # noqa: PLC0415 - needed only on request
    from scipy.sparse import csr_array  # noqa: PLC0415

    if any(job.speed is not Speed.LINEAR for job in instance.jobs):
        raise WorkloadError("workload.speed: the optimum is known for linear only")
    program = _Program(instance)
    rows = program.rows
    where = ([row for row, _, _ in rows.entries], [column for _, column, _ in rows.entries])
    matrix = csr_array(([value for _, _, value in rows.entries], where), shape=(len(rows.low), len(program.cost)))
    found = milp(
        program.cost,
        integrality=program.whole,
        bounds=Bounds(0, program.most),
        constraints=LinearConstraint(matrix, rows.low, rows.high),
        options={"time_limit": limit_s, "mip_rel_gap": 1e-6},
    )
    if found.x is None:
        raise WorkloadError(f"the optimum of seed {instance.seed} was not found in {limit_s:g} s")
    return Optimum(utility=-float(found.fun), bound=-float(found.mip_dual_bound))
