"""The limits that no policy can pass. Each is hit by a test, and named in the refusal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from tesched_core.guard.admission import admitted
from tesched_core.guard.eligibility import eligible_victims
from tesched_core.model.actions import OrderId
from tesched_core.model.cluster import Job, JobState, Reservation
from tesched_core.model.decision import Refusal, RefusalCode, Why
from tesched_core.model.job_memory import JobMemory, Past
from tesched_core.model.limits import Limits
from tesched_core.model.memory import Memory
from tesched_core.model.notice import Target
from tesched_core.model.order import Departure, Order, OrderState, Victim, VictimState
from tesched_core.model.payment import Paid
from tesched_core.model.resources import JobId
from tesched_core.policy import ChosenVictim, MakeRoom

from tests.builders import NOW, cluster, excused, node, running, share, view_of, waiting

C = RefusalCode
ONE = share("n1", 1)
#: it goes on, and holds no node of ours
COURSE = Reservation(name="course-1", start_time=NOW - 60, end_time=NOW + 600)
#: limits that excuse no job
FREE = Limits(min_run_time_s=0, cool_down_s=0)


def excuse(job: Job, limits: Limits = FREE, memory: Memory | None = None) -> Why | None:
    """Return why this job is not eligible."""
    snapshot = cluster([node("n1")], [job], reservations=[COURSE])
    return excused(snapshot, memory or Memory(), limits).get(job.job_id)


def code(job: Job, limits: Limits = FREE, memory: Memory | None = None) -> RefusalCode | None:
    why = excuse(job, limits, memory)
    return why[0] if why else None


def order(order_id: int, victim_state: VictimState, state: OrderState = OrderState.OPEN) -> Order:
    victim = Victim(
        job_id=JobId(1),
        state=victim_state,
        restarts=0,
        grace_period_s=30,
        notice_signal="USR1",
        notice_target=Target.BATCH,
        score=1.0,
        nodes=("n1",),
        started_at=0,
        departure=Departure.FINISHED if victim_state is VictimState.LEFT else None,
    )
    return Order(
        order_id=OrderId(order_id),
        preemptor=JobId(99),
        state=state,
        created_at=NOW,
        expires_at=NOW + 60,
        nodes=("n1",),
        victims=(victim,),
        ended_at=NOW if state is OrderState.ENDED else None,
    )


def orders(*some: Order) -> Memory:
    return Memory(orders={one.order_id: one for one in some})


def test_an_ordinary_job_may_be_preempted() -> None:
    assert excuse(running(1, ONE)) is None


@pytest.mark.parametrize(
    ("job", "why"),
    [
        (running(1, ONE, flags=frozenset({"COMPLETING"})), C.ALREADY_LEAVING),
        (running(1, ONE, flags=frozenset({"CONFIGURING"})), C.ALREADY_LEAVING),
        (running(1, ONE, state=JobState.COMPLETED), C.ALREADY_LEAVING),
        (running(1, ONE, batch=False), C.INTERACTIVE),
        (running(1, ONE, requeueable=False), C.NOT_REQUEUEABLE),
        (running(1, ONE, restarts=65_535), C.NOT_REQUEUEABLE),
        (running(1, ONE, het_job_id=JobId(1)), C.HETEROGENEOUS),
        (running(1, ONE, state=JobState.SUSPENDED), C.SUSPENDED),
    ],
)
def test_a_job_that_cannot_be_requeued_is_excused(job: Job, why: RefusalCode) -> None:
    assert code(job) is why


@pytest.mark.parametrize("state", [VictimState.PLANNED, VictimState.NOTICED, VictimState.REQUEUING])
def test_a_job_that_yields_already_is_excused(state: VictimState) -> None:
    assert code(running(1, ONE), memory=orders(order(1, state))) is C.ALREADY_LEAVING


@pytest.mark.parametrize("state", [VictimState.LEFT, VictimState.BACK, VictimState.SPARED])
def test_a_job_that_an_order_has_done_with_may_be_preempted_again_once_no_job_waits_for_it(state: VictimState) -> None:
    assert code(running(1, ONE), memory=orders(order(1, state))) is C.COOL_DOWN
    assert code(running(1, ONE), memory=orders(order(1, state, OrderState.SETTLING))) is None


@pytest.mark.parametrize("state", [JobState.RUNNING, JobState.SUSPENDED])
def test_a_job_that_is_or_is_about_to_be_suspended_is_excused_whatever_is_seen_of_it(state: JobState) -> None:
    refusal = excuse(running(1, ONE, state=state), memory=orders(order(1, VictimState.SUSPENDED)))
    text = "it is suspended for another trial-and-error job, and will go on"
    assert refusal == (C.SUSPENDED, text), "a requeue would leave it held"


def test_an_order_that_has_ended_excuses_no_job() -> None:
    assert code(running(1, ONE), memory=orders(order(1, VictimState.NOTICED, OrderState.ENDED))) is None


@pytest.mark.parametrize(
    ("limits", "why", "setting"),
    [
        (Limits(protected_users=("bob", "a*")), C.PROTECTED_USER, "(guard.protected_users)"),
        (Limits(protected_accounts=("phys",)), C.PROTECTED_ACCOUNT, "(guard.protected_accounts)"),
        (Limits(protected_qos=("hig?",)), C.PROTECTED_QOS, "(guard.protected_qos)"),
        (Limits(protected_partitions=("p",)), C.PROTECTED_PARTITION, "(guard.protected_partitions)"),
        (Limits(protected_reservations=("exam*",)), C.PROTECTED_RESERVATION, "(guard.protected_reservations)"),
        (Limits(protected_names=("train*",)), C.PROTECTED_NAME, "(guard.protected_names)"),
    ],
)
def test_what_the_site_protects_is_excused_and_the_setting_named(
    limits: Limits, why: RefusalCode, setting: str
) -> None:
    job = running(1, ONE, user="ada", account="phys", qos="high", reservation="course-1,exam", name="train7")
    refusal = excuse(job, limits)
    assert refusal is not None
    assert refusal[0] is why
    assert setting in refusal[1]


@pytest.mark.parametrize(
    "limits",
    [
        Limits(protected_users=("phys", "high", "p", "course-1")),
        Limits(protected_accounts=("ada", "high", "p", "course-1")),
        Limits(protected_qos=("ada", "phys", "p", "course-1")),
        Limits(protected_partitions=("ada", "phys", "high", "course-1")),
        Limits(protected_reservations=("ada", "phys", "high", "p")),
    ],
)
def test_a_name_protects_in_its_own_list_alone(limits: Limits) -> None:
    assert excuse(running(1, ONE, user="ada", account="phys", qos="high", reservation="course-1"), limits) is None


def test_a_job_outside_any_reservation_is_not_in_every_reservation() -> None:
    assert excuse(running(1, ONE, reservation=""), Limits(protected_reservations=("*",))) is None


class TestLimits:
    """The limits that are numbers: one step inside, one outside."""

    @pytest.mark.parametrize(
        ("most", "count", "why"),
        [(0, 0, C.MAX_PREEMPTIONS), (1, 0, None), (1, 1, C.MAX_PREEMPTIONS), (2, 1, None), (2, 2, C.MAX_PREEMPTIONS)],
    )
    def test_most_preemptions_are_kept(self, most: int, count: int, why: RefusalCode | None) -> None:
        memory = Memory(jobs={JobId(1): JobMemory(preemptions=count), JobId(2): JobMemory(preemptions=9)})
        assert code(running(1, ONE), Limits(max_preemptions_per_job=most), memory) is why

    def test_most_preemptions_is_named(self) -> None:
        limits = replace(FREE, max_preemptions_per_job=1)
        _, text = excuse(running(1, ONE), limits, Memory(jobs={JobId(1): JobMemory(preemptions=1)})) or ("", "")
        assert text == "it was preempted 1 time(s); guard.max_preemptions_per_job is 1"

    @pytest.mark.parametrize(("ran_s", "why"), [(59.9, C.MIN_RUN_TIME), (60.0, None)])
    def test_least_run_time_is_kept(self, ran_s: float, why: RefusalCode | None) -> None:
        assert code(running(1, ONE, start_time=NOW - ran_s), Limits(min_run_time_s=60)) is why

    def test_least_run_time_is_named(self) -> None:
        refusal = excuse(running(1, ONE, start_time=NOW), Limits(min_run_time_s=60))
        assert refusal is not None
        assert "guard.min_run_time_s, 60 s" in refusal[1]

    def test_a_job_of_which_slurm_does_not_say_since_when_it_runs_has_just_started(self) -> None:
        assert code(running(1, ONE, start_time=None), Limits(min_run_time_s=1)) is C.MIN_RUN_TIME

    @pytest.mark.parametrize(("ago_s", "why"), [(599.9, C.COOL_DOWN), (600.0, None)])
    def test_cool_down_is_kept(self, ago_s: float, why: RefusalCode | None) -> None:
        memory = Memory(jobs={JobId(1): JobMemory(last_preempted=NOW - ago_s)})
        assert code(running(1, ONE), Limits(cool_down_s=600), memory) is why

    def test_cool_down_is_named(self) -> None:
        refusal = excuse(
            running(1, ONE), Limits(cool_down_s=600), Memory(jobs={JobId(1): JobMemory(last_preempted=NOW)})
        )
        assert refusal is not None
        assert "guard.cool_down_s, 600 s" in refusal[1]

    @pytest.mark.parametrize(
        ("limit", "who", "why"),
        [
            ({"max_preemptions_per_hour": 2}, {}, C.HOUR_LIMIT),
            ({"max_preemptions_per_hour": 3}, {}, None),
            ({"max_preemptions_per_user_hour": 2}, {"user": "ada"}, C.USER_LIMIT),
            ({"max_preemptions_per_user_hour": 2}, {"user": "bob"}, None),
            ({"max_preemptions_per_account_hour": 2}, {"account": "phys"}, C.ACCOUNT_LIMIT),
            ({"max_preemptions_per_account_hour": 2}, {"account": "chem"}, None),
            ({"max_preemptions_per_node_hour": 2}, {}, C.NODE_LIMIT),
            ({"max_preemptions_per_node_hour": 3}, {}, None),
            # 2 x 30 minutes on 2 nodes
            ({"max_lost_node_hours_per_day": 2}, {}, C.BUDGET),
            ({"max_lost_node_hours_per_day": 2.1}, {}, None),
        ],
    )
    def test_what_was_paid_lately(
        self, limit: Mapping[str, float], who: Mapping[str, str], why: RefusalCode | None
    ) -> None:
        memory = Memory(paid=(paid(NOW - 10), paid(NOW - 3599)))
        limits = Limits(min_run_time_s=0, **limit)  # type: ignore[arg-type]
        job = replace(running(1, ONE), **{"user": "ada", "account": "phys", **who})  # type: ignore[arg-type]
        refusal = excuse(job, limits, memory)
        assert (refusal[0] if refusal else None) is why
        if refusal is not None:
            assert f"guard.{next(iter(limit))}" in refusal[1]

    def test_what_was_paid_an_hour_ago_or_on_other_nodes_counts_no_more(self) -> None:
        limits = Limits(min_run_time_s=0, max_preemptions_per_hour=1, max_preemptions_per_node_hour=1)
        assert code(running(1, ONE), limits, Memory(paid=(paid(NOW - 3600),))) is None
        elsewhere = replace(paid(NOW), nodes=("n7",))
        assert code(running(1, ONE), replace(limits, max_preemptions_per_hour=2), Memory(paid=(elsewhere,))) is None

    def test_the_days_budget_counts_what_is_older_than_an_hour(self) -> None:
        limits = Limits(min_run_time_s=0, max_lost_node_hours_per_day=1)
        assert code(running(1, ONE), limits, Memory(paid=(paid(NOW - 86_399),))) is C.BUDGET
        assert code(running(1, ONE), limits, Memory(paid=(paid(NOW - 86_400),))) is None

    def test_a_job_that_is_selected_now_counts_as_if_it_had_paid(self) -> None:
        limits = replace(FREE, max_preemptions_per_hour=1)
        assert code(running(2, share("n1", 1)), limits, orders(order(1, VictimState.NOTICED))) is C.HOUR_LIMIT
        assert code(running(2, share("n1", 1)), limits, orders(order(1, VictimState.SPARED))) is None

    def test_a_suspended_job_counts_once_in_the_hour_and_costs_nothing_of_the_budget(self) -> None:
        other = running(2, share("n1", 1))
        asked = order(1, VictimState.SUSPENDED)  # it has 30 s of grace, as the other one: together 60 s
        assert code(other, replace(FREE, max_preemptions_per_hour=1), orders(asked)) is C.HOUR_LIMIT
        assert code(other, replace(FREE, max_lost_node_hours_per_day=0.01), orders(asked)) is None
        seen = replace(asked, victims=(replace(asked.victims[0], suspended_at=NOW - 10),))
        memory = replace(orders(seen), paid=(replace(paid(NOW - 10), node_s=0.0),))
        assert code(other, replace(FREE, max_preemptions_per_hour=2), memory) is None
        assert code(other, replace(FREE, max_preemptions_per_hour=1), memory) is C.HOUR_LIMIT

    @pytest.mark.parametrize(
        ("waited_s", "limit_s", "why"),
        [(900, 100, None), (901, 100, C.SLOWDOWN), (901, 200, None), (10**6, None, None)],
    )
    def test_most_slowdown_is_kept(self, waited_s: float, limit_s: int | None, why: RefusalCode | None) -> None:
        # 1 + 900 / 100 = 10
        started = NOW - 50
        job = running(1, ONE, start_time=started, submit_time=started - waited_s, time_limit_s=limit_s)
        assert code(job, replace(FREE, max_slowdown=10)) is why

    def test_slowdown_counts_all_runs_from_the_first_submission(self) -> None:
        # Submitted at NOW - 1000, ran 100 s, waits the rest but the 50 s of this run: 850 s; of 200 s of work in all.
        job = running(1, ONE, start_time=NOW - 50, submit_time=NOW - 60, time_limit_s=100)
        past = Memory(jobs={JobId(1): JobMemory(past=Past(submitted_at=NOW - 1000, ran_s=100))})
        assert code(job, replace(FREE, max_slowdown=5.24), past) is C.SLOWDOWN
        assert code(job, replace(FREE, max_slowdown=5.26), past) is None

    @pytest.mark.parametrize(("suspended_s", "why"), [(800, None), (801, C.SLOWDOWN)])
    def test_slowdown_counts_the_time_for_which_it_was_suspended(
        self, suspended_s: float, why: RefusalCode | None
    ) -> None:
        # 1 + (100 + 800) / 100 = 10: it waited 100 s in the queue, and is expected to run for 100 s.
        job = running(1, ONE, start_time=NOW - 50, submit_time=NOW - 150, time_limit_s=100)
        past = Memory(jobs={JobId(1): JobMemory(past=Past(submitted_at=NOW - 150, ran_s=0, suspended_s=suspended_s))})
        assert code(job, replace(FREE, max_slowdown=10), past) is why

    @pytest.mark.parametrize(
        "name",
        [
            "max_preemptions_per_job",
            "min_run_time_s",
            "cool_down_s",
            "max_victims_per_cycle",
            "max_open_orders",
            "max_slowdown",
            "max_preemptions_per_hour",
            "max_preemptions_per_user_hour",
            "max_preemptions_per_account_hour",
            "max_preemptions_per_node_hour",
            "max_lost_node_hours_per_day",
            "return_within_s",
            "suspend_for_s",
            "order_timeout_s",
            "retry_after_s",
        ],
    )
    @pytest.mark.parametrize("value", [-1, float("inf"), float("nan")])
    def test_a_limit_that_cannot_be_kept_is_an_error(self, name: str, value: float) -> None:
        limits: Mapping[str, float] = {name: value}
        with pytest.raises(ValueError, match=name):
            Limits(**limits)  # type: ignore[arg-type]


def plan(preemptor: int, *victims: int) -> MakeRoom:
    chosen = tuple(ChosenVictim(job_id=JobId(job_id), score=1.0) for job_id in victims)
    return MakeRoom(preemptor=JobId(preemptor), nodes=("n1",), victims=chosen)


class TestAdmitted:
    """The limits that count from plan to plan."""

    def outcome(
        self, plans: list[MakeRoom], limits: Limits, memory: Memory | None = None
    ) -> tuple[list[int], list[Refusal]]:
        dropped: list[Refusal] = []
        # Jobs 1 to 5 have run for 10,000 s, each on a node of its own; 1 to 3 are ada's, of phys.
        jobs = [
            running(number, share(f"n{number}", 1), user="ada" if number < 4 else "bob", account="phys")
            for number in range(1, 6)
        ]
        nodes = [node(f"n{number}") for number in range(1, 6)]
        view = replace(view_of(cluster(nodes, jobs)), memory=memory or Memory())
        kept = admitted(plans, view, limits, dropped.append)
        return [one.preemptor for one in kept], dropped

    def test_all_within_the_limits_is_kept_in_its_order(self) -> None:
        plans = [plan(13, 1), plan(11, 2, 3), plan(12)]
        assert self.outcome(plans, Limits(max_victims_per_cycle=3, max_open_orders=3)) == ([13, 11, 12], [])

    def test_most_victims_a_cycle(self) -> None:
        # 1 + 2 victims are one too many; the next plan's single one is not, nor is one without victims
        plans = [plan(11, 1), plan(12, 2, 3), plan(13, 4), plan(14, 5), plan(15)]
        kept, (first, second) = self.outcome(plans, Limits(max_victims_per_cycle=2))
        assert kept == [11, 13, 15]
        assert (first.job_id, first.preemptor, first.code) == (12, 12, C.CYCLE_LIMIT)
        assert first.text == "this cycle has 1 victim(s); guard.max_victims_per_cycle is 2"
        assert second.job_id == 14
        assert second.text == "this cycle has 2 victim(s); guard.max_victims_per_cycle is 2"

    @pytest.mark.parametrize(
        ("limits", "kept", "why"),
        [
            (Limits(max_preemptions_per_hour=1), [11, 15], C.HOUR_LIMIT),
            (Limits(max_preemptions_per_user_hour=1), [11, 14, 15], C.USER_LIMIT),
            (Limits(max_preemptions_per_account_hour=1), [11, 15], C.ACCOUNT_LIMIT),
            # each of the five has 30 s of grace, in which it saves
            (Limits(max_lost_node_hours_per_day=0.01), [11, 15], C.BUDGET),
            (Limits(max_preemptions_per_node_hour=0), [15], C.NODE_LIMIT),
        ],
    )
    def test_limits_over_time_count_the_plans_before(self, limits: Limits, kept: list[int], why: RefusalCode) -> None:
        found, dropped = self.outcome([plan(11, 1), plan(12, 2), plan(14, 4), plan(15)], limits)
        assert found == kept
        assert {one.code for one in dropped} == {why}

    def test_a_job_that_is_to_be_suspended_costs_no_node_hours_but_counts_in_the_hour(self) -> None:
        plans = [replace(plan(11, 1), by_suspending=True), replace(plan(12, 2), by_suspending=True)]
        assert self.outcome(plans, Limits(max_lost_node_hours_per_day=0.005)) == ([11, 12], [])
        kept, (refusal,) = self.outcome(plans, Limits(max_preemptions_per_hour=1))
        assert (kept, refusal.code) == ([11], C.HOUR_LIMIT)

    def test_no_policy_proposes_for_a_user_that_has_just_withdrawn_a_notice(self) -> None:
        let_go = Paid(
            at=NOW - 10,
            job_id=JobId(1),
            user="ada",
            account="phys",
            nodes=("n1",),
            node_s=0.0,
            for_user="",
            withdrawn=True,
        )
        jobs = [running(1, share("n1", 1), user="ada"), waiting(11, user="carl"), waiting(12, user="bob")]
        snapshot = cluster([node("n1")], jobs)
        for by, kept in (("carl", [12]), ("bob", [11])):
            memory = Memory(paid=(replace(let_go, for_user=by),))
            eligibility = eligible_victims(view_of(snapshot).running, memory, Limits(), NOW, {"n1": 0})
            view = replace(view_of(snapshot), memory=memory, find_eligible=lambda: eligibility)  # noqa: B023
            dropped: list[Refusal] = []
            for plans in ([plan(11, 1)], [plan(12, 1)]):
                found = [one.preemptor for one in admitted(plans, view, Limits(), dropped.append)]
                assert found == [one.preemptor for one in plans if one.preemptor in kept]
            (refusal,) = dropped
            assert (refusal.code, "the same user" in refusal.text) == (C.COOL_DOWN, True)

    def test_most_open_orders_are_kept(self) -> None:
        memory = orders(order(1, VictimState.NOTICED), order(2, VictimState.NOTICED, OrderState.ENDED))
        kept, (refusal,) = self.outcome([plan(11), plan(12)], Limits(max_open_orders=2), memory)
        assert kept == [11]
        assert (refusal.job_id, refusal.code) == (12, C.CYCLE_LIMIT)
        assert refusal.text == "2 order(s) free resources for others now; guard.max_open_orders is 2"


def paid(at: float) -> Paid:
    """Return a payment of ada's, of phys: half an hour on n1 and n2."""
    return Paid(at=at, job_id=JobId(5), user="ada", account="phys", nodes=("n1", "n2"), node_s=3600)


def test_every_excused_job_has_its_own_reason() -> None:
    jobs = [running(1, ONE, batch=False), running(2, ONE), running(3, ONE, requeueable=False)]
    snapshot = cluster([node("n1")], [*jobs, waiting(9)])
    found = excused(snapshot, Memory(), FREE)
    assert {job_id: one[0] for job_id, one in found.items()} == {1: C.INTERACTIVE, 3: C.NOT_REQUEUEABLE}
