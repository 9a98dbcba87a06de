"""Ledger of what tesched has really done on a faulty site, and what must hold of it at every step."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tesched_core.intake.ends_for_good import ends_when_preempted
from tesched_core.model.actions import Action, Cancel, Notify, OrderId, Requeue, Rerun, Resume, Suspend
from tesched_core.model.cluster import JobState
from tesched_core.model.decision import Decision
from tesched_core.model.limits import Limits
from tesched_core.model.memory import Memory
from tesched_core.model.order import HOLDS_RESOURCES, Ending, OrderState
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass, Snapshot

from tesched_testcluster.harness.faults.faulty_slurm import CPUS, FaultySlurm, Work


@dataclass(kw_only=True)
class Ledger:
    """Ledger of what tesched has really done, and what must hold of it."""

    slurm: FaultySlurm
    limits: Limits
    #: users with protected jobs
    protected: frozenset[str]
    #: when a notice, or a requeue or a cancel, reached a run, by order, job and restarts
    noticed: dict[tuple[OrderId | None, JobId, int], float] = field(default_factory=dict)
    requeued: dict[tuple[OrderId | None, JobId, int], float] = field(default_factory=dict)
    #: the same of suspensions
    suspended: dict[tuple[OrderId | None, JobId, int], float] = field(default_factory=dict)
    #: whose TE job an order is for
    te_users: dict[OrderId | None, str] = field(default_factory=dict)
    #: runs that it has meant to suspend: another suspension of them cannot be distinguished from tesched's
    may_be_suspended: set[tuple[JobId, int]] = field(default_factory=set)
    #: which daemon has written last what it means
    meant_by: str = ""
    paused: bool = False
    #: the clock was set forward while no daemon could see it, so nothing can be said of times any more; and daemons
    #: that can see it, but have not written yet
    untimed: bool = False
    knows_of_jump: str = ""
    #: runs that held their nodes when `undo` let them go: one that leaves all the same is not counted
    undone: set[tuple[JobId, int]] = field(default_factory=set)
    #: when a daemon last saw the cluster
    good_look_s: float = 0.0
    known_orders: set[OrderId] = field(default_factory=set)
    endings: dict[OrderId | None, str] = field(default_factory=dict)
    #: faults that have really happened, and actions that were performed
    happened: Counter[str] = field(default_factory=Counter)

    def check_decision(self, snapshot: Snapshot, memory: Memory, decision: Decision) -> None:
        """Check what is meant against what was seen."""
        new = {order_id for order_id in memory.orders if order_id not in self.known_orders}
        asked: set[JobId] = set()
        for action in decision.actions:
            job = snapshot.jobs[action.job_id]
            if isinstance(action, Rerun):
                # It may be put back while its nodes are completing (`orders/early_rerun.py`).
                assert (job.state, job.restarts) == (JobState.FAILED, action.restarts)
                assert (action.reason.order_id, job.job_id, job.restarts) in self.noticed, "it failed by itself"
                assert not ends_when_preempted(job.comment), "it was not to run again"
                continue
            if not isinstance(action, Notify | Requeue | Cancel | Suspend):
                assert not job.finished, f"{action} of a job that has ended"
                assert snapshot.job_class(job.job_id) is not JobClass.EXEMPT, f"{action} of a protected job"
                continue
            assert action.job_id not in asked, "asked twice in one cycle"
            asked.add(action.job_id)
            # The very run that was meant, still on its nodes, and not on its way out.
            assert (job.state, job.completing) == (JobState.RUNNING, False)
            if isinstance(action, Suspend):
                self.may_be_suspended.add((job.job_id, job.restarts))
            else:
                assert action.restarts == job.restarts
            if isinstance(action, Requeue | Cancel):
                assert isinstance(action, Cancel) is ends_when_preempted(job.comment), "not as its owner has said"
            assert snapshot.job_class(job.job_id) is JobClass.BE
            assert job.batch
            assert job.requeueable
            assert job.user not in self.protected
            if action.reason.order_id in new:
                assert job.start_time is not None
                assert snapshot.taken_at - job.start_time >= self.limits.min_run_time_s
        orders = memory.open_orders()
        # The orders of turns have the policy's own limits.
        freeing = [one for one in orders if one.frees_resources]
        for_trials = [one for one in freeing if snapshot.job_class(one.preemptor) is not JobClass.BE]
        assert len(for_trials) <= self.limits.max_open_orders
        assert not (new and self.paused), "an order was opened while tesched was paused"
        fresh = [victim for order_id in new for victim in memory.orders[order_id].victims]
        assert len(fresh) <= self.limits.max_victims_per_cycle
        paying = [one.job_id for order in orders for one in order.victims if one.state in HOLDS_RESOURCES]
        assert len(set(paying)) == len(paying), "one job pays for two orders"
        served = [order.preemptor for order in orders if order.state is OrderState.OPEN]
        assert len(set(served)) == len(served), "two orders for one job"

    def written(self, memory: Memory, by: str) -> None:
        """Take in that a decision is in the store."""
        self.untimed = self.untimed or self.knows_of_jump not in {"", by}
        self.knows_of_jump = ""
        self.meant_by = by
        self.known_orders |= memory.orders.keys()
        for order_id, order in memory.orders.items():
            if order.ended_at is not None and order.ending is not None:
                self.endings[order_id] = order.ending.value

    def check_action(self, action: Action, by: str) -> None:
        """Check an action right before it is performed."""
        assert self.meant_by == by, f"{by} acts after {self.meant_by} has taken over"
        if isinstance(action, Resume):
            self._check_capacity_of(action.job_id)
        if not isinstance(action, Notify | Requeue | Cancel | Suspend):
            return
        restarts = self.slurm.jobs[action.job_id].restarts
        key = (action.reason.order_id, action.job_id, restarts)
        now = self.slurm.clock.steady_s
        trial = self._work(action.reason.preemptor)
        self.te_users[action.reason.order_id] = trial.user if trial else ""
        if isinstance(action, Notify):
            assert key not in self.noticed, "a second notice for one order"
        assert key not in self.requeued, "a second requeue for one order"
        if self.untimed:
            return
        work = self.slurm.jobs[action.job_id]
        if isinstance(action, Requeue | Cancel) and key in self.noticed:
            # Slurm's clock counts what ours does: a second is the smallest step.
            assert now - self.noticed[key] >= work.grace_s, "requeued before its grace period was over"
        paid = self.paid()
        for done in (self.noticed, self.requeued, self.suspended):
            for (order_id, job_id, run), at in done.items():
                if job_id != action.job_id or order_id == action.reason.order_id:
                    continue
                if done is self.suspended or (job_id, run) in paid:
                    counts = not self._of_own_user(job_id, run)
                else:  # it was let go: by an admin for a while, else for the TE jobs of the same user
                    same = self.te_users[order_id] == self.te_users[action.reason.order_id]
                    counts = same or self.endings.get(order_id) == Ending.WITHDRAWN
                assert not counts or now - at >= self.limits.cool_down_s, "asked again before its cool-down was over"

    def _work(self, job_id: JobId | None) -> Work | None:
        """Return what is known of a job."""
        known = self.slurm.jobs.get(job_id) if job_id is not None else None
        return known or next((one for one in self.slurm.forgotten if one.job_id == job_id), None)

    def _of_own_user(self, job_id: JobId, restarts: int) -> bool:
        """Check whether the last preemptor of this run is a TE job of its own user: that counts for that user alone."""
        work = self._work(job_id)
        return work is not None and self._asked_by(job_id, restarts) == work.user

    def _asked_by(self, job_id: JobId, restarts: int) -> str:
        """Return whose TE job was the last to ask this run; empty for none."""
        asked = [
            (at, order_id)
            for done in (self.noticed, self.requeued, self.suspended)
            for (order_id, one, run), at in done.items()
            if (one, run) == (job_id, restarts)
        ]
        return self.te_users[max(asked, key=lambda pair: pair[0])[1]] if asked else ""

    def _check_capacity_of(self, job_id: JobId) -> None:
        """Check that a resumed job has its CPUs for itself: Slurm would let it share them."""
        work = self.slurm.jobs[job_id]
        others = (one for one in self.slurm.jobs.values() if one.node == work.node and one is not work)
        assert not work.suspended_by_user, f"job {job_id} was suspended by somebody else"
        held = sum(one.cpus for one in others if one.state is not JobState.SUSPENDED)
        assert held + work.cpus <= CPUS, f"job {job_id} is resumed beside others on its CPUs"

    def check(self) -> None:
        """Check what holds whenever no daemon is in the middle of a turn."""
        every = self.paid()
        paid = {run: at for run, at in every.items() if not self._of_own_user(*run)}
        for job_id, times in Counter(job_id for job_id, _ in paid).items():
            assert times <= self.limits.max_preemptions_per_job, f"job {job_id} was preempted {times} times"
        if self.untimed:
            return
        users = {work.job_id: work.user for work in (*self.slurm.jobs.values(), *self.slurm.forgotten)}
        now = self.slurm.clock.steady_s
        by_user = Counter(users[job_id] for (job_id, _), at in paid.items() if now - at < 3600)
        most = self.limits.max_preemptions_per_user_hour
        assert not by_user or max(by_user.values()) <= most, "a user paid more than his hour allows"
        caused = Counter(self._asked_by(*run) for run, at in every.items() if now - at < 3600)
        most = self.limits.max_victims_for_te_user_hour
        assert max((caused[user] for user in caused if user), default=0) <= most, "a TE user caused too many"
        lately = [at for at in paid.values() if now - at < 3600]
        assert len(lately) <= self.limits.max_preemptions_per_hour

    def paid(self) -> dict[tuple[JobId, int], float]:
        """Return the runs that tesched has ended, or that left because of its notice, and when."""
        runs = {(job_id, restarts): at for (_, job_id, restarts), at in self.requeued.items()}
        return {run: at for run, at in (self.slurm.answered | runs).items() if run not in self.undone}
