"""What is foretold of a job beside a Slurm that answers as set: what no site of tests/cluster/test_ask.py has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from tesched_core.intake.class_rules import Classification, UserWord
from tesched_core.model.cluster import JobState
from tesched_core.model.decision import RefusalCode
from tesched_core.model.limits import Limits, YieldBy
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass, Snapshot, Traits
from tesched_daemon.config import Config
from tesched_daemon.settings import IdleConfig
from tesched_daemon.submission import as_recorded, asking, slurms_answer
from tesched_daemon.submission.foretold import Foretold, Verdict
from tesched_daemon.submission.slurm_limits import ForetoldLimits
from tesched_daemon.submission.sources import SubmissionError
from tesched_db import migrate
from tesched_db.engine import open_store
from tesched_slurm.sbatch_asked import NotTaken, SlurmsWord
from tesched_testcluster.harness.store_examples import Writer

from tests.builders import cluster, node, running, share

NOW = 1_800_000_000.0
ASK_NO_NODES = NotTaken(said="Requested node configuration is not available", by_nodes=True)
TRAITS = Traits(job_class=JobClass.BE, rule="", grace_period_s=0.0, grace_source="")
Ask = Callable[..., Foretold]


def starts(at: float = NOW, partition: str = "p") -> SlurmsWord:
    return SlurmsWord(start_at=at, cpus=1, nodes="n1", partition=partition)


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Ask:
    """Give a function that foretells what becomes of a job of these options, as Slurm answers."""
    url = f"sqlite:///{tmp_path}/store.sqlite"
    migrate.upgrade(url)
    config = Config(classes=Classification(user_word=UserWord(may_say_te=True)))

    def asked(
        *words: str,
        seen: Snapshot,
        answer: SlurmsWord | NotTaken | None,
        guard: Limits | None = None,
        by: Callable[..., SlurmsWord] | None = None,
    ) -> Foretold:
        client = SimpleNamespace(observer=SimpleNamespace(observe=lambda: replace(seen, taken_at=NOW)))
        monkeypatch.setattr(asking, "connect", lambda _config: client)
        # As if the daemon had read their scripts.
        monkeypatch.setattr(as_recorded, "_recorded", lambda _job, traits, _view: traits)
        monkeypatch.setattr(slurms_answer, "ask_slurm", by or (lambda *_args, **_more: answer))
        engine = open_store(url)
        try:
            return asking.foretell(
                ("--partition=p", "--time=5", *words, "--wrap=true"),
                replace(config, guard=guard or config.guard),
                engine,
            )
        finally:
            engine.dispose()

    return asked


IDLE = cluster([node("n1", cpus=4)])
FULL = cluster([node("n1", cpus=4)], [running(1, share("n1", cpus=4), start_time=NOW - 9000, user="bob")])


def test_patience_has_its_end(ask: Ask) -> None:
    found = ask("--comment=te patience=20", seen=FULL, answer=starts(NOW + 3600))
    assert [one.code for one in found.reasons] == [RefusalCode.PATIENCE]
    assert (found.verdict, found.not_before) == (Verdict.WAITS, NOW + 20)


@pytest.mark.parametrize(("lever", "signal", "most"), [("auto", "USR1", 16), ("requeue", "USR1", 16), ("auto", "", 1)])
def test_how_often_a_victim_may_be_preempted_goes_by_the_signal_that_it_declares_also_if_it_is_suspended(
    ask: Ask, lever: str, signal: str, most: int
) -> None:
    job = running(1, share("n1", cpus=4), start_time=NOW - 9000, user="bob", comment=f"signal={signal} grace=30")
    seen = cluster([node("n1", cpus=4)], [job])
    (victim,) = ask("--comment=te", seen=seen, answer=starts(NOW + 3600), guard=Limits(lever=YieldBy(lever))).victims
    assert (victim.by_suspending, victim.most_preempted) == (lever == "auto", most)


def test_another_partition_in_slurms_word_is_named(ask: Ask) -> None:
    (note,) = [one for one in ask(seen=IDLE, answer=starts(partition="gpu")).notes if "partition gpu" in one]
    assert note.startswith("Slurm's own word is for partition gpu")
    assert not any("partition p" in one for one in ask(seen=IDLE, answer=starts()).notes)


def test_a_word_without_a_partition_is_for_its_own(ask: Ask) -> None:
    found = ask(seen=IDLE, answer=starts(partition=""))
    assert (found.verdict, [one for one in found.notes if "partition" in one]) == (Verdict.FREE, [])


@pytest.mark.parametrize("comment", ["te", "be"])
def test_where_slurms_word_is_not_read_nothing_is_said_of_resources(ask: Ask, comment: str) -> None:
    found = ask(f"--comment={comment}", "--switches=2", seen=IDLE, answer=None)
    assert (found.verdict, found.starts, found.because) == (Verdict.UNREAD, False, [])
    assert any("another form than known" in one for one in found.notes)


@pytest.mark.parametrize("quiet", ["-Q", "--quiet"])
def test_a_job_that_is_submitted_without_a_word_is_foretold_all_the_same(ask: Ask, quiet: str) -> None:
    words: list[str] = []

    def answer(given: Sequence[str], *_args: object, **_more: object) -> SlurmsWord:
        words.extend(given)
        return starts()

    given = ask(quiet, seen=IDLE, answer=starts(), by=answer)
    assert given.verdict is Verdict.FREE
    assert quiet not in words


@pytest.mark.parametrize("comment", ["te", "be"])
def test_a_dependency_that_is_not_read_leaves_the_start_open(ask: Ask, comment: str) -> None:
    found = ask(f"--comment={comment}", "--dependency=aftercorr:7", seen=IDLE, answer=starts())
    assert (found.verdict, found.starts) == (Verdict.UNSURE, False)
    assert "--dependency=aftercorr:7" in found.because[-1]
    assert ask(f"--comment={comment}", "--dependency=afterok:7", seen=IDLE, answer=starts()).starts


@pytest.mark.parametrize("comment", ["te", "be"])
def test_a_begin_time_that_is_not_read_is_slurms(ask: Ask, comment: str) -> None:
    found = ask(f"--comment={comment}", "--begin=teatime", seen=FULL, answer=starts(NOW + 3600))
    assert (found.verdict, found.not_before, found.victims) == (Verdict.WAITS, NOW + 3600, [])
    assert found.because == ["Slurm starts it later: its begin time has not come, or resources are not free for it"]


@pytest.mark.parametrize("comment", ["te", "be"])
def test_a_job_that_finds_no_nodes_now_waits_and_is_refused_where_all_are_up(ask: Ask, comment: str) -> None:
    drained = replace(IDLE, nodes={"n1": replace(IDLE.nodes["n1"], flags=frozenset({"DRAIN"}))})
    found = ask(f"--comment={comment}", seen=drained, answer=ASK_NO_NODES)
    assert (found.verdict, found.slurm) == (Verdict.WAITS, None)
    assert found.because == [f"Slurm finds no nodes for it as they are now: {ASK_NO_NODES.said}"]
    with pytest.raises(SubmissionError, match="Slurm would not take it: Requested node configuration"):
        ask(f"--comment={comment}", seen=IDLE, answer=ASK_NO_NODES)


def test_idle_jobs_are_those_that_the_daemon_has_recorded(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.sqlite"
    migrate.upgrade(url)
    engine = open_store(url)
    jobs = [running(number, share("n1", cpus=1), start_time=NOW - 9000) for number in (1, 2, 3)]
    recorded = cluster([node("n1", cpus=4)], jobs)
    Writer(engine).write(replace(recorded, taken_at=NOW, idle_since={JobId(1): NOW - 50, JobId(2): NOW - 60}))
    again = replace(jobs[1], start_time=NOW - 10, restarts=1)
    seen = replace(cluster([node("n1", cpus=4)], [jobs[0], again, jobs[2]]), taken_at=NOW)
    # A file that this user would not believe says nothing here.
    config = Config(idle=IdleConfig(file=str(tmp_path / "idle")))
    mine = replace(jobs[0], job_id=JobId(9), state=JobState.PENDING, allocation=())
    known = as_recorded.as_recorded(seen, mine, TRAITS, config, engine)
    engine.dispose()
    assert known.idle_since == {1: NOW - 50}


@pytest.mark.parametrize("comment", ["te", "be"])
def test_a_limit_of_its_account_keeps_a_job_whatever_is_free(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, comment: str
) -> None:
    limits = ForetoldLimits(reason="AssocMaxJobsLimit", lines=["MaxJobs=1"])
    monkeypatch.setattr(asking, "slurm_limits", lambda *_args: limits)
    for seen, answer in ((IDLE, starts()), (FULL, starts(NOW + 3600))):
        found = ask(f"--comment={comment}", seen=seen, answer=answer)
        assert (found.verdict, found.victims, found.slurm_limits) == (Verdict.WAITS, [], ["MaxJobs=1"])
        assert [one.code for one in found.reasons] == [RefusalCode.LIMIT]
        assert "AssocMaxJobsLimit" in found.reasons[0].text
    # It is held first of all.
    found = ask(f"--comment={comment}", "--hold", seen=IDLE, answer=starts())
    assert [one.code for one in found.reasons] == [RefusalCode.HELD]


def test_a_submission_that_a_limit_forbids_is_refused_with_its_name(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "slurm_limits", lambda *_args: ForetoldLimits(lines=["MaxSubmitJobs=1 of user ann"]))
    said = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"
    with pytest.raises(SubmissionError) as error:
        ask(seen=IDLE, answer=NotTaken(said=said))
    assert str(error.value) == f"--wrap: Slurm would not take it: {said}; MaxSubmitJobs=1 of user ann"


def test_one_that_fits_no_nodes_is_refused_without_a_limit(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        asking, "slurm_limits", lambda *_args: ForetoldLimits(reason="AssocMaxJobsLimit", lines=["MaxJobs=1"])
    )
    with pytest.raises(SubmissionError) as error:
        ask("--comment=te", seen=IDLE, answer=ASK_NO_NODES)
    assert str(error.value).endswith(ASK_NO_NODES.said)


@pytest.mark.parametrize("comment", ["te", "be"])
def test_a_partition_that_is_down_is_the_reason_on_idle_nodes(ask: Ask, comment: str) -> None:
    down = replace(IDLE, partitions={"p": replace(IDLE.partitions["p"], state="DOWN")})
    found = ask(f"--comment={comment}", seen=down, answer=starts())
    assert (found.verdict, [one.code for one in found.reasons]) == (Verdict.WAITS, [RefusalCode.PARTITION_DOWN])
