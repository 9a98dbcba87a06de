"""Notices: which signal and grace period a job gets, from its comment, its options, the rules and the default."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.intake.class_rules import Classification, Rule
from tesched_core.intake.classify import classified, classify, with_declared
from tesched_core.model.cluster import Job, JobState
from tesched_core.model.notice import Declared, ExitZero, Target, read_signal, signal_name
from tesched_core.model.snapshot import JobClass, Snapshot

from tests.builders import NOW, running, share, waiting

BE = JobClass.BE


def seen(*jobs: Job) -> Snapshot:
    return Snapshot.of(NOW, jobs=jobs)


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

    def test_site_default_counts_without_any_word(self) -> None:
        how = replace(self.HOW, rules=())
        site = "the site's default"
        assert self.answer(waiting(1), how) == (20.0, site, "USR2", Target.FULL, site)

    def test_rules_come_before_the_default(self) -> None:
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
            (ExitZero.SLURM, "23.11.9", False),
            (ExitZero.SLURM, "24.11.5", True),
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
