"""`tesched whatif` and `advise` on a state store: jobs that still run, and exempt ones, hold their nodes again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tesched_cli.main import main
from tesched_core.intake.class_rules import Match, Rule
from tesched_core.model.cluster import Job, JobState, Node, NodeShare, Partition
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass, Snapshot
from tesched_daemon.settings import Mode
from tesched_db.engine import open_store
from tesched_db.journal import Identity, SqlJournal
from tesched_testcluster.harness.empty_store import empty_store

from tests.loop_parts import FULL, FULL_CLUSTER, TRIAL, VICTIM, Cluster, Notebook, loop_of

DAY_S = 86_400.0
NODES = [Node(name=f"n{number}", state="ALLOCATED", total=FULL) for number in range(1, 5)]
MAIN = Partition(name="main", nodes=frozenset(node.name for node in NODES))
#: on these three nodes, since days; TE jobs have the fourth alone, one after the other
LONG = [
    replace(
        VICTIM,
        job_id=JobId(number),
        user="bob",
        submit_time=10 * DAY_S,
        start_time=10 * DAY_S + 5,
        time_limit_s=int(14 * DAY_S),
        allocation=(NodeShare(node=f"n{number}", tres=FULL),),
    )
    for number in (1, 2, 3)
]
BEGIN = 15 * DAY_S
#: of each hour, four at once, each of which runs ten minutes: they come, start and end at these times
TRIALS = [
    (BEGIN + 3600 * hour, BEGIN + 3600 * hour + 600 * turn, BEGIN + 3600 * hour + 600 * turn + 595)
    for hour in range(3)
    for turn in range(4)
]


def trials_at(now: float) -> list[Job]:
    found = []
    for number, (comes, starts, ends) in enumerate(TRIALS, start=100):
        job = replace(TRIAL, job_id=JobId(number), user="ada", submit_time=comes, time_limit_s=900)
        held = replace(job, reason="None", start_time=starts, allocation=(NodeShare(node="n4", tres=FULL),))
        if comes <= now < starts:
            found.append(job)
        elif starts <= now < ends:
            found.append(replace(held, state=JobState.RUNNING))
        elif ends <= now < ends + 300:
            found.append(replace(held, state=JobState.COMPLETED, end_time=ends))
    return found


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "tesched.toml").write_text(
        f'[store]\nurl = "sqlite:///{tmp_path}/store.sqlite"\n[loop]\npoll_interval_s = 30\n'
    )
    seen = Snapshot.of(BEGIN, nodes=NODES, partitions=[MAIN])
    monkeypatch.setattr("tesched_cli.recorded_past.look", lambda _config: seen)
    monkeypatch.setattr("tesched_cli.recorded_past.time.time", lambda: BEGIN + 4 * 3600)
    return tmp_path


def recorded(folder: Path, *rules: Rule, at_last: Sequence[Job] = tuple(LONG)) -> None:
    """Let a daemon in mode observe record the trials beside the long jobs, which are so at last."""
    empty_store(folder / "store.sqlite")
    engine = open_store(f"sqlite:///{folder}/store.sqlite")
    cluster = Cluster(seen=FULL_CLUSTER)
    loop = loop_of(cluster, Notebook(), Mode.OBSERVE)
    loop.classes = replace(loop.classes, rules=(*rules, *loop.classes.rules))
    loop.journal = SqlJournal(engine, identity=Identity.here())
    instants = sorted({BEGIN, *(at for one in TRIALS for at in one)})
    end = instants[-1] + 60
    now = [0.0]
    loop.clock = lambda: now[0]
    for at in (*instants, end):
        now[0] = at
        jobs = [*(at_last if at == end else LONG), *trials_at(at)]
        cluster.seen = Snapshot.of(at, jobs=jobs, nodes=NODES, partitions=[MAIN])
        loop.turn()
    engine.dispose()


def said(folder: Path, *argv: str) -> Any:
    done = CliRunner().invoke(main, [argv[0], "--config", str(folder / "tesched.toml"), "--json", *argv[1:]])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def of(found: Any, case: str, job_class: str) -> Any:
    (line,) = (one for one in found["lines"] if one["case"] == case and one["job_class"] == job_class)
    return line


def test_jobs_that_still_run_hold_their_nodes(folder: Path) -> None:
    recorded(folder)
    found = said(folder, "whatif", "--policy", "fifo")
    assert (found["jobs"], found["left_out"]) == (15, 0)
    for case in ("as it was", "fifo"):
        assert (of(found, case, "te")["jobs"], of(found, case, "be")["jobs"]) == (12, 3)
        assert 1600 < of(found, case, "te")["wait_p95_s"] <= 1800
    assert "3 job(s) still run: they run again for as long as they have run so far" in found["notes"]


def test_they_may_be_victims(folder: Path) -> None:
    recorded(folder)
    assert said(folder, "advise", "--processes", "1")["chosen"]


IS_EXEMPT = Rule(name="long", job_class=JobClass.EXEMPT, match=Match(users=("bob",)))


@pytest.mark.parametrize("ended", [False, True])
def test_exempt_jobs_hold_their_nodes_and_are_victims_of_none(folder: Path, ended: bool) -> None:
    over = [replace(job, state=JobState.COMPLETED, end_time=TRIALS[-1][2] + 30) for job in LONG]
    recorded(folder, IS_EXEMPT, at_last=over if ended else LONG)
    found = said(folder, "whatif", "--policy", "fifo,fitgpp")
    assert found["jobs"] == 15
    for case in ("as it was", "fifo", "fitgpp"):
        assert (of(found, case, "te")["jobs"], of(found, case, "be")["jobs"]) == (12, 0)
        assert 1600 < of(found, case, "te")["wait_p95_s"] <= 1800
    assert of(found, "fitgpp", "be")["preempted"] == 0
    assert "3 job(s) are exempt: they hold their nodes, are victims of none, and count to no class" in found["notes"]


def test_jobs_of_a_trace_that_still_run_are_said(folder: Path) -> None:
    (folder / "trace.txt").write_text(
        "JobID|User|Submit|Start|End|ElapsedRaw|TimelimitRaw|NNodes|NCPUS|ReqMem|State\n"
        "1|bea|1000|1000|Unknown|3600|120|1|8|100M|RUNNING\n"
        "2|tea|1600|4600|4660|60|5|1|8|100M|COMPLETED\n"
    )
    notes = said(folder, "whatif", "--trace", str(folder / "trace.txt"), "--policy", "fifo")["notes"]
    assert "1 job(s) still run: they run again for as long as they have run so far" in notes


#: when the cluster is seen last
END = TRIALS[-1][2] + 60


def test_jobs_of_the_store_that_are_not_run_again_are_counted_by_reason(folder: Path) -> None:
    waiting = replace(TRIAL, job_id=JobId(200), submit_time=END - 2 * DAY_S, user="eve")
    longer = replace(waiting, job_id=JobId(201), submit_time=END - 3 * DAY_S)
    held = replace(waiting, job_id=JobId(202), submit_time=END - 9 * DAY_S, reason="JobHeldUser", priority=0)
    # Slurm has the end as the start of one that never started.
    over = replace(waiting, end_time=END - 10, start_time=END - 10, submit_time=END - DAY_S)
    cancelled = replace(over, job_id=JobId(203), state=JobState.CANCELLED)
    short = replace(cancelled, job_id=JobId(204), state=JobState.COMPLETED)
    missed = replace(short, job_id=JobId(205), restarts=1, start_time=END - 50)
    back = replace(waiting, job_id=JobId(206), restarts=1)
    begun = replace(LONG[0], job_id=JobId(207), start_time=END, allocation=(NodeShare(node="n4", tres=FULL),))
    others = (waiting, longer, held, cancelled, short, missed, back, begun)
    recorded(folder, at_last=[*LONG[1:], *others])
    found = said(folder, "whatif", "--policy", "fifo")
    assert (found["jobs"], found["left_out"]) == (14, 0)
    assert [(one["state"], one["job_class"], one["jobs"], one["waited_long"]) for one in found["not_run"]] == [
        ("waiting", "te", 3, 2),
        ("cancelled", "te", 1, 1),
    ]
    (of_waiting, of_cancelled) = found["not_run"]
    assert (of_waiting["wait_p50_s"], of_waiting["wait_max_s"]) == (2.5 * DAY_S, 3 * DAY_S)
    assert of_waiting["not_for_resources"] == 1
    assert of_cancelled["wait_max_s"] == DAY_S - 10
    reasons = {one["such_as"]: (one["jobs"], one["why"]) for one in found["left_out_besides"]}
    assert reasons == {
        "204": (1, "they ran for less than a second"),
        "205": (1, "tesched did not see all of them, so how long they ran is not known"),
        "206": (1, "they were requeued, and wait again"),
        "207": (1, "they have just begun"),
        "1": (1, "tesched did not see their end"),
    }
    config = ("--config", str(folder / "tesched.toml"))
    shown = CliRunner(env={"COLUMNS": "200"}).invoke(main, ["whatif", *config, "--policy", "fifo"]).output
    assert "1 job(s) are left out: they were requeued, and wait again, such as 206." in shown
    assert (
        "3 TE job(s) wait and have not run (1 held, at a limit, or for another job or a time): "
        "for 2-12:00:00 (50 %), 3-00:00:00 at most." in shown
    )
