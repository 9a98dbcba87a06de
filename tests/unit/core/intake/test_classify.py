"""Job classes, trial and error or best effort, and the notice that a job gets."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.intake.classify import (
    Classification,
    Match,
    Rule,
    UserWord,
    classified,
    classify,
    matches,
    with_declared,
)
from tesched_core.model.cluster import Job, JobState, Request
from tesched_core.model.notice import Declared, ExitZero, Target, read_signal, signal_name
from tesched_core.model.snapshot import JobClass, Snapshot, Traits

from tests.builders import NOW, running, share, waiting

TE, BE, EXEMPT = JobClass.TE, JobClass.BE, JobClass.EXEMPT
TE_RULE = Rule(name="debug", job_class=TE, match=Match(partitions=("debug*",)))


def seen(*jobs: Job) -> Snapshot:
    return Snapshot.of(NOW, jobs=jobs)


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
    def test_globs(self, match: Match, matched: bool) -> None:
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
    def test_bounds(self, match: Match, matched: bool) -> None:
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

    def test_by_default_nobody_is_trial_and_error(self) -> None:
        assert classify(waiting(1, comment="te"), Classification()).job_class is BE

    @pytest.mark.parametrize("grace_s", [-1.0, 86401.0, float("inf"), float("nan")])
    def test_a_grace_period_that_cannot_be_given_is_an_error(self, grace_s: float) -> None:
        with pytest.raises(ValueError, match="grace period must be between 0 and 86400"):
            Rule(name="x", job_class=BE, grace_period_s=grace_s)
        with pytest.raises(ValueError, match="grace period must be between 0 and 86400"):
            UserWord(max_grace_period_s=grace_s)
        with pytest.raises(ValueError, match="grace period must be between 0 and 86400"):
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


class TestNotice:
    """Grace period and signal: the comment's word, else --signal, else the rule's, else the site's, which is none."""

    RULE = Rule(name="all", job_class=BE, grace_period_s=45.0, notice_signal="B:TERM")
    HOW = Classification(rules=(RULE,), default_grace_period_s=20.0, default_notice_signal="full:USR2")

    def answer(
        self, job: Job, how: Classification = HOW, own: str | None = None
    ) -> tuple[float, str, str, Target, str]:
        declared = None if own is None else Declared(signal=read_signal(own), source="its script's --signal")
        found = classify(job, how, declared)
        return found.grace_period_s, found.grace_source, found.notice_signal, found.notice_target, found.notice_source

    def test_by_default_nothing_is_sent(self) -> None:
        nothing = (0.0, "no signal was declared", "", Target.STEPS, "the site's default")
        assert self.answer(waiting(1), Classification()) == nothing
        assert self.answer(waiting(1, comment="grace=60"), Classification()) == nothing
        why = "its script's --signal; the site's default"
        assert self.answer(waiting(1), Classification(), own="KILL@60") == (*nothing[:-1], why)

    def test_the_sites_default(self) -> None:
        how = replace(self.HOW, rules=())
        site = "the site's default"
        assert self.answer(waiting(1), how) == (20.0, site, "USR2", Target.FULL, site)

    def test_the_rules(self) -> None:
        assert self.answer(waiting(1)) == (45.0, "rule all", "TERM", Target.BATCH, "rule all")

    def test_a_rule_may_give_no_grace_period_and_no_signal(self) -> None:
        how = replace(self.HOW, rules=(replace(self.RULE, grace_period_s=0.0, notice_signal=None),))
        assert self.answer(waiting(1), how) == (0.0, "rule all", "USR2", Target.FULL, "the site's default")
        how = replace(self.HOW, rules=(replace(self.RULE, notice_signal="none"),))
        assert self.answer(waiting(1), how)[::2] == (0.0, "", "rule all")

    @pytest.mark.parametrize(
        ("own", "signal", "target", "grace_s"),
        [
            ("USR1@120", "USR1", Target.STEPS, 120.0),
            ("B:12@30", "USR2", Target.BATCH, 30.0),
            ("R:SIGTERM", "TERM", Target.STEPS, 60.0),
            ("rb:hup@3600", "HUP", Target.BATCH, 600.0),
        ],
    )
    def test_the_jobs_own_signal_option(self, own: str, signal: str, target: Target, grace_s: float) -> None:
        source = "its script's --signal"
        assert self.answer(waiting(1), own=own) == (grace_s, source, signal, target, source)

    @pytest.mark.parametrize("own", ["9@60", "KILL", "USR1@", "B:", "USR1@60 ", "USR3@5", "x:USR1", "USR1@1e3", "²"])
    def test_an_option_that_is_no_notice_declares_none(self, own: str) -> None:
        assert read_signal(own) is None
        assert self.answer(waiting(1), own=own) == self.answer(waiting(1))

    def test_the_comment_has_the_last_word(self) -> None:
        job = waiting(1, comment="be grace=7.5 signal=SIGINT")
        said = "the job's comment"
        assert self.answer(job) == (7.5, said, "INT", Target.STEPS, said)
        # Where its options say which processes, the signal that the comment names goes there.
        assert self.answer(job, own="B:USR1@60") == (7.5, said, "INT", Target.BATCH, said)
        job = waiting(1, comment="signal=full:USR2@9")
        assert self.answer(job, own="B:USR1@60") == (9.0, said, "USR2", Target.FULL, said)

    def test_the_comment_may_say_that_there_is_none(self) -> None:
        job = waiting(1, comment="signal=none grace=60")
        assert self.answer(job, own="USR1@60")[2:] == ("", Target.STEPS, "the job's comment")
        assert self.answer(job, own="USR1@60")[0] == 0.0

    @pytest.mark.parametrize(
        ("comment", "rule", "meaning"),
        [
            ("", None, ExitZero.SLURM),
            ("", ExitZero.AGAIN, ExitZero.AGAIN),
            ("exit0=finished", ExitZero.AGAIN, ExitZero.FINISHED),
            ("exit0=Again", None, ExitZero.AGAIN),
            ("exit0=twice", ExitZero.AGAIN, ExitZero.AGAIN),
        ],
    )
    def test_what_exit_0_means(self, comment: str, rule: ExitZero | None, meaning: ExitZero) -> None:
        how = Classification(rules=(Rule(name="all", job_class=BE, exit0=rule),))
        assert classify(waiting(1, comment=comment), how).exit0 is meaning

    @pytest.mark.parametrize(
        ("meaning", "release", "again"),
        [
            (ExitZero.FINISHED, "26.05.5", False),
            (ExitZero.AGAIN, "22.05.8", True),
            (ExitZero.SLURM, "22.05.8", False),
            (ExitZero.SLURM, "24.11.5", False),
            (ExitZero.SLURM, "26.05.5", True),
            (ExitZero.SLURM, "27.11.0", True),
            (ExitZero.SLURM, "", False),
        ],
    )
    def test_whether_exit_0_runs_again(self, meaning: ExitZero, release: str, again: bool) -> None:
        assert meaning.runs_again(release) is again

    def test_what_a_job_declares_outlasts_its_run(self) -> None:
        how = Classification()
        first = running(1, share("n1", 1))
        found = Declared(signal=read_signal("B:USR1@90"), source="its script's --signal")
        last = with_declared(classified(seen(first), how), how, {first.job_id: found})
        # Requeued, ended unseen, and another job with its id.
        for job, declared in (
            (replace(waiting(1), restarts=1, submit_time=NOW), found),
            (replace(first, restarts=1, submit_time=NOW, allocation=(), state=JobState.COMPLETED), found),
            (replace(waiting(1), submit_time=NOW + 9), None),
        ):
            last = classified(seen(job), how, last)
            assert last.traits[job.job_id].declared == declared

    def test_what_a_running_job_declares_is_added_once_it_is_known(self) -> None:
        how = Classification()
        start = classified(seen(running(1, share("n1", 1)), running(2, share("n1", 1)), waiting(3)), how)
        found = Declared(signal=read_signal("B:USR1@90"), source="its script's --signal")
        first = with_declared(start, how, {running(1, share("n1", 1)).job_id: found})
        one, two, three = (first.traits[job_id] for job_id in sorted(first.traits))
        assert (one.notice_signal, one.notice_target, one.grace_period_s, one.unread) == (
            *("USR1", Target.BATCH, 90.0),
            False,
        )
        assert (two.notice_signal, two.unread) == ("", True)
        assert not three.unread  # it does not run
        assert with_declared(first, how, {running(1, share("n1", 1)).job_id: found}) is first

    @pytest.mark.parametrize(
        ("said", "grace_s"),
        [("0", 0.0), ("600", 600.0), ("601", 600.0), ("999999", 600.0), ("0.125", 0.125)],
    )
    def test_a_comment_may_ask_for_as_much_as_the_site_allows(self, said: str, grace_s: float) -> None:
        assert self.answer(waiting(1, comment=f"grace={said}"))[:2] == (grace_s, "the job's comment")

    @pytest.mark.parametrize(("comment", "run_s"), [("be run=90", 90), ("", None), ("run=0", None), ("run=1h", None)])
    def test_how_long_it_runs_is_its_owners_word(self, comment: str, run_s: float | None) -> None:
        assert classify(waiting(1, comment=comment), Classification()).run_time_s == run_s

    @pytest.mark.parametrize(
        "said",
        [
            "inf",
            "Infinity",
            "nan",
            "-1",
            "1e99",
            "1e2",
            "+5",
            "0x10",
            "1_000",
            "9999999",
            "5.",
            ".5",
            "",
            "5s",
            "9" * 400,
        ],
    )
    def test_a_hostile_grace_period_is_passed_over(self, said: str) -> None:
        assert self.answer(waiting(1, comment=f"grace={said}"))[:2] == (45.0, "rule all")

    @pytest.mark.parametrize("said", ["KILL", "9", "STOP", "19", "0", "-10", "1e1", "USR3", "", "²"])
    def test_a_hostile_signal_is_passed_over(self, said: str) -> None:
        assert self.answer(waiting(1, comment=f"signal={said}"))[2] == "TERM"

    def test_an_endless_comment_is_read_like_any_other(self) -> None:
        comment = "grace=inf," * 20_000 + "grace=9"
        assert self.answer(waiting(1, comment=comment))[:2] == (9.0, "the job's comment")

    @pytest.mark.parametrize(
        ("said", "name"),
        [
            ("usr1", "USR1"),
            ("SIGUSR1", "USR1"),
            ("sigterm", "TERM"),
            ("10", "USR1"),
            ("12", "USR2"),
            ("15", "TERM"),
            ("18", "CONT"),
            ("9", None),
            ("KILL", None),
            ("", None),
        ],
    )
    def test_signals_by_name_and_by_number(self, said: str, name: str | None) -> None:
        assert signal_name(said) == name

    @pytest.mark.parametrize("signal", ["KILL", "SIGUSR1", "", "b:USR1", "B:", "R:USR1", "B:USR1@60", "NONE"])
    def test_what_no_site_may_send(self, signal: str) -> None:
        with pytest.raises(ValueError, match="none or one of HUP"):
            Rule(name="x", job_class=BE, notice_signal=signal)


class TestClassified:
    """What an earlier look found out is kept for a job that has not changed."""

    MARK = Traits(job_class=EXEMPT, rule="mark of the earlier look", grace_period_s=1, grace_source="")

    def again(self, before: Job, now: Job) -> Traits:
        """Return the traits of `now`, given an earlier look at `before` that bears a mark."""
        known = seen(before).with_traits({before.job_id: self.MARK})
        return classified(seen(now), Classification(), known).traits[now.job_id]

    def test_every_job_is_classified(self) -> None:
        how = Classification(rules=(TE_RULE,))
        snapshot = classified(seen(waiting(1, partitions=("debug",)), running(2, share("n1", 1))), how)
        assert {job_id: found.job_class for job_id, found in snapshot.traits.items()} == {1: TE, 2: BE}

    def test_a_job_that_nobody_classified_is_exempt(self) -> None:
        assert seen(waiting(1)).job_class(waiting(1).job_id) is EXEMPT

    def test_a_job_that_only_moved_in_the_queue_is_not_asked_again(self) -> None:
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
    def test_a_waiting_job_that_changed_is_asked_again(self, now: Job) -> None:
        assert self.again(waiting(1), now).rule == "default"

    def test_a_running_jobs_class_does_not_follow_what_its_owner_says_meanwhile(self) -> None:
        before = running(1, share("n1", 1))
        assert self.again(before, replace(before, comment="te", name="x", qos="x")) == self.MARK

    def test_a_job_that_starts_otherwise_than_it_waited_is_asked_again(self) -> None:
        before = waiting(1, partitions=("p", "q"))
        assert self.again(before, replace(running(1, share("n1", 1)), submit_time=before.submit_time)).rule == "default"

    def test_its_next_run_is_asked_again(self) -> None:
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
