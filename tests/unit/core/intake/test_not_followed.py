"""What a user said and the site does not follow: which words, why, and what counts instead."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.intake.class_rules import Classification, Match, Rule, UserWord
from tesched_core.intake.classify import classified, classify, with_declared
from tesched_core.model.cluster import Job
from tesched_core.model.not_followed import LONGEST_SAID, MOST_SAID, About, NotFollowed
from tesched_core.model.notice import Declared, read_signal
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass, Snapshot

from tests.builders import NOW, running, share, waiting

BE_BY_DEFAULT = "best effort (rule: default)"
NO_SIGNAL = "no signal: it is requeued without a notice"
TE_BY_WORD = Classification(user_word=UserWord(may_say_te=True))
READ = Declared(source="no --signal in its script")


def said(comment: str, how: Classification | None = None, declared: Declared | None = None) -> list[tuple[str, ...]]:
    return ignored(waiting(1, comment=comment), how, declared)


def ignored(job: Job, how: Classification | None = None, declared: Declared | None = None) -> list[tuple[str, ...]]:
    found = classify(job, how or Classification(), declared).not_followed
    assert all(one.source for one in found)
    return [(one.said, one.why, one.instead) for one in found]


def option(text: str, where: str = "its script") -> Declared:
    """Return what was read of an option of the job's own."""
    signal = read_signal(text)
    return Declared(signal=signal, source=f"{where}'s --signal", where=where, not_taken="" if signal else text)


class TestClass:
    """`te` and `be`."""

    @pytest.mark.parametrize("comment", ["te", "TE", "tesched:te", "proj42 te", "lr=0.1,te"])
    def test_te_is_not_followed_where_the_site_does_not_allow_it(self, comment: str) -> None:
        word = next(word for word in comment.replace(",", " ").split() if word.lower().endswith("te"))
        assert said(comment) == [(word, "classes.user_word.may_say_te = false", BE_BY_DEFAULT)]

    @pytest.mark.parametrize(
        ("within", "why"),
        [
            (Match(max_time_limit_s=600), "max_time_limit_s = 600, and the job has 3600"),
            (Match(max_gpus=1, min_gpus=1), "min_gpus = 1, and the job has 0"),
            (Match(partitions=("debug", "try*")), 'partitions = ["debug", "try*"], and the job has main'),
            (Match(interactive=True), "interactive = true, and the job has false"),
        ],
    )
    def test_te_outside_the_sites_bounds_names_the_bound_and_what_the_job_has(self, within: Match, why: str) -> None:
        how = Classification(user_word=UserWord(may_say_te=True, within=within))
        job = replace(waiting(1, comment="te", partitions=("main",)), time_limit_s=3600)
        assert ignored(job, how) == [("te", f"classes.user_word.within.{why}", BE_BY_DEFAULT)]

    def test_each_bound_that_is_not_met_is_named(self) -> None:
        how = Classification(user_word=UserWord(may_say_te=True, within=Match(users=("bob",), max_nodes=1)))
        job = waiting(1, comment="te", user="ada")
        job = replace(job, request=replace(job.request, min_nodes=4))
        [(_, why, _)] = ignored(job, how)
        assert why == (
            'classes.user_word.within.users = ["bob"], and the job has ada; '
            "classes.user_word.within.max_nodes = 1, and the job has 4"
        )

    def test_a_job_without_a_time_limit_is_above_each(self) -> None:
        how = Classification(user_word=UserWord(may_say_te=True, within=Match(max_time_limit_s=600)))
        [(_, why, _)] = ignored(replace(waiting(1, comment="te"), time_limit_s=None), how)
        assert why.endswith("max_time_limit_s = 600, and the job has none")

    def test_a_declaration_that_is_followed_is_not_reported(self) -> None:
        how = Classification(user_word=UserWord(may_say_te=True))
        assert said("te", how) == []
        assert said("be", Classification(rules=(Rule(name="all", job_class=JobClass.TE),))) == []
        assert said("te", Classification(default_class=JobClass.TE)) == [], "it is one without that word"

    def test_be_is_not_followed_where_the_site_does_not_allow_it_or_te_was_said(self) -> None:
        rules = (Rule(name="quick", job_class=JobClass.TE),)
        how = Classification(rules=rules, user_word=UserWord(may_say_be=False))
        te = "trial and error (rule: quick)"
        assert said("be", how) == [("be", "classes.user_word.may_say_be = false", te)]
        how = Classification(user_word=UserWord(may_say_te=True))
        te = "trial and error (rule: user's comment)"
        assert said("te be", how) == [("be", "te was said, too, and goes first", te)]

    def test_an_exempt_job_stays_so(self) -> None:
        how = Classification(
            rules=(Rule(name="staff", job_class=JobClass.EXEMPT),), user_word=UserWord(may_say_te=True)
        )
        [(word, why, instead)] = said("te", how)
        assert (word, instead) == ("te", "exempt (rule: staff)")
        assert "whatever its user says" in why


class TestNotice:
    """`signal=`, `grace=`, `exit0=`, and the job's own --signal."""

    @pytest.mark.parametrize(
        ("value", "name"),
        [("KILL", "KILL"), ("B:SIGKILL@60", "KILL"), ("9", "KILL"), ("stop", "STOP"), ("B:3", "QUIT")],
    )
    def test_a_signal_that_may_not_be_a_notice(self, value: str, name: str) -> None:
        why = f"SIG{name} may not be a notice; HUP, INT, USR1, USR2, TERM, CONT may"
        assert said(f"signal={value}") == [(f"signal={value}", why, NO_SIGNAL)]

    @pytest.mark.parametrize("value", ["B:USR1@", "USR3", "B:USR", "USR1@2min", "SIGUSER1", "X:USR1@60"])
    def test_a_signal_that_cannot_be_read(self, value: str) -> None:
        [(word, why, instead)] = said(f"signal={value}")
        assert (word, instead) == (f"signal={value}", NO_SIGNAL)
        assert why.startswith("its value can't be read; right is none, or [B:|full:]SIGNAL[@SECONDS]")

    def test_the_signal_that_counts_instead_is_named_with_its_source(self) -> None:
        how = Classification(default_notice_signal="B:TERM")
        [(_, _, instead)] = said("signal=KILL", how)
        assert instead == "SIGTERM to its batch shell, from the site's default"
        [(_, _, instead)] = said("signal=KILL", how, option("USR1@60"))
        assert instead == "SIGUSR1 to its steps, from its script's --signal"

    @pytest.mark.parametrize(
        ("comment", "declared", "word", "source"),
        [
            ("signal=TERM grace=9999", None, "grace=9999", "the job's comment"),
            ("signal=TERM@9999", None, "signal=TERM@9999", "the job's comment"),
            ("", option("B:USR1@9999"), "--signal=B:USR1@9999", "its script"),
            ("grace=601", option("B:USR1@9999"), "grace=601", "the job's comment"),
        ],
    )
    def test_a_grace_period_above_the_sites_bound_names_it(
        self, comment: str, declared: Declared | None, word: str, source: str
    ) -> None:
        [one] = classify(waiting(1, comment=comment), Classification(), declared).not_followed
        assert (one.said, one.source, one.why) == (word, source, "classes.user_word.max_grace_period_s = 600")
        assert one.instead.startswith("600 s, from ")

    @pytest.mark.parametrize("comment", ["signal=TERM@9999 grace=120", "signal=B:TERM@600", "grace=600 signal=10"])
    def test_a_grace_period_within_the_bound_is_not_reported(self, comment: str) -> None:
        assert said(comment) == []

    @pytest.mark.parametrize("value", ["2min", "120s", "-1", "inf", "1e9", "9999999"])
    def test_a_grace_period_that_cannot_be_read(self, value: str) -> None:
        how = Classification(default_notice_signal="TERM")
        why = "its value can't be read; right is seconds, as in grace=120"
        assert said(f"grace={value}", how) == [(f"grace={value}", why, "30 s, from the site's default")]

    def test_a_grace_period_without_a_signal_is_reported_once_no_signal_can_come(self) -> None:
        why = "no signal is declared, so nothing would notify the job of a grace period"
        assert said("grace=120") == [], "its script is yet to be read"
        assert said("grace=120", declared=READ) == [("grace=120", why, NO_SIGNAL)]
        assert said("grace=120 signal=none") == [("grace=120", why, NO_SIGNAL)]
        assert said("grace=120", declared=option("USR1")) == []

    def test_what_exit_0_means_where_the_word_cannot_be_read(self) -> None:
        why = "its value can't be read; right is again, finished or slurm"
        instead = "exit 0 in its grace period means what Slurm's own preemption makes of it"
        assert said("exit0=agian") == [("exit0=agian", why, instead)]
        assert said("exit0=AGAIN") == []

    @pytest.mark.parametrize("where", ["its script", "sbatch's command line"])
    def test_an_own_signal_that_is_not_taken_is_reported_with_where_it_is(self, where: str) -> None:
        [one] = classify(waiting(1), Classification(), option("KILL@60", where)).not_followed
        assert (one.said, one.source) == ("--signal=KILL@60", where)
        assert one.why.startswith("SIGKILL may not be a notice")

    def test_an_own_signal_that_the_comment_overrides_is_reported(self) -> None:
        [(word, why, instead)] = said("signal=none", declared=option("B:USR1@60"))
        assert (word, why, instead) == ("--signal=B:USR1@60", "the job's comment goes first", NO_SIGNAL)
        assert said("signal=USR1", declared=option("B:USR1@60")) == [], "it goes where the script says"

    def test_what_is_said_of_the_notice_is_worked_out_anew_when_the_script_is_read(self) -> None:
        how = Classification()
        job = replace(running(1, share("n1", 1)), comment="te signal=KILL grace=60")
        first = classified(Snapshot.of(NOW, jobs=(job,)), how)
        assert [one.said for one in first.traits[job.job_id].not_followed] == ["te", "signal=KILL"]
        read = with_declared(first, how, {job.job_id: READ}).traits[job.job_id].not_followed
        assert [one.said for one in read] == ["te", "signal=KILL", "grace=60"]
        own = with_declared(first, how, {job.job_id: option("B:USR1")}).traits[job.job_id].not_followed
        assert [one.said for one in own] == ["te", "signal=KILL"]
        assert own[1].instead == "SIGUSR1 to its batch shell, from its script's --signal"


class TestRest:
    """Other words, and ordinary text."""

    @pytest.mark.parametrize("value", ["2h", "90min", "01:00:00", "1-00:00:00"])
    def test_a_run_time_that_cannot_be_read(self, value: str) -> None:
        why = "its value can't be read; right is seconds above 0, as in run=3600"
        assert said(f"run={value}") == [(f"run={value}", why, "nothing was said of it")]

    @pytest.mark.parametrize(
        "value", ["-5", "1000000", "9" * 400, "never", "", "5m", "05:00", "inf", "nan", "1e3", "+5", "0x10", "300.0001"]
    )
    def test_a_patience_that_cannot_be_read(self, value: str) -> None:
        [(word, why, instead)] = said(f"te patience={value}", TE_BY_WORD)
        assert word == f"patience={value}"[:LONGEST_SAID]
        assert why == "its value can't be read; right is seconds, 999999 at most, as in patience=300"
        assert instead == "others leave for it as for any other"

    def test_of_two_patiences_the_last_counts(self) -> None:
        assert said("te patience=never patience=300", TE_BY_WORD) == []
        [(word, _, _)] = said("te patience=300 patience=never", TE_BY_WORD)
        assert word == "patience=never"

    def test_a_patience_of_a_job_for_which_none_leaves(self) -> None:
        why = "it is for trial-and-error jobs: no other job leaves for this one"
        expected = ("tesched:patience=300", why, BE_BY_DEFAULT)
        assert said("tesched:patience=300") == [expected]
        assert said("te patience=300")[1] == ("patience=300", why, BE_BY_DEFAULT)
        assert said("lr=0.1 patience=10 early stopping") == [], "a training has one of its own"

    @pytest.mark.parametrize("value", ["End", "END", "ended", "requeued", "cancel", "no"])
    def test_what_becomes_of_it_when_it_is_preempted_that_cannot_be_read(self, value: str) -> None:
        why = "its value can't be read; right is end or requeue, in lower case"
        instead = "when it is preempted it is put back in the queue"
        assert said(f"preempted={value}") == [(f"preempted={value}", why, instead)]

    def test_what_becomes_of_it_when_it_is_preempted_that_is_said_in_two_ways(self) -> None:
        instead = "when it is preempted it is put back in the queue"
        expected = ("preempted=end", "another word of the comment contradicts it", instead)
        assert said("preempted=end preempted=requeue") == [expected]
        assert said("preempted=end") == said("preempted=requeue") == said("preempted=yesterday") == []

    def test_elastic_is_for_job_arrays(self) -> None:
        [(word, why, _)] = said("elastic")
        assert (word, why) == ("elastic", "a job array alone is elastic: its tasks are the workers of one training")
        array = replace(waiting(1, comment="elastic"), array_job_id=JobId(1), array_tasks="0-9")
        assert ignored(array) == []

    def test_with_the_prefix_every_word_that_is_not_followed_is_reported(self) -> None:
        found = said("tesched:fast tesched:run=soon tesched:signal=strong tesched:weight=heavy tesched:speed=9")
        assert [word.removeprefix("tesched:") for word, _, _ in found] == [
            "fast",
            "run=soon",
            "weight=heavy",
            "speed=9",
            "signal=strong",
        ]
        known = "it knows be, elastic, te, signal=, patience=, preempted=, preemptions=, grace=, exit0=, run="
        assert known in found[0][1]

    @pytest.mark.parametrize(("word", "meant"), [("signal:USR1", "signal=USR1"), ("grace:120", "grace=120")])
    def test_a_colon_in_the_place_of_the_equals_sign(self, word: str, meant: str) -> None:
        assert said(word) == [(word, f"a value stands after an equals sign: {meant}", "nothing")]

    @pytest.mark.parametrize(
        "comment",
        [
            "",
            "first try of the new model",
            "to be or not to be",
            "be careful",
            "ci sono troppe cose da fare per te",
            "run=baseline lr=0.1 seed=3",
            "run=2026-11-26",
            "signal=strong background=weak",
            "signal=Zprime mass=1000",
            "signal=sigma",
            "elastic net regression",
            "samples=all weight=none utility=none workload=",
            "exit0 grace signal run",
            "note: signal: strong",
            "https://example.org/?run=1x&te",
            "{'te': 1}",
        ],
    )
    def test_an_ordinary_comment_yields_nothing(self, comment: str) -> None:
        how = Classification(user_word=UserWord(may_say_be=False))
        exempt = Classification(default_class=JobClass.EXEMPT)
        for one in (how, exempt, Classification(default_class=JobClass.TE, user_word=UserWord(may_say_be=False))):
            assert said(comment, one, READ) == []

    def test_what_is_kept_of_a_hostile_comment_is_bounded(self) -> None:
        many = " ".join(f"tesched:{'x' * 500}{number}" for number in range(1000))
        found = said(f"{many} signal=B:{'K' * 5000} grace={'9' * 5000}")
        assert 0 < len(found) <= 2 * MOST_SAID
        assert all(len(word) <= LONGEST_SAID and len(why) < 600 for word, why, _ in found)

    def test_it_is_kept_with_the_job(self) -> None:
        one = NotFollowed(
            about=About.CLASS,
            said="te",
            source="the job's comment",
            why="classes.user_word.may_say_te = false",
            instead=BE_BY_DEFAULT,
        )
        assert classify(waiting(1, comment="te"), Classification()).not_followed == (one,)


class TestPreemptions:
    """How often a job may be preempted, by its owner's word."""

    @pytest.mark.parametrize("comment", ["preemptions=1", "preemptions=9", "preemptions=x preemptions=2"])
    def test_what_counts_is_not_named(self, comment: str) -> None:
        assert said(comment, Classification()) == []

    def test_none_at_all_counts_where_the_site_allows_it(self) -> None:
        why = "classes.user_word.may_say_no_preemptions = false"
        assert said("preemptions=0", Classification()) == [("preemptions=0", why, "it is preempted once at most")]
        assert said("preemptions=0", Classification(user_word=UserWord(may_say_no_preemptions=True))) == []

    def test_what_is_no_number_is_named(self) -> None:
        [(word, why, instead)] = said("preemptions=never", Classification())
        assert word == "preemptions=never"
        assert "right is a whole number" in why
        assert instead == "it is preempted as often as the site allows"

    def test_so_is_one_of_a_te_job(self) -> None:
        how = Classification(user_word=UserWord(may_say_te=True))
        assert said("te preemptions=1", how) == [
            ("preemptions=1", "it is for best-effort jobs", "this job is never preempted")
        ]


class TestClassOfAWord:
    """Words for best-effort jobs, said of another job, and the one for trial-and-error jobs."""

    @pytest.mark.parametrize(
        "word",
        ["preempted=end", "preempted=requeue", "preemptions=0", "signal=USR1", "grace=60", "exit0=again"]
        + [f"tesched:{one}" for one in ("workload=bert", "weight=2", "slo=60", "samples=3", "utility=critical")],
    )
    @pytest.mark.parametrize("job_class", [JobClass.TE, JobClass.EXEMPT])
    def test_a_word_for_best_effort_jobs_is_named_once_of_another_job(self, word: str, job_class: JobClass) -> None:
        [(named, why, instead)] = said(f"{word} lr=0.1", Classification(default_class=job_class), READ)
        assert (named, why) == (word, "it is for best-effort jobs")
        assert instead == ("nothing was said of it" if word.startswith("tesched:") else "this job is never preempted")
        assert said(word, Classification(), option("USR1")) == [] or word == "preemptions=0"

    def test_so_is_a_value_of_it_that_cannot_be_read(self) -> None:
        for word in ("grace=long", "signal=KILL", "preempted=ends", "preemptions=x", "exit0=agian"):
            [(named, why, _)] = said(word, Classification(default_class=JobClass.TE), READ)
            assert named == word
            assert "for best-effort jobs" not in why

    def test_elastic_is_named_of_an_array_that_is_not_best_effort(self) -> None:
        array = replace(waiting(1, comment="elastic"), array_job_id=JobId(1), array_tasks="0-3")
        assert ignored(array, Classification(default_class=JobClass.TE)) == [
            ("elastic", "it is for best-effort jobs", "its tasks run as those of any other array")
        ]
        assert ignored(array) == []

    @pytest.mark.parametrize("word", ["tesched:patience=60", "te patience=60"])
    def test_patience_is_named_of_a_job_that_no_other_leaves_for(self, word: str) -> None:
        found = {named: why for named, why, _ in said(word)}
        why = found[word.rsplit(maxsplit=1)[-1]]
        assert why == "it is for trial-and-error jobs: no other job leaves for this one"

    def test_of_a_job_that_outlives_its_limit_they_count(self) -> None:
        job = replace(
            running(1, share("n1", 1), comment="signal=USR1 preempted=end preemptions=2"),
            start_time=NOW - 100,
            time_limit_s=60,
        )
        te = Classification(default_class=JobClass.TE)
        before = classified(Snapshot.of(NOW - 90, jobs=[job]), te)
        assert [one.said for one in before.traits[job.job_id].not_followed] == [
            "signal=USR1",
            "preempted=end",
            "preemptions=2",
        ]
        raised = Snapshot.of(NOW, jobs=[replace(job, time_limit_s=600)])
        after = classified(raised, te, before).traits[job.job_id]
        assert (after.job_class, after.notice_signal, after.most_preemptions) == (JobClass.BE, "USR1", 2)
        assert after.not_followed == ()
