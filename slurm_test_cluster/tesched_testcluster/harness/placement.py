"""tesched's answer to a request against what a real Slurm does.

On random small clusters, full of random best-effort jobs that sleep, random trial-and-error jobs are submitted, one at
a time. tesched (its observer, and FitGpp's planning) says: it fits now; it fits on these nodes if these jobs go; or why
neither. Then exactly those jobs go, the job is bound to those nodes as the daemon binds it, and Slurm shows what it
does. Where tesched refused, all jobs go, and Slurm shows whether it would have started the job.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import numpy as np
from tesched_core.intake.pending_reason import WAITS_FOR_RESOURCES
from tesched_core.model.actions import Failure
from tesched_core.model.capacity import Capacity
from tesched_core.model.cluster import HELD_BY_ITS_USER, Job
from tesched_core.model.decision import Refusal
from tesched_core.model.limits import Limits
from tesched_core.model.memory import Memory
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass, Snapshot, Traits
from tesched_core.orders.first_look import certainly_serves
from tesched_core.placement.columns_of import columns_of
from tesched_core.placement.constraint import UnsupportedRequestError
from tesched_core.placement.demand import Demand, demands_of
from tesched_core.placement.eligibility import Eligibility
from tesched_core.placement.node_count import demands_if_fixed, is_open
from tesched_core.placement.reserved import fits_without_free
from tesched_core.policy import MakeRoom, View
from tesched_policies.fitgpp import FitGpp
from tesched_slurm.client_choice import ClientChoice
from tesched_slurm.clients import choose
from tesched_slurm.run_command import Commands

from tesched_testcluster.cluster import ClusterError
from tesched_testcluster.harness.placement_cases import cluster_with, plain, request_with, running_request
from tesched_testcluster.harness.placement_least import smaller_sets, wish_of
from tesched_testcluster.harness.placement_outcome import Awaited, Case, Verdict
from tesched_testcluster.harness.placement_record import brief_record, full_record, held_record, log_size
from tesched_testcluster.local import LocalCluster
from tesched_testcluster.patience import Patience

#: best-effort jobs that run on a cluster, more or less
FILL = 12
#: so few that new ones are submitted
LOW = 9
#: seconds (of an idle machine) that Slurm has to start a job that fits, and to leave alone one that does not
STARTS_WITHIN_S, STAYS_FOR_S = 6.0, 2.5
#: Between two reads of the queue: short at first, then longer, since each costs as much as a pass of Slurm.
_PAUSE_S, _LONGEST_PAUSE_S = 0.04, 0.3
#: part of the cases in which it is checked whether fewer victims would do
LEAST_ASKED = 0.5
_BE = Traits(job_class=JobClass.BE, rule="benchmark", grace_period_s=30, grace_source="benchmark")
_TE = Traits(job_class=JobClass.TE, rule="benchmark", grace_period_s=30, grace_source="benchmark")


@dataclass(kw_only=True)
class Oracle:
    """A cluster that is tried out."""

    cluster: LocalCluster
    seed: str
    about: str = ""
    rng: Random = field(default_factory=Random)
    #: words that each request must have
    only: tuple[str, ...] = ()
    _pool: list[int] = field(default_factory=list)
    #: seconds that the case at hand may take to start once its victims have left; None: as long as anything could
    _starts_within_s: float | None = None
    #: what the case at hand adds to its record
    _about: dict[str, Any] = field(default_factory=dict)

    def cases(self, count: int) -> Iterator[Case]:
        """Ask for so many requests, one after the other."""
        commands = Commands(slurm_conf=str(self.cluster.slurm_conf), timeout_s=20)
        self._observer = choose(ClientChoice.COMMANDS, commands).observer
        script = self.cluster.shared / "sleep.sh"
        script.write_text("#!/bin/sh\nexec sleep 3000\n")
        self._script = script
        for number in range(count):
            # By itself: what one case has drawn, which depends on what runs at that moment, changes no later one.
            self.rng = Random(f"{self.seed}/{number}")  # noqa: S311 - nothing secret
            self._fill()
            options = request_with(self.rng, self.cluster.definition, self.only)
            case = self._case(options)
            if case is not None:
                yield case

    def _sbatch(self, *options: str) -> int | str:
        done = self.cluster.run("sbatch", "--parsable", "-o/dev/null", *options, str(self._script), check=False)
        return int(done.stdout.strip().partition(";")[0]) if done.returncode == 0 else done.stderr.strip()

    def _states(self) -> dict[int, tuple[str, str]]:
        said = self.cluster.run("squeue", "-h", "-t", "all", "-o", "%A|%T|%r").stdout
        rows = (line.split("|", 2) for line in said.splitlines())
        return {int(job_id): (state, reason) for job_id, state, reason in rows}

    def _fill(self) -> None:
        states = self._states()
        self._pool = [job_id for job_id in self._pool if states.get(job_id, ("",))[0] == "RUNNING"]
        if len(self._pool) > LOW:
            return
        new = []
        for _ in range(FILL - len(self._pool)):
            job_id = self._sbatch(*running_request(self.rng, self.cluster.definition))
            if isinstance(job_id, int):
                new.append(job_id)
        if not new:
            return

        def looked_at() -> bool:
            seen = self._states()
            return all(seen[one][0] != "PENDING" or seen[one][1] != "None" for one in new if one in seen)

        self._wait(looked_at, 5.0)
        states = self._states()
        waiting = [one for one in new if states.get(one, ("",))[0] == "PENDING"]
        self._end(waiting)
        self._pool += [one for one in new if one not in waiting]

    def _end(self, job_ids: list[int]) -> bool:
        if not job_ids:
            return True
        self.cluster.run("scancel", *map(str, job_ids), check=False)
        gone = self._wait(lambda: all(self._states().get(one, ("",))[0] in _GONE for one in job_ids), 8.0)
        self._pool = [one for one in self._pool if one not in job_ids]
        return gone

    def _wait(self, look: Callable[[], object], timeout_s: float | None) -> bool:
        patience, pause_s = Patience(timeout_s), _PAUSE_S
        while not patience.is_over():
            if look():
                return True
            time.sleep(pause_s)
            pause_s = min(1.5 * pause_s, _LONGEST_PAUSE_S)
        return False

    def _case(self, options: list[str]) -> Case | None:
        said = " ".join(options)
        # Of every other case, so that in the rest exactly the named victims leave.
        self._about = {}
        self._starts_within_s = STARTS_WITHIN_S if "--mem=0" in options else None
        least_of = options if self.rng.random() < LEAST_ASKED and "--oversubscribe" not in options else None
        log_from = log_size(self.cluster)
        te = self._sbatch("-H", *options)
        if isinstance(te, str):
            return Case(cluster=self.about, options=said, verdict=Verdict.INVALID, slurm=te)
        try:
            snapshot = self._snapshot(te)
            plan, refusal = _asked(snapshot)
            if plan is not None and plan.victims:
                capacity = columns_of(snapshot).capacity
                self._about["awaited"] = why_awaited(plan, snapshot.jobs[JobId(te)], snapshot, capacity)
            verdict, tesched, slurm, took_more = self._judge(te, snapshot, plan, refusal, least_of)
            if verdict in {Verdict.FUTILE, Verdict.NOT_FREE} and "--mem=0" in options:
                verdict, tesched, slurm, took_more = self._second_reading(te)
            if verdict in {Verdict.FUTILE, Verdict.NOT_FREE}:
                self._about |= {"record": full_record(self.cluster, te, log_from)}
            if verdict is Verdict.NEEDLESS:
                self._about["record"] = held_record(snapshot)
        finally:
            self._end([te])
        return Case(
            cluster=self.about,
            options=said,
            verdict=verdict,
            tesched=tesched,
            slurm=slurm,
            took_more=took_more,
            **self._about,
        )

    def _snapshot(self, te: int) -> Snapshot:
        patience = Patience(8.0)
        while not patience.is_over():
            seen = self._observer.observe()
            if isinstance(seen, Failure):
                raise ClusterError(seen.message)
            mine = [job for job in seen.jobs.values() if job.completing]
            if not mine and JobId(te) in seen.jobs:
                return seen.with_traits({job_id: _TE if job_id == te else _BE for job_id in seen.jobs})
            time.sleep(_PAUSE_S)
        raise ClusterError("jobs go on completing")

    def _judge(
        self,
        te: int,
        snapshot: Snapshot,
        plan: MakeRoom | None,
        refusal: Refusal | None,
        least_of: list[str] | None = None,
    ) -> tuple[Verdict, str, str, str]:
        victims = list(plan.victim_ids) if plan else []
        text = _said(plan, refusal)
        self.cluster.run("scontrol", "release", str(te), check=False)  # Slurm also says here what can never start
        self._wait(lambda: self._reason(te)[1] not in {"None", HELD_BY_ITS_USER}, 4.0)
        state, reason = self._reason(te)
        if plan is None and state == "PENDING" and reason in WAITS_FOR_RESOURCES and _may_be_spread(snapshot, te):
            # As the daemon does in its next poll: over how many nodes is known once Slurm has considered it.
            snapshot = self._snapshot(te)
            plan, refusal = _asked(snapshot)
            text = _said(plan, refusal)
            victims = list(plan.victim_ids) if plan else []
        if state == "PENDING" and plan is not None and not victims:
            self._wait(lambda: self._reason(te)[0] != "PENDING", STARTS_WITHIN_S)
            state, reason = self._reason(te)
        if state == "PENDING" and reason not in WAITS_FOR_RESOURCES:
            return Verdict.SLURM_SAYS_NO, text, reason, ""
        if state != "PENDING":
            now = self._observer.observe()
            job = now.jobs.get(JobId(te)) if isinstance(now, Snapshot) else None
            where = f"started on {_held(job)}"
            if plan is None:
                code = Verdict.NOT_MODELLED if refusal and refusal.code == "unsupported" else Verdict.MISSED
                return code, text, f"{where}, no victim had to go", ""
            if victims:
                return Verdict.AT_SLURMS_WORD if self._about.get("awaited") else Verdict.NEEDLESS, text, where, ""
            return Verdict.STARTED, text, where, _more(job, snapshot, te)
        if plan is not None and not victims:
            return Verdict.NOT_FREE, text, f"waits: {reason} {brief_record(self.cluster, te, plan.nodes)}", ""
        if plan is not None and least_of is not None and self._starts_with_fewer(te, snapshot, plan, least_of):
            now = self._observer.observe()
            held = _held(now.jobs.get(JobId(te)) if isinstance(now, Snapshot) else None)
            return Verdict.STARTED, text, f"started with {self._about['least']} victim(s) on {held}", ""
        return self._after(te, snapshot, plan, refusal, text)

    def _starts_with_fewer(self, te: int, snapshot: Snapshot, plan: MakeRoom, options: list[str]) -> bool:
        """Let the likeliest smaller set of victims go, if there is one, and return whether that was enough."""
        count = len(plan.victim_ids)
        wish = wish_of(options, "main", memory_counts=snapshot.settings.memory_is_shared_out)
        smaller = smaller_sets(wish, snapshot, self._pool, count)
        self._about |= {"victims": count, "least": count, "least_is_sure": not smaller}
        if not smaller:
            return False
        self._end(list(smaller[0]))
        if not self._wait(lambda: self._reason(te)[0] != "PENDING", STAYS_FOR_S):
            return False
        self._about |= {"least": len(smaller[0]), "least_is_sure": True, "record": held_record(snapshot, smaller[0])}
        return True

    def _second_reading(self, te: int) -> tuple[Verdict, str, str, str]:
        """Ask again, after Slurm has declined what the lesser reading of the record says."""
        self.cluster.run("scontrol", "update", f"jobid={te}", "reqnodelist=", check=False)
        self._starts_within_s = None
        snapshot = replace(self._snapshot(te), declined=frozenset({JobId(te)}))
        plan, refusal = _asked(snapshot)
        verdict, tesched, slurm, took_more = self._judge(te, snapshot, plan, refusal)
        if verdict in {Verdict.STARTED, Verdict.REFUSED, Verdict.SLURM_SAYS_NO}:
            verdict = Verdict.DECLINED
        return verdict, f"second: {tesched}", slurm, took_more

    def _after(
        self, te: int, snapshot: Snapshot, plan: MakeRoom | None, refusal: Refusal | None, text: str
    ) -> tuple[Verdict, str, str, str]:
        """Let the victims go, or all jobs where tesched refused."""
        if plan is None:
            self._end(list(self._pool))
            started = self._wait(lambda: self._reason(te)[0] != "PENDING", STAYS_FOR_S)
            state, reason = self._reason(te)
            if not started:
                return Verdict.REFUSED, text, f"{state} {reason}, with no other job there", ""
            now = self._observer.observe()
            job = now.jobs.get(JobId(te)) if isinstance(now, Snapshot) else None
            code = Verdict.NOT_MODELLED if refusal and refusal.code == "unsupported" else Verdict.MISSED
            return code, text, f"started on {_held(job)}", ""
        opened = is_open(snapshot.jobs[JobId(te)], snapshot.settings.release, len(plan.nodes))
        count = [f"numnodes={len(plan.nodes)}-{len(plan.nodes)}"] if opened else []
        bound = self.cluster.run(
            "scontrol", "update", f"jobid={te}", *count, f"reqnodelist={','.join(plan.nodes)}", check=False
        )
        if bound.returncode and self._reason(te)[0] != "PENDING":
            # The daemon notifies none whose TE job can't be bound: a later pass has started it on what was free.
            return Verdict.AT_SLURMS_WORD, text, "started before it was bound", ""
        self._end([int(job_id) for job_id in plan.victim_ids])
        # It must start: that it does not is known only after a time in which any machine would have started it. One
        # that may want all memory is tried again (`_second_reading`).
        self._wait(lambda: self._reason(te)[0] != "PENDING", self._starts_within_s)
        state, reason = self._reason(te)
        if state == "PENDING":
            return (
                Verdict.FUTILE,
                text,
                f"waits: {reason} {bound.stderr.strip()} {brief_record(self.cluster, te, plan.nodes)}",
                "",
            )
        now = self._observer.observe()
        job = now.jobs.get(JobId(te)) if isinstance(now, Snapshot) else None
        if job is not None and not set(plan.nodes) <= set(job.nodes):
            return Verdict.FUTILE, text, f"started elsewhere: {_held(job)} {bound.stderr.strip()}", ""
        return Verdict.STARTED, text, f"started on {_held(job)}", _more(job, snapshot, te)

    def _reason(self, te: int) -> tuple[str, str]:
        state, reason = self._states().get(te, ("GONE", ""))
        return (state, "-") if state != "PENDING" else (state, reason.replace(" ", "_"))


def why_awaited(plan: MakeRoom, job: Job, snapshot: Snapshot, capacity: Capacity) -> Awaited:
    """Return why the daemon awaits Slurm's word on a job before it notifies the plan's victims."""
    if certainly_serves(plan, job, snapshot, capacity):
        return Awaited.NOT
    without_free = fits_without_free(job, plan.nodes, plan.victim_ids, snapshot, capacity)
    return Awaited.SUMS if without_free else Awaited.FREE


_GONE = {"", "CANCELLED", "COMPLETED", "FAILED", "TIMEOUT", "NODE_FAIL"}


def _asked(snapshot: Snapshot) -> tuple[MakeRoom | None, Refusal | None]:
    columns = columns_of(snapshot)
    waiting = tuple(
        job for job in snapshot.jobs.values() if job.pending and snapshot.job_class(job.job_id) is JobClass.TE
    )
    eligible = Eligibility(why=np.where(columns.running.ineligible > 0, 0, -1), whys=())
    view = View(
        snapshot=snapshot,
        memory=Memory(),
        columns=columns,
        limits=Limits(),
        waiting=waiting,
        find_eligible=lambda: eligible,
    )
    proposal = FitGpp().propose(view, None)
    plans = [one for one in proposal.intents if isinstance(one, MakeRoom)]
    about = [one for one in proposal.refusals if one.job_id == waiting[0].job_id]
    return (plans[0] if plans else None), (about[-1] if about else None)


def _said(plan: MakeRoom | None, refusal: Refusal | None) -> str:
    if plan is None:
        return f"refuses: {refusal.code}: {refusal.text}" if refusal else "says nothing"
    if plan.victim_ids:
        return f"on {','.join(plan.nodes)} if {list(plan.victim_ids)} go"
    return f"now, on {','.join(plan.nodes)}"


def _may_be_spread(snapshot: Snapshot, te: int) -> bool:
    """Check whether a job has devices in all, and neither a number of tasks nor of nodes, by its record."""
    request = snapshot.jobs[JobId(te)].request
    return bool(request.gres_per_job) and request.tasks == request.min_nodes == request.max_nodes == 1


def _held(job: Job | None) -> str:
    return "; ".join(f"{share.node}: {share.tres}" for share in job.allocation) if job else "?"


def _demands(snapshot: Snapshot, te: int) -> Iterator[Demand]:
    job, capacity = snapshot.jobs[JobId(te)], columns_of(snapshot).capacity
    if is_open(job, snapshot.settings.release):
        yield from demands_if_fixed(job, snapshot, capacity)
    yield from demands_of(job, snapshot, capacity)


def _more(job: Job | None, snapshot: Snapshot, te: int) -> str:
    """Return what a job of one node holds beyond what tesched had said that it would."""
    capacity = columns_of(snapshot).capacity
    if job is None or len(job.allocation) != 1:
        return ""
    share = job.allocation[0]
    try:
        said = list(_demands(snapshot, te))
    except UnsupportedRequestError:
        return ""
    takes = np.max([demand.takes[capacity.index[share.node]] for demand in said], axis=0)
    held = share.tres.as_mapping()
    more = [
        f"{name} {held.get(name, 0)} instead of {most}"
        for name, most in zip(capacity.resources, takes.tolist(), strict=True)
        if held.get(name, 0) > most
        and (":" not in name or most)  # any type will do where it requested none
        and (name != "mem_mib" or snapshot.settings.memory_is_shared_out)
    ]
    return f"on {share.node}: {', '.join(more)}" if more else ""


def run_cluster(seed: int, number: int, count: int, only: tuple[str, ...] = (), on: tuple[str, ...] = ()) -> list[Case]:
    """Ask one random cluster, with the words `on`, for so many requests, with the words `only`."""
    rng = Random(f"{seed}/{number}")  # noqa: S311 - nothing secret
    definition = cluster_with(rng, on)
    about = f"{seed}/{number}: {plain(definition)}"
    with LocalCluster(definition) as cluster:
        return list(Oracle(cluster=cluster, seed=f"{seed}/{number}", about=about, only=only).cases(count))
