"""One episode of the attack on guard.bound: a cluster, its users, the daemon's polls, and the ledger.

Definitions
    poll        one call of `step`, at most `poll_s` after the one before
    kill        the daemon ends before, between or after its commands, and goes on with what the store keeps
    outage      a time without polls, longer than `poll_s`: beyond what is guaranteed, unless TE jobs that wait are held

Principle
    All chance comes from one seed. What the attack draws is meant to hurt: TE jobs as long as their limit, in floods of
    up to 150 % of the cluster, BE jobs of the length of one TE job, false words on run times, notices ignored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import inf
from random import Random

from tesched_core.model.actions import Outcome, Status
from tesched_core.model.change import TeRules
from tesched_core.model.decision import Admission, Decision, RefusalCode
from tesched_core.model.job_memory import NOTHING
from tesched_core.model.limits import Bound, Limits
from tesched_core.model.memory import Memory
from tesched_core.model.resources import JobId
from tesched_core.orders.clock_jump import shift_times
from tesched_core.orders.outcomes import learned
from tesched_core.policy import PolicyEntry, in_turn
from tesched_core.step import step
from tesched_policies.fitgpp import FitGpp

from tesched_testcluster.harness.bound.jobs import Heeds, ModelJob, Order, Site
from tesched_testcluster.harness.bound.ledger import Ledger, Terms
from tesched_testcluster.harness.bound.small_slurm import SmallSlurm

#: seconds after which slurmctld checks time limits again
TIME_LIMITS_EACH_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """Which means the attack has."""

    #: the submission hook holds TE jobs that are not admitted
    hook: bool = True
    #: chance that a poll ends in a kill
    kills: float = 0.02
    #: chance that a poll is followed by an outage
    outages: float = 0.0
    #: most seconds by which the clock is set now and then; 0: it is not
    clock_s: float = 0.0
    #: chance that a BE job's owner says a false run time
    lies: float = 0.3
    #: TE jobs with longer time limits than guard.bound.te_time_limit_s, and without any
    long_te: bool = False
    #: chance that a BE job's owner says preempted=end
    ends: float = 0.0


@dataclass(slots=True, eq=False)
class Episode:
    """One run."""

    seed: int
    arrivals: int
    attack: Attack
    ledger: Ledger = field(init=False)
    slurm: SmallSlurm = field(init=False)
    limits: Limits = field(init=False)
    refusals: Counter[str] = field(default_factory=Counter)
    polls: int = 0
    kills: int = 0
    te_jobs: int = 0
    held: int = 0
    _chance: Random = field(init=False)
    _memory: Memory = field(default_factory=Memory)
    _admission: Admission | None = None
    _policies: tuple[PolicyEntry, ...] = field(init=False)
    _poll_s: float = field(init=False)
    _refused: set[tuple[JobId, RefusalCode]] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Draw the site."""
        chance = self._chance = Random(self.seed)  # noqa: S311
        poll_s = self._poll_s = chance.choice([10.0, 30.0])
        te_limit_s = chance.choice([60.0, 120.0])
        site = Site(
            nodes=chance.choice([1, 2, 2, 4]),
            cpus=chance.choice([2, 4]),
            kill_wait_s=chance.choice([5, 30]),
            requeue_delay_s=chance.choice([0, 10, 121]),
            late_s=chance.choice([0.0, TIME_LIMITS_EACH_S]),
            order=chance.choice([Order.FIFO, Order.EASY, Order.EASY]),
            te_first=chance.random() < 0.5,
        )
        self.limits = Limits(
            max_preemptions_per_job=(most := chance.choice([1, 2, 4, 10])),
            max_lost_runs_per_job=most,
            min_run_time_s=chance.choice([0.0, 30.0]),
            cool_down_s=chance.choice([0.0, 0.0, 120.0]),
            max_slowdown=chance.choice([10.0, 1000.0]),
            retry_after_s=chance.choice([5.0, 60.0]),
            await_first_look=chance.random() < 0.5,
            bind_for_s=chance.choice([0.0, 60.0]),
            wait_for_free_s=chance.choice([0.0, 10.0]),
            bound=Bound(slowdown=chance.choice([1.2, 2.0, 4.0, 8.0]), te_time_limit_s=te_limit_s),
        )
        terms = Terms(
            slowdown=self.limits.bound.slowdown,
            te_time_limit_s=te_limit_s,
            min_run_time_s=self.limits.min_run_time_s,
            poll_s=poll_s,
            kill_wait_s=site.kill_wait_s,
            requeue_delay_s=site.requeue_delay_s,
            late_s=TIME_LIMITS_EACH_S + site.kill_wait_s,
        )
        self.ledger = Ledger(terms)
        self.slurm = SmallSlurm(site, Random(self.seed + 1), self.ledger)  # noqa: S311
        self._policies = in_turn(FitGpp())

    def run(self) -> None:
        """Run it until every job is over."""
        slurm, chance = self.slurm, self._chance
        arrivals = self._arrivals()
        next_arrival, next_poll = next(arrivals, None), 0.0
        while next_arrival is not None or slurm.next_at() < inf or self._any_waits():
            if next_arrival is not None and next_arrival[0] <= next_poll:
                at, job = next_arrival
                slurm.pass_until(at)
                self.te_jobs += job.te
                slurm.submit(job, held=job.te and self.attack.hook and not self._is_admitted(job))
                next_arrival = next(arrivals, None)
                continue
            if not self._any_waits() and not self._memory.open_orders():
                # Polls would do nothing before an event.
                at = min(slurm.next_at(), inf if next_arrival is None else next_arrival[0])
                next_poll = max(next_poll, at + self._poll_s * chance.random())
                if next_arrival is not None and next_arrival[0] <= next_poll:
                    continue
            slurm.pass_until(next_poll)
            self._poll()
            gap_s = self._poll_s * chance.uniform(0.2, 1.0)
            if chance.random() < self.attack.outages:
                gap_s += chance.uniform(0, 20 * self._poll_s)
            if self.attack.clock_s and chance.random() < 0.01:
                self._set_clock(chance.uniform(-self.attack.clock_s, self.attack.clock_s))
            next_poll = slurm.now + gap_s
            if self.polls > 40 * self.arrivals + 10_000:
                raise RuntimeError(f"seed {self.seed}: it does not end")

    def _any_waits(self) -> bool:
        return any(job.state == "PENDING" for job in self.slurm.jobs.values())

    # The users.

    def _arrivals(self) -> Iterator[tuple[float, ModelJob]]:
        """Yield the jobs with their times: phases of a flood, of few TE jobs and of none, over a queue of BE jobs."""
        chance, site = self._chance, self.slurm.site
        te_limit_s = self.ledger.terms.te_time_limit_s
        capacity = site.nodes * site.cpus
        now, job_id = 0.0, 0
        while job_id < self.arrivals:
            te_load, be_load = chance.choice([0.2, 0.5, 1.0, 1.5]), chance.choice([0.2, 1.0, 3.0])
            ends = now + chance.uniform(2, 12) * te_limit_s
            while now < ends and job_id < self.arrivals:
                job_id += 1
                job = (
                    self._te_job(job_id) if chance.random() < self._te_part(te_load, be_load) else self._be_job(job_id)
                )
                used = job.nodes * job.cpus * min(job.run_s, inf if job.limit_s is None else job.limit_s)
                if chance.random() < 0.8:  # the others come at once
                    now += chance.expovariate(1) * used / capacity / (te_load + be_load)
                yield now, job

    @staticmethod
    def _te_part(te_load: float, be_load: float) -> float:
        """Return which part of the arrivals are TE jobs; a BE job is about twice as long as one."""
        return te_load / (te_load + be_load / 2)

    def _te_job(self, job_id: int) -> ModelJob:
        chance, site, most_s = self._chance, self.slurm.site, self.ledger.terms.te_time_limit_s
        limit_s: int | None = int(chance.choice([most_s, most_s, most_s / 2, most_s / 10]))
        if self.attack.long_te and chance.random() < 0.03:
            limit_s = chance.choice([int(3 * most_s), None])
        longest_s = float(3 * most_s if limit_s is None else limit_s)
        return ModelJob(
            job_id=JobId(job_id),
            te=True,
            user=chance.choice(["a", "b", "c"]),
            nodes=chance.choice([1, 1, 1, site.nodes]),
            cpus=chance.choice([1, 1, site.cpus]),
            limit_s=limit_s,
            run_s=longest_s * chance.choice([0.05, 0.3, 0.9, 1.0, 2.0]),
            cancel_s=chance.uniform(0, 2 * most_s) if chance.random() < 0.1 else chance.uniform(2, 10) * most_s,
        )

    def _be_job(self, job_id: int) -> ModelJob:
        chance, site, most_s = self._chance, self.slurm.site, self.ledger.terms.te_time_limit_s
        run_s = most_s * chance.choice([0.05, 0.5, 1.0, 2.0, 5.0]) * chance.uniform(0.8, 1.2)
        limit_s = chance.choice([None, int(run_s) + 1, int(2 * run_s) + 1, int(0.7 * run_s) + 1])
        said_s = None
        if chance.random() < 0.5:
            said_s = run_s * (chance.choice([0.1, 0.5, 2.0, 20.0]) if chance.random() < self.attack.lies else 1.0)
        return ModelJob(
            job_id=JobId(job_id),
            te=False,
            user=chance.choice(["a", "d", "e"]),
            nodes=chance.choice([1, 1, 2, site.nodes]) if site.nodes > 1 else 1,
            cpus=chance.choice([1, site.cpus]),
            limit_s=limit_s,
            run_s=run_s,
            said_s=said_s,
            grace_s=chance.choice([0.0, 0.0, 5.0, 30.0]),
            heeds=chance.choice([Heeds.IGNORES, Heeds.IGNORES, Heeds.REQUEUES, Heeds.FINISHES, Heeds.FAILS]),
            saves_each_s=chance.choice([None, None, 5.0, 30.0]),
            cancel_s=chance.uniform(0, 4 * run_s) if chance.random() < 0.05 else inf,
            # The seeds of an attack without it draw what they drew.
            ends=bool(self.attack.ends) and chance.random() < self.attack.ends,
        )

    # The daemon.

    def _is_admitted(self, job: ModelJob) -> bool:
        admission = self._admission
        if admission is None or job.limit_s is None:
            return False
        admitted = self.slurm.clock <= admission.until and job.limit_s <= admission.most_s
        self.held += not admitted
        return admitted

    def _poll(self) -> None:
        slurm, chance = self.slurm, self._chance
        self.polls += 1
        snapshot = slurm.snapshot()
        self._memory, decision = step(self._memory, snapshot, self._policies, self.limits, longest_wait_s=self._poll_s)
        self._count(decision)
        killed = chance.random() < self.attack.kills
        actions = decision.actions
        if killed:
            self.kills += 1
            actions = actions[: chance.randint(0, len(actions))]
        outcomes: list[Outcome] = []
        failed: set[int | None] = set()
        for action in actions:
            if action.reason.order_id is not None and action.reason.order_id in failed:
                outcomes.append(Outcome(action=action, status=Status.SKIPPED, at=slurm.clock))
                continue
            outcome = slurm.act(action)
            if outcome.failure is not None:
                failed.add(action.reason.order_id)
            outcomes.append(outcome)
        if killed:
            self._memory = _after_a_kill(self._memory)
        elif outcomes:
            self._memory, _ = learned(self._memory, outcomes, slurm.clock, self.limits, seen=snapshot)
        if not killed:
            self._admission = decision.admission
        slurm.schedule()

    def _count(self, decision: Decision) -> None:
        for one in decision.refusals:
            key = one.job_id, one.code
            if one.job_id == one.preemptor and key not in self._refused:
                self._refused.add(key)
                self.refusals[one.code] += 1

    def _set_clock(self, by_s: float) -> None:
        self.slurm.clock_s += by_s
        self._memory = shift_times(self._memory, by_s)


def _after_a_kill(memory: Memory) -> Memory:
    """Return what the store keeps of a memory (`Memory`)."""
    return replace(
        memory,
        declined=frozenset(),
        newly_lost=frozenset(),
        jobs={job_id: kept for job_id, one in memory.jobs.items() if (kept := one.lasting) != NOTHING},
        te_rules=TeRules(),
        te_runs={},
        te_poll=None,
        examined=None,
        answers=None,
    )
