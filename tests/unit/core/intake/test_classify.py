"""Job classes, trial and error or best effort."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.intake.class_rules import Classification, Match, Rule, UserWord
from tesched_core.intake.classify import Question, classified, classify
from tesched_core.intake.matching import matches
from tesched_core.model.cluster import Job, Request
from tesched_core.model.snapshot import JobClass, Snapshot, Traits

from tests.builders import NOW, running, share, waiting

TE, BE, EXEMPT = JobClass.TE, JobClass.BE, JobClass.EXEMPT
TE_RULE = Rule(name="debug", job_class=TE, match=Match(partitions=("debug*",)))


def seen(*jobs: Job) -> Snapshot:
    return Snapshot.of(NOW, jobs=jobs)


@pytest.mark.parametrize(("qos", "matched"), [("te", True), ("te,normal", True), ("normal,te", True), ("tea,b", False)])
def test_any_of_several_qos_will_do(qos: str, matched: bool) -> None:
    assert matches(waiting(1, qos=qos), Match(qos=("te",))) is matched


class TestMatch:
    """One rule's conditions."""

    @pytest.mark.parametrize(
        ("match", "matched"),
        [
            (Match(), True),
            (Match(partitions=("debug*",)), True),  # either of its two partitions will do
            (Match(partitions=("other", "long")), True),
            (Match(partitions=("debu",)), False),
            (Match(qos=("hi*",)), True),
            (Match(qos=("HI*",)), False),
            (Match(accounts=("phys-?",)), True),
            (Match(accounts=("phys",)), False),
            (Match(users=("a[dn]a",)), True),
            (Match(users=("bob",)), False),
            (Match(names=("train-*",)), True),
            (Match(names=("*-x",)), False),
            (Match(comments=("*try*",)), True),
            (Match(comments=("try",)), False),
            # all that are given must hold
            (Match(users=("ada",), qos=("high",)), True),
            (Match(users=("ada",), qos=("low",)), False),
            (Match(users=("bob",), qos=("high",)), False),
            (Match(interactive=False), True),
            (Match(interactive=True), False),
        ],
    )
    def test_globs_match_as_expected(self, match: Match, matched: bool) -> None:
        job = replace(
            waiting(1, partitions=("debug-gpu", "long"), qos="high", user="ada", name="train-7"),
            account="phys-a",
            comment="a try of mine",
        )
        assert matches(job, match) is matched

    def test_interactive_is_what_sbatch_did_not_submit(self) -> None:
        job = waiting(1, batch=False)
        assert matches(job, Match(interactive=True))
        assert not matches(job, Match(interactive=False))

    @pytest.mark.parametrize(
        ("match", "matched"),
        [
            # the job has 600 s, 2 nodes, 8 CPUs, 2 * 2 GPUs; bounds are inclusive
            (Match(min_time_limit_s=600, max_time_limit_s=600), True),
            (Match(min_time_limit_s=601), False),
            (Match(max_time_limit_s=599), False),
            (Match(min_nodes=2, max_nodes=2), True),
            (Match(min_nodes=3), False),
            (Match(max_nodes=1), False),
            (Match(min_cpus=8, max_cpus=8), True),
            (Match(min_cpus=9), False),
            (Match(max_cpus=7), False),
            (Match(min_gpus=4, max_gpus=4), True),
            (Match(min_gpus=5), False),
            (Match(max_gpus=3), False),
        ],
    )
    def test_bounds_match_as_expected(self, match: Match, matched: bool) -> None:
        request = Request(min_nodes=2, max_nodes=2, cpus=8, gres_per_node=(("gpu", 2),))
        assert matches(waiting(1, request, time_limit_s=600), match) is matched

    def test_a_job_without_a_time_limit_is_above_every_bound(self) -> None:
        job = waiting(1, time_limit_s=None)
        assert matches(job, Match(min_time_limit_s=10**9))
        assert not matches(job, Match(max_time_limit_s=10**9))


class TestRules:
    """The first rule that matches wins."""

    def test_the_first_rule_wins_and_is_named(self) -> None:
        how = Classification(
            rules=(
                Rule(name="ops", job_class=EXEMPT, match=Match(users=("root",))),
                TE_RULE,
                Rule(name="all debug", job_class=BE, match=Match(partitions=("debug",))),
            )
        )

        def answer(**fields: str) -> tuple[JobClass, str]:
            found = classify(replace(waiting(1, partitions=("debug",)), **fields), how)  # type: ignore[arg-type]
            return found.job_class, found.rule

        assert answer() == (TE, "debug")
        assert answer(user="root") == (EXEMPT, "ops")

    @pytest.mark.parametrize("default", [TE, BE, EXEMPT])
    def test_a_job_that_no_rule_names_gets_the_default(self, default: JobClass) -> None:
        found = classify(waiting(1), Classification(rules=(TE_RULE,), default_class=default))
        assert (found.job_class, found.rule) == (default, "default")

    def test_by_default_no_job_is_trial_and_error(self) -> None:
        assert classify(waiting(1, comment="te"), Classification()).job_class is BE

    @pytest.mark.parametrize("grace_s", [-1.0, 86401.0, float("inf"), float("nan")])
    def test_a_grace_period_that_cannot_be_given_is_an_error(self, grace_s: float) -> None:
        with pytest.raises(ValueError, match="grace_period_s must be between 0 and 86400"):
            Rule(name="x", job_class=BE, grace_period_s=grace_s)
        with pytest.raises(ValueError, match="grace_period_s must be between 0 and 86400"):
            UserWord(max_grace_period_s=grace_s)
        with pytest.raises(ValueError, match="grace_period_s must be between 0 and 86400"):
            Classification(default_grace_period_s=grace_s)

    @pytest.mark.parametrize("signal", ["KILL", "SIGUSR1", "usr1", ""])
    def test_a_signal_that_is_no_notice_is_an_error(self, signal: str) -> None:
        with pytest.raises(ValueError, match="notice signal must be none or one of HUP, INT, USR1, USR2, TERM, CONT"):
            Classification(default_notice_signal=signal)

    def test_a_rules_signal_is_checked(self) -> None:
        with pytest.raises(ValueError, match="notice signal"):
            Rule(name="x", job_class=BE, notice_signal="KILL")

    def test_two_rules_of_one_name_are_an_error(self) -> None:
        with pytest.raises(ValueError, match="two rules are named 'debug'"):
            Classification(rules=(TE_RULE, replace(TE_RULE, job_class=BE)))

    def test_a_rule_without_a_name_is_an_error(self) -> None:
        with pytest.raises(ValueError, match="needs a name"):
            Rule(name="", job_class=BE)


class TestUserWord:
    """A user's own word counts only where the site allows it."""

    ASKS = UserWord(may_say_te=True, within=Match(max_time_limit_s=900, max_nodes=1))

    def answer(self, comment: str, word: UserWord, *rules: Rule, limit_s: int | None = 900) -> tuple[JobClass, str]:
        job = waiting(1, comment=comment, time_limit_s=limit_s)
        found = classify(job, Classification(rules=rules, user_word=word))
        return found.job_class, found.rule

    @pytest.mark.parametrize("comment", ["te", "TE", "tesched:te", "a run; te, grace=20", "grace=5,te"])
    def test_te_counts_inside_the_sites_bounds(self, comment: str) -> None:
        assert self.answer(comment, self.ASKS) == (TE, "user's comment")

    @pytest.mark.parametrize("comment", ["", "test", "not-te", "te=1", "latte", "class=te"])
    def test_only_the_bare_word_counts(self, comment: str) -> None:
        assert self.answer(comment, self.ASKS) == (BE, "default")

    @pytest.mark.parametrize("limit_s", [901, None])
    def test_te_does_not_count_outside_them(self, limit_s: int | None) -> None:
        assert self.answer("te", self.ASKS, limit_s=limit_s) == (BE, "default")

    def test_te_does_not_count_unless_the_site_allows_it(self) -> None:
        assert self.answer("te", replace(self.ASKS, may_say_te=False)) == (BE, "default")

    def test_te_that_does_not_count_does_not_hide_be(self) -> None:
        rule = Rule(name="all", job_class=TE)
        assert self.answer("te be", replace(self.ASKS, may_say_te=False), rule) == (BE, "user's comment")

    def test_be_counts_for_a_job_that_a_rule_calls_te(self) -> None:
        rule = Rule(name="all", job_class=TE)
        assert self.answer("be", UserWord(), rule) == (BE, "user's comment")
        assert self.answer("be", UserWord(may_say_be=False), rule) == (TE, "all")

    @pytest.mark.parametrize("comment", ["te", "be"])
    def test_a_protected_job_stays_protected(self, comment: str) -> None:
        rule = Rule(name="ops", job_class=EXEMPT)
        assert self.answer(comment, self.ASKS, rule) == (EXEMPT, "ops")


@pytest.mark.parametrize(
    ("ran_s", "limit_s", "job_class"),
    [(60, 120, TE), (61, 120, BE), (61, None, BE), (1000, 60, TE)],
    ids=["in time", "raised", "taken away", "over its own limit"],
)
def test_a_te_job_that_outlives_the_limit_with_which_it_started_is_be(
    ran_s: float, limit_s: int | None, job_class: JobClass
) -> None:
    how = Classification(rules=(TE_RULE,))
    waits = waiting(1, partitions=("debug",), time_limit_s=60)
    runs = running(1, share("n1", 1), partitions=("debug",), time_limit_s=60, submit_time=waits.submit_time)
    started = classified(seen(replace(runs, start_time=NOW)), how, classified(seen(waits), how))
    later = classified(seen(replace(runs, start_time=NOW - ran_s, time_limit_s=limit_s)), how, started)
    assert later.job_class(runs.job_id) is job_class
    restarted = classified(seen(later.jobs[runs.job_id]), how, questions={runs.job_id: Question.of(runs)})
    assert restarted.job_class(runs.job_id) is job_class


@pytest.mark.parametrize(
    ("before", "now", "job_class"),
    [(36_000, 60, BE), (None, 60, BE), (60, 30, TE), (60, 36_000, BE)],
    ids=["lowered by Slurm", "of none", "of a TE job", "raised"],
)
def test_a_time_limit_that_falls_as_a_job_starts_does_not_change_its_class(
    before: int | None, now: int, job_class: JobClass
) -> None:
    how = Classification(rules=(Rule(name="short", job_class=TE, match=Match(max_time_limit_s=60)),))
    waits = waiting(1, time_limit_s=before)
    runs = running(1, share("n1", 1), time_limit_s=now, submit_time=waits.submit_time)
    started = classified(seen(runs), how, classified(seen(waits), how))
    assert started.job_class(runs.job_id) is job_class
    assert started.traits[runs.job_id].time_limit_s == (before if now < (before or 1e9) else now)
    # While it waits its owner may make it another.
    changed = classified(seen(replace(waits, time_limit_s=now)), how, classified(seen(waits), how))
    assert changed.job_class(waits.job_id) is (TE if now <= 60 else BE)
    again = replace(waits, time_limit_s=now, restarts=1)
    assert classified(seen(again), how, started).job_class(again.job_id) is (TE if now <= 60 else BE)


class TestClassified:
    """What an earlier poll found out is kept for a job that has not changed."""

    MARK = Traits(job_class=EXEMPT, rule="mark of the earlier look", grace_period_s=1, grace_source="")

    def again(self, before: Job, now: Job) -> Traits:
        """Return the traits of `now`, given an earlier poll of `before` that bears a mark."""
        known = seen(before).with_traits({before.job_id: self.MARK})
        return classified(seen(now), Classification(), known).traits[now.job_id]

    def test_every_job_is_classified(self) -> None:
        how = Classification(rules=(TE_RULE,))
        snapshot = classified(seen(waiting(1, partitions=("debug",)), running(2, share("n1", 1))), how)
        assert {job_id: found.job_class for job_id, found in snapshot.traits.items()} == {1: TE, 2: BE}

    def test_an_unclassified_job_is_exempt(self) -> None:
        assert seen(waiting(1)).job_class(waiting(1).job_id) is EXEMPT

    def test_a_job_that_only_moved_in_the_queue_is_not_classified_again(self) -> None:
        now = waiting(1, priority=7, reason="Priority")
        assert self.again(waiting(1), now) == self.MARK

    @pytest.mark.parametrize(
        "now",
        [
            waiting(1, name="x"),
            waiting(1, partitions=("q",)),
            waiting(1, qos="x"),
            waiting(1, account="x"),
            waiting(1, comment="x"),
            waiting(1, time_limit_s=1),
            waiting(1, cpus=2),
            waiting(1, submit_time=NOW),
            waiting(2),
        ],
    )
    def test_a_waiting_job_that_changed_is_classified_again(self, now: Job) -> None:
        assert self.again(waiting(1), now).rule == "default"

    def test_a_running_jobs_class_does_not_follow_what_its_owner_says_meanwhile(self) -> None:
        before = running(1, share("n1", 1))
        assert self.again(before, replace(before, comment="te", name="x", qos="x")) == self.MARK

    def test_a_job_that_starts_otherwise_than_it_waited_is_classified_again(self) -> None:
        before = waiting(1, partitions=("p", "q"))
        assert self.again(before, replace(running(1, share("n1", 1)), submit_time=before.submit_time)).rule == "default"

    def test_its_next_run_is_classified_again(self) -> None:
        before = running(1, share("n1", 1))
        assert self.again(before, replace(before, restarts=1, comment="x")).rule == "default"


@pytest.mark.parametrize(
    ("comment", "samples", "utility"),
    [
        ("workload=net samples=2e6 utility=critical", 2e6, "critical"),
        ("tesched:samples=1500.5,utility=Insensitive", 1500.5, "insensitive"),
        ("samples=0 utility=high", None, ""),
        ("samples=inf", None, ""),
        ("samples=1e999", None, ""),
        ("samples=-3", None, ""),
    ],
)
def test_what_a_training_says_of_itself(comment: str, samples: float | None, utility: str) -> None:
    traits = classify(waiting(1, comment=comment), Classification())
    assert (traits.samples, traits.utility) == (samples, utility)


@pytest.mark.parametrize(
    ("comment", "allowed", "most"),
    [
        ("preemptions=2", False, 2),
        ("tesched:Preemptions=999999", False, 999_999),
        ("preemptions=5 preemptions=3", False, 3),
        ("preemptions=0", False, 1),
        ("preemptions=0", True, 0),
        ("preemptions=-1", True, None),
        ("preemptions=1000000", True, None),
        ("preemptions=1.5", True, None),
        ("preemptions=", True, None),
        ("preempted=1", True, None),
        ("te preemptions=0", True, None),
    ],
)
def test_the_owner_of_a_be_job_says_how_often_it_may_be_preempted(
    comment: str, allowed: bool, most: int | None
) -> None:
    how = Classification(user_word=UserWord(may_say_te=True, may_say_no_preemptions=allowed))
    assert classify(waiting(1, comment=comment), how).most_preemptions == most


@pytest.mark.parametrize(
    ("comment", "patience_s"),
    [
        ("te patience=300", 300.0),
        ("te,Patience=0.5", 0.5),
        ("tesched:te tesched:patience=999999", 999_999.0),
        ("te patience=5 patience=6", 6.0),
        ("te", 0.0),
        ("te patience=0", 0.0),
        ("te patience=-5", 0.0),
        ("te patience=1000000", 0.0),
        ("te patience=5m", 0.0),
        ("te patience=nan", 0.0),
        ("patience=300", 0.0),
        ("be patience=300", 0.0),
    ],
)
def test_the_owner_of_a_te_job_says_for_how_long_no_other_is_to_leave_for_it(comment: str, patience_s: float) -> None:
    how = Classification(user_word=UserWord(may_say_te=True))
    assert classify(waiting(1, comment=comment), how).patience_s == patience_s
