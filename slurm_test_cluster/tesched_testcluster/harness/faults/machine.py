"""The real loop and the real journal through faults of every kind: what must hold at every step, and in the end.

`tests/properties/test_faults.py` runs a few examples, `python -m benchmarks.faults` many.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tesched_core.model.cluster import JobState
from tesched_core.model.limits import YieldBy
from tesched_core.model.resources import JobId
from tesched_core.policy import Policy
from tesched_policies.baselines import YoungestFirst
from tesched_policies.fill import Fill
from tesched_policies.fitgpp import FitGpp
from tesched_policies.patient import Patient

from tesched_testcluster.harness.faults.faulty_daemon import POSSIBLE, Fault, Port
from tesched_testcluster.harness.faults.faulty_site import LIMITS, NAMES, Site
from tesched_testcluster.harness.faults.faulty_slurm import CPUS, Answer, Work

#: that have not ended; more would only be slow
MOST_JOBS = 10
#: cycles in which everything must have come to its end
ENOUGH = 400

POLICIES: tuple[Policy[None], ...] = (FitGpp(), FitGpp(s=0), YoungestFirst(), Patient(patience_s=10))
FAULTS = st.one_of(
    *(
        st.builds(Fault, port=st.just(port), what=st.sampled_from(POSSIBLE[port]), nth=st.sampled_from([0, 0, 1]))
        for port in (*[Port.ACT] * 3, Port.INTEND, Port.CONCLUDE, Port.OBSERVE, Port.LOAD, Port.LEAD)
    )
)
SOME_FAULTS = st.lists(FAULTS, max_size=2)
#: of early turns, which begin with the reads of the jobs
EARLY_FAULTS = st.lists(
    st.one_of(
        FAULTS,
        st.builds(Fault, port=st.just(Port.READ), what=st.sampled_from(POSSIBLE[Port.READ]), nth=st.integers(0, 5)),
    ),
    max_size=2,
)
#: a job's class or user, or what is special about it
KINDS = ("be", "be", "be", "be", "te", "te", "te", "keep", "boss", "no-requeue", "interactive", "ends", "ends")
DEEDS = ("cancel", "hold", "hold", "suspend", "requeue", "limit", "nice up", "nice up", "nice down")
WEATHER = (
    "slurmctld is away",
    "the store is away",
    "the partition is down",
    "a node is down",
    "paused",
    "the clock is set back",
    "the clock is set forward",
)
NAME_OF = {"te": "te", "keep": "keep"}


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A job that is to be submitted."""

    kind: str
    user: str
    cpus: int
    run_s: int
    priority: int
    nice: int
    grace_s: int
    answer: Answer
    dies_in_s: int
    explicit: int | None

    def work(self, job_id: JobId) -> Work:
        """Return the job."""
        return Work(
            job_id=job_id,
            name=NAME_OF.get(self.kind, "be"),
            user="boss" if self.kind == "boss" else self.user,
            cpus=self.cpus,
            # Trials are short, so that there are many.
            run_s=min(self.run_s, 20) if self.kind == "te" else self.run_s,
            priority=self.priority,
            nice_wanted=self.nice,
            grace_s=self.grace_s,
            answer=self.answer,
            dies_in_s=self.dies_in_s,
            batch=self.kind != "interactive",
            requeueable=self.kind != "no-requeue",
            ends=self.kind == "ends",
            explicit=self.explicit,
            explicit_wanted=self.explicit,
        )


def a_trial(draft: Draft) -> Draft:
    """Return the same as a trial."""
    return replace(draft, kind="te")


DRAFTS = st.builds(
    Draft,
    kind=st.sampled_from(KINDS),
    user=st.sampled_from(["ada", "bob"]),
    cpus=st.sampled_from([1, 2, 4, 4]),
    run_s=st.sampled_from([10, 60, 120]),
    priority=st.sampled_from([50, 100, 100, 5000]),
    nice=st.sampled_from([0, 0, 10]),
    grace_s=st.sampled_from([0, 4, 10]),
    answer=st.sampled_from(Answer),
    dies_in_s=st.sampled_from([0, 0, 3]),
    explicit=st.sampled_from([None, None, None, 700]),
)
#: where no other job waits, victims may be suspended
COMERS = st.one_of(st.lists(DRAFTS, min_size=3, max_size=6), st.lists(DRAFTS.map(a_trial), min_size=1, max_size=3))
#: it is there at the beginning, so that trials wait
FILLS_A_NODE = Draft(
    kind="be",
    user="ada",
    cpus=CPUS,
    run_s=120,
    priority=100,
    nice=0,
    grace_s=4,
    answer=Answer.IGNORES,
    dies_in_s=0,
    explicit=None,
)


class Faults(RuleBasedStateMachine):
    """A site, and what may happen on it."""

    #: what has happened in all examples together
    covered: ClassVar[Counter[str]] = Counter()

    def __init__(self) -> None:
        """Begin without a site: it is made by the first rule."""
        super().__init__()
        self.site: Site | None = None
        self.last_job = 0
        self.ends_with_undo, self.last_turns = False, 0
        #: values of nice that people set are never between two of tesched's
        self.highest_nice, self.lowest_nice = 100, -100_000

    @property
    def there(self) -> Site:
        """Return the site."""
        assert self.site is not None
        return self.site

    @initialize(
        nodes=st.sampled_from([1, 1, 2, 3]),
        most=st.sampled_from([1, 2, 3]),
        lever=st.sampled_from([YieldBy.REQUEUE, YieldBy.AUTO]),
        policy=st.sampled_from(POLICIES),
        best_effort=st.sampled_from([None, None, Fill()]),
        last_turns=st.integers(0, 6),
        ends_with_undo=st.booleans(),
        drafts=COMERS,
    )
    def begin(
        self,
        *,
        nodes: int,
        most: int,
        lever: YieldBy,
        policy: Policy[None],
        best_effort: Policy[None] | None,
        last_turns: int,
        ends_with_undo: bool,
        drafts: list[Draft],
    ) -> None:
        """Make the site, with some jobs."""
        limits = replace(LIMITS, max_preemptions_per_job=most, max_lost_runs_per_job=most, lever=lever)
        self.site = Site(nodes=nodes, limits=limits, policy=policy, best_effort=best_effort)
        self.ends_with_undo, self.last_turns = ends_with_undo, last_turns
        fill = [replace(FILLS_A_NODE, answer=answer) for answer in Answer][:nodes]
        for draft in (*fill, *drafts):
            self._submit(draft)

    # Jobs.

    def _submit(self, draft: Draft) -> None:
        if sum(not work.finished for work in self.there.slurm.jobs.values()) < MOST_JOBS:
            self.last_job += 1
            self.there.slurm.submit(draft.work(JobId(self.last_job)))

    def _one(self, place: int) -> Work | None:
        jobs = [work for _, work in sorted(self.there.slurm.jobs.items()) if not work.finished]
        return jobs[place % len(jobs)] if jobs else None

    @rule(place=st.integers(0, MOST_JOBS - 1), what=st.sampled_from(DEEDS))
    def person(self, place: int, what: str) -> None:
        """Let a user act on a job, or undo that."""
        work = self._one(place)
        if work is None or work.leaves_s is not None:
            return
        slurm = self.there.slurm
        self.covered[f"person: {what}"] += 1
        if what == "cancel":
            slurm.cancel(work)
        elif what == "hold" and work.waits:
            work.held = work.held_by_user = not work.held_by_user
        elif what == "suspend" and work.node:
            suspended = work.state is JobState.SUSPENDED
            if not suspended and (work.job_id, work.restarts) in self.there.ledger.may_be_suspended:
                return
            work.state = JobState.RUNNING if suspended else JobState.SUSPENDED
            work.suspended_by_user = not suspended
        elif what == "requeue" and work.node and work.requeueable and work.batch:
            by_user = work.held or work.suspended_by_user
            slurm.requeue(work)
            work.held_by_user = by_user
        elif what == "limit":
            work.limited = not work.limited
        elif what in {"nice up", "nice down"} and work.explicit is None:
            self.highest_nice, self.lowest_nice = self.highest_nice + 100, self.lowest_nice * 2
            work.nice = work.nice_wanted = self.highest_nice if what == "nice up" else self.lowest_nice

    # Weather, and daemons through it.

    @rule(what=st.sampled_from(WEATHER), turns=st.integers(0, 6), lasts=st.sampled_from([False, False, False, True]))
    def weather(self, what: str, turns: int, *, lasts: bool) -> None:
        """Take a service away, for some turns or for longer, or give back what was away."""
        self.covered[f"weather: {what}"] += 1
        self._turn_over(what)
        self._turns(turns, 2)
        if not lasts and what not in {"the clock is set back", "the clock is set forward"}:
            self._turn_over(what)

    def _turn_over(self, what: str) -> None:
        site, slurm = self.there, self.there.slurm
        match what:
            case "slurmctld is away":
                slurm.reachable = not slurm.reachable
            case "the store is away":
                site.store_is_up = not site.store_is_up
            case "the partition is down":
                slurm.partition_up = not slurm.partition_up
            case "paused":
                site.pause(paused=not site.ledger.paused)
            case "the clock is set back":
                site.jump(-3600.0)
            case "the clock is set forward":
                site.jump(3600.0)
            case _ if slurm.down:
                slurm.down.clear()
            case _:
                slurm.set_down("n0")

    @rule(name=st.sampled_from(NAMES), faults=SOME_FAULTS, seconds=st.sampled_from([0, 1, 2, 2, 5, 15]))
    def turn(self, name: str, faults: list[Fault], seconds: int) -> None:
        """Let a daemon make a turn."""
        self.there.turn(name, faults)
        self.there.slurm.pass_time(seconds)

    @rule(faults=SOME_FAULTS, at=st.integers(0, 4), turns=st.integers(1, 8), seconds=st.sampled_from([1, 2, 4]))
    def turns(self, faults: list[Fault], at: int, turns: int, seconds: int) -> None:
        """Let some turns pass, one of them with faults."""
        self._turns(min(at, turns), seconds)
        self.there.turn("first", faults)
        self._turns(turns - at, seconds)

    def _turns(self, turns: int, seconds: int) -> None:
        for _ in range(turns):
            self.there.turn("first")
            self.there.slurm.pass_time(seconds)
            self.there.ledger.check()

    @rule(drafts=st.lists(DRAFTS, max_size=1), trial=DRAFTS.map(a_trial), turns=st.integers(1, 6), faults=SOME_FAULTS)
    def busy(self, drafts: list[Draft], trial: Draft, turns: int, faults: list[Fault]) -> None:
        """Let a trial come where other jobs hold the nodes, and the daemon see it."""
        for draft in (FILLS_A_NODE, *drafts):
            self._submit(draft)
        self.there.slurm.pass_time(3)
        self._submit(trial)
        self._turns(1, 2)
        self.there.turn("first", faults)
        self._turns(turns, 2)

    @rule(
        comers=st.lists(st.one_of(DRAFTS, DRAFTS.map(a_trial)), max_size=2),
        trial=DRAFTS.map(a_trial),
        polls=st.integers(0, 8),
        since_s=st.integers(0, 4),
        then_s=st.sampled_from([0, 1, 3]),
        deed=st.sampled_from([None, None, *DEEDS]),
        faults=EARLY_FAULTS,
    )
    def comes_between_polls(
        self,
        *,
        comers: list[Draft],
        trial: Draft,
        polls: int,
        since_s: int,
        then_s: int,
        deed: str | None,
        faults: list[Fault],
    ) -> None:
        """Let a trial come after a poll of full nodes, others beside it, and an early turn before the next poll."""
        self.covered["a trial between polls"] += 1
        slurm = self.there.slurm
        # An early turn comes where all is at rest.
        for work in [work for work in slurm.jobs.values() if work.name == "te" and not work.finished]:
            slurm.cancel(work)
        self._submit(FILLS_A_NODE)
        self._turns(polls, 5)
        if deed is not None:
            self.person(0, deed)
        for draft in (*comers, trial):
            self._submit(draft)
        slurm.pass_time(since_s)
        self.there.early_turn("first", faults)
        self.there.ledger.check()
        slurm.pass_time(then_s)
        self._turns(1, 2)

    @rule(name=st.sampled_from(NAMES), how=st.sampled_from(["killed", "stopped", "undo"]), faults=SOME_FAULTS)
    def ends(self, name: str, how: str, faults: list[Fault]) -> None:
        """Kill a daemon, or stop it; or run `tesched undo`, without daemons, in between."""
        site = self.there
        if how == "undo" and not site.store_is_up:
            return
        self.covered[f"daemon: {how}"] += 1
        if how == "undo":
            site.undo(faults)
        else:
            (site.stop if how == "stopped" else site.kill)(name)

    @invariant()
    def holds(self) -> None:
        """Check what holds at every step."""
        if self.site is not None:
            self.site.ledger.check()

    def teardown(self) -> None:
        """Heal everything; then nothing may be left behind."""
        if self.site is None:
            return
        try:
            self._to_the_end(self.site)
        finally:
            self.covered.update(self.site.ledger.happened)
            self.covered.update(f"ending: {ending}" for ending in self.site.ledger.endings.values())
            self.site.close()

    def _to_the_end(self, site: Site) -> None:
        site.heal()
        # There is to be a change that can be left behind.
        for draft in (FILLS_A_NODE, replace(FILLS_A_NODE, kind="te", priority=50)):
            self._submit(draft)
            site.slurm.pass_time(3)
        self._turns(self.last_turns, 2)
        if self.ends_with_undo:
            self.covered["end: undo"] += 1
            # A suspended job goes on when its CPUs are free; until then undo says that it is not done.
            assert any(site.undo_later(5) for _ in range(ENOUGH)), "undo could not put everything back"
            _none("after undo", [*site.left_behind(), *site.remembered()])
            for _ in range(ENOUGH):
                site.slurm.pass_time(5)
        else:
            self.covered["end: daemon"] += 1
            for _ in range(ENOUGH):
                site.cycle(5)
                if all(work.finished for work in site.slurm.jobs.values()) and not site.remembered():
                    break
            _none("in the end", [*site.left_behind(), *site.remembered()])
        everybody = (*site.slurm.jobs.values(), *site.slurm.forgotten)
        _none("has not ended", [f"job {work.job_id}" for work in everybody if not work.finished])
        _none("ran to its end twice", [f"job {work.job_id}" for work in everybody if work.completed > 1])


def _none(what: str, found: list[str]) -> None:
    """Raise AssertionError, which says what was found, if there is anything."""
    assert not found, f"{what}: {'; '.join(found)}"
