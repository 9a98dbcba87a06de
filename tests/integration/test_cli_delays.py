"""`tesched explain` and `tesched status` say by how much TE jobs have delayed others."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tesched_cli.main import main
from tesched_core.model.bystander import Bystander, TeRunInTheWay
from tesched_core.model.cluster import Job, JobState, Node, NodeShare
from tesched_core.model.decision import BoundNow, LeftOfBound, Refusal, RefusalCode
from tesched_core.model.enforcement import Enforced, Enforcement
from tesched_core.model.job_memory import JobMemory, Past
from tesched_core.model.limits import Bound, Limits
from tesched_core.model.memory import Memory
from tesched_core.model.order import Departure, Ending, OrderState, Victim, VictimState
from tesched_core.model.resources import JobId, Tres
from tesched_core.placement.capacity_of import capacity_of
from tesched_core.placement.deadlines import Deadlines
from tesched_db.engine import open_store
from tesched_db.te_refused import TeRefused, te_refused
from tesched_testcluster.harness.store_examples import (
    Writer,
    configured_store,
    decision,
    job,
    order,
    refusal,
    remembering,
    report,
    snapshot,
    victim,
)

NOW = time.time()


def paid(job_id: int, for_user: str) -> Victim:
    """Return one that ran for 100 s, had its notice an hour ago and ran again two minutes later."""
    at = NOW - 3600
    return victim(
        job_id,
        VictimState.BACK,
        started_at=at - 100,
        noticed_at=at,
        left_at=at + 10,
        departure=Departure.REQUEUED,
        back_at=at + 120,
        user="ada",
        for_user=for_user,
    )


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Give a store in which job 3 has left for jobs of bob, eve and its own user, and 4 for none."""
    path, url = configured_store(tmp_path)
    engine = open_store(url)
    done: dict[str, Any] = {"state": OrderState.ENDED, "ending": Ending.STARTED_HERE, "ended_at": NOW}
    orders = [order(number, 6 + number, paid(3, user), **done) for number, user in enumerate(("bob", "eve", "ada"), 1)]
    jobs = [job(number, JobState.RUNNING) for number in (3, 4)]
    jobs += [job(number, user=user) for number, user in ((7, "bob"), (8, "eve"), (9, "ada"))]
    Writer(engine).look(NOW, *jobs, te=[7, 8, 9], memory=remembering(*orders))
    engine.dispose()
    return path


def tesched(config: Path, *argv: str) -> str:
    runner = CliRunner(env={"COLUMNS": "300", "NO_COLOR": "1"})
    return runner.invoke(main, [*argv, "--config", str(config)]).output


def as_json(config: Path, *argv: str) -> Any:
    return json.loads(tesched(config, *argv, "--json"))


def line_of(output: str, word: str) -> str:
    return " ".join(next(line for line in output.splitlines() if word in line).split())


def test_explain_says_by_how_much_and_which_te_jobs_delayed_it(config: Path) -> None:
    assert line_of(tesched(config, "explain", "3"), "delay ") == (
        "delay 07:20 by TE jobs: 03:20 of runs lost, 04:00 from notice to restart; "
        "03:40 by TE jobs of its own user (no limit counts that): 01:40 of runs lost, 02:00 from notice to restart; "
        "job 7 of bob 03:40, job 8 of eve 03:40, job 9 of ada 03:40"
    )
    assert "delay" not in tesched(config, "explain", "4")
    delay = as_json(config, "explain", "3")["delay"]
    assert delay["delay"] == {"lost_s": 200, "away_s": 240, "suspended_s": 0, "bystander_s": 0, "total_s": 440}
    assert delay["by_own_user"]["total_s"] == 220
    assert [(one["job"], one["delay"]["total_s"]) for one in delay["causes"]] == [("7", 220), ("8", 220), ("9", 220)]


def test_status_says_how_many_jobs_and_which_is_delayed_most(config: Path) -> None:
    said = line_of(tesched(config, "status"), "delays by TE jobs")
    assert said.startswith(
        "delays by TE jobs: 1 job(s) preempted, back or waiting in the last 24 h, 07:20 on average; "
        "most: job 3 of ada, 07:20"
    )
    found = as_json(config, "status")["delays"]
    assert [(one["job"], one["delay"]["total_s"]) for one in found["jobs"]] == [("3", 440)]
    user = {"by": "user", "name": "ada", "jobs": 1, "mean_s": 440, "most_s": 440}
    assert user in found["groups"]


def test_bystander_is_shown_with_the_te_jobs_for_which_it_waits(tmp_path: Path) -> None:
    path, url = configured_store(tmp_path)
    engine = open_store(url)
    one = Bystander(
        submitted_at=0.0, user="ada", since=NOW - 60, by=(TeRunInTheWay(JobId(7), "bob", NOW - 60),), delayed_s=60
    )
    memory = Memory(bystanders={JobId(3): one})
    Writer(engine).look(NOW, job(3), job(7, user="bob"), te=[7], memory=memory)
    engine.dispose()
    said = "02:00 by TE jobs: 02:00 waiting for what they held; it waits for job 7 now; job 7 of bob 01:00"
    assert line_of(tesched(path, "explain", "3"), "delay ") == f"delay {said}"
    found = as_json(path, "explain", "3")["delay"]
    assert (found["delay"]["bystander_s"], found["delay"]["total_s"]) == (120, 120)
    assert (found["waits_since"], found["waits_for"]) == (NOW - 60, ["7"])
    assert line_of(tesched(path, "status"), "delays by TE jobs").startswith(
        "delays by TE jobs: 1 job(s) preempted, back or waiting in the last 24 h (1 wait for TE jobs now), "
        f"02:00 on average; most: job 3 of ada, {said}"
    )


def test_where_no_job_was_delayed_it_says_so(tmp_path: Path) -> None:
    path, url = configured_store(tmp_path)
    engine = open_store(url)
    Writer(engine).look(NOW, job(3), memory=Memory())
    engine.dispose()
    assert "delays by TE jobs: none in the last 24 h" in tesched(path, "status")
    assert as_json(path, "status")["delays"] == {
        "count": 0,
        "waiting": 0,
        "mean_s": 0,
        "jobs": [],
        "groups": [],
    }


def test_status_says_which_share_of_the_cluster_te_jobs_hold(tmp_path: Path) -> None:
    path, url = configured_store(tmp_path)
    engine = open_store(url)
    runs = {number: job(number, JobState.RUNNING, nodes=["n1", "n2"]) for number in (3, 7)}
    gpus = NodeShare(node="n2", tres=Tres(cpus=2, gres=(("gpu", 1), ("gpu:a100", 1))))
    seen = snapshot(NOW, runs[3], replace(runs[7], allocation=(*runs[7].allocation[:1], gpus)), te=[7])
    total = Tres(cpus=8, gres=(("gpu", 2), ("gpu:a100", 2)))
    nodes = {name: Node(name=name, state="MIXED", total=total) for name in ("n1", "n2")}
    Writer(engine).write(replace(seen, nodes=nodes))
    engine.dispose()
    assert "TE jobs hold 19 % of the CPUs (3 of 16) and 25 % of the GPUs (1 of 4)" in tesched(path, "status")
    assert as_json(path, "status")["daemon"]["held"]["te"] == {"cpu": 3, "gpu": 1}


def test_it_says_how_near_jobs_are_to_their_bounds(tmp_path: Path) -> None:
    path, url = configured_store(tmp_path)
    engine = open_store(url)
    left = LeftOfBound(job="3", user="ada", delayed_s=640, bound_s=900, near=True)
    far = replace(left, job="4", delayed_s=60, bound_s=3600, near=False)
    bound = BoundNow(slowdown=3, te_time_limit_s=600, costs_s=100, te_waiting=2, near=1, jobs=(left, far))
    Writer(engine).look(NOW, job(3), job(4), job(5), bound=bound)
    engine.dispose()
    assert line_of(tesched(path, "status"), "bound: ") == (
        "bound: TE jobs may delay a BE job by 2 times its run time, or as one of 10:00 does; 1 job(s) near that, "
        "2 TE job(s) wait for it; nearest: job 3 of ada, delayed by 10:40 of at most 15:00, 04:20 left"
    )
    assert as_json(path, "status")["daemon"]["bound"]["jobs"][1]["bound_s"] == 3600
    assert line_of(tesched(path, "explain", "3"), "bound ").endswith("at most 15:00, 04:20 left (guard.bound)")
    assert as_json(path, "explain", "3")["bound"]["near"] is True
    # Not delayed, its run time unknown: one TE job, and what its preemption costs, 30 s of grace among it.
    said = "bound may be delayed by at most 12:10; nothing used yet (guard.bound)"
    assert line_of(tesched(path, "explain", "5"), "bound ") == said
    none_used = {"job": "5", "user": "ada", "delayed_s": 0, "bound_s": 730, "near": False}
    assert as_json(path, "explain", "5")["bound"] == none_used


def test_status_says_what_is_wrong_with_the_hooks_file(tmp_path: Path) -> None:
    path, url = configured_store(tmp_path)
    engine = open_store(url)
    writer = Writer(engine)
    said = "the admission file cannot be written: /x: No space left on device"
    decided, seen = decision(1, NOW), snapshot(NOW, job(3))
    writer.journal.intend(seen, replace(writer.memory, cycle=1), decided, replace(report(NOW), admission_trouble=said))
    engine.dispose()
    assert line_of(tesched(path, "status"), "HOOK") == f"HOOK {said}"
    assert "MARKS" not in tesched(path, "status")
    tesched(path, "status", "--html", str(tmp_path / "page.html"))
    assert said in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize(
    ("mode", "enforced", "why", "said"),
    [
        ("enforce", "yes", "", "enforced by the submission hook"),
        ("enforce", "no", "JobSubmitPlugins has no lua", "measured, not enforced (JobSubmitPlugins has no lua)"),
        ("enforce", "partly", "older", "enforced in part (older)"),
        (
            "enforce",
            "unknown",
            "/x: Permission denied",
            "whether it is enforced cannot be seen (/x: Permission denied)",
        ),
        ("shadow", "no", "mode shadow", "measured, not enforced (mode shadow)"),
        ("observe", "no", "mode observe", "neither measured nor enforced (mode observe)"),
    ],
)
def test_status_says_whether_the_bound_is_enforced(
    tmp_path: Path, mode: str, enforced: str, why: str, said: str
) -> None:
    path, url = configured_store(tmp_path)
    engine = open_store(url)
    writer = Writer(engine)
    one = Enforcement(keys=("guard.bound", "guard.te"), enforced=Enforced(enforced), why=why)
    now = replace(report(time.time()), mode=mode, enforcement=one, next_in_s=60)
    writer.journal.intend(snapshot(NOW, job(3)), replace(writer.memory, cycle=1), decision(1, NOW), now)
    line = f"guard.bound and guard.te: {said}"
    assert line_of(tesched(path, "status"), "guard.bound") == line
    shown = {"keys": ["guard.bound", "guard.te"], "enforced": enforced, "why": why}
    assert as_json(path, "status")["daemon"]["enforced"] == shown
    tesched(path, "status", "--html", str(tmp_path / "page.html"))
    assert line in (tmp_path / "page.html").read_text()
    writer.journal.resign()
    engine.dispose()
    not_any_more = {"keys": ["guard.bound", "guard.te"], "enforced": "no", "why": "no daemon runs"}
    assert as_json(path, "status")["daemon"]["enforced"] == not_any_more
    tesched(path, "status", "--html", str(tmp_path / "page.html"))
    assert "(no daemon runs)" in (tmp_path / "page.html").read_text()


def test_a_te_job_that_waits_for_the_bound_is_shown_the_job_in_the_way(tmp_path: Path) -> None:
    path, url = configured_store(tmp_path)
    engine = open_store(url)
    writer = Writer(engine)
    first = refusal(7, 7, RefusalCode.BOUND, "job 3 of ada comes first", behind="3")
    writer.look(NOW, job(3), job(4), job(7, user="bob"), te=[7], refusals=(first,))
    said = "job 3 of ada comes first (until job 3 has started or ended; when is not known) [bound]"
    assert line_of(tesched(path, "explain", "7"), "comes first").endswith(said)
    assert [one["behind"] for one in as_json(path, "explain", "7")["story"]["refusals_as_preemptor"]] == ["3"]
    # Another job stands in its way then.
    then = replace(first, text="job 4 of ada comes first", behind="4")
    writer.look(NOW + 1, job(3), job(4), job(7, user="bob"), te=[7], refusals=(then,))
    assert "(until job 4 has started or ended; when is not known)" in tesched(path, "explain", "7")
    # It waits for none any more.
    writer.look(NOW + 2, job(3), job(4), job(7, user="bob"), te=[7])
    engine.dispose()
    assert "(until job" not in tesched(path, "explain", "7")


def bounded(tmp_path: Path, *jobs: Job, memory: Memory | None = None, **more: Any) -> Path:
    """Return the configuration of a store with these jobs, of which none is among those nearest to their bounds."""
    path, url = configured_store(tmp_path)
    engine = open_store(url)
    bound = BoundNow(slowdown=3, te_time_limit_s=600, costs_s=100, te_waiting=0, near=0, jobs=())
    Writer(engine).look(NOW, *jobs, bound=bound, memory=memory, **more)
    engine.dispose()
    return path


def test_bound_of_a_job_grows_with_what_it_has_run(tmp_path: Path) -> None:
    runs = job(3, JobState.RUNNING, nodes=("n1",), start_time=NOW - 1000)
    past = Past(submitted_at=NOW - 9000, ran_s=4000, longest_run_s=4000)
    path = bounded(tmp_path, runs, job(4), job(5), te=[5], memory=Memory(jobs={JobId(4): JobMemory(past=past)}))
    assert as_json(path, "explain", "3")["bound"]["bound_s"] == pytest.approx(2000)
    assert as_json(path, "explain", "4")["bound"]["bound_s"] == 8000
    # It is a TE job.
    assert as_json(path, "explain", "5")["bound"] is None
    assert "guard.bound" not in tesched(path, "explain", "5")


def test_bound_of_a_delayed_job_that_is_not_among_the_nearest(tmp_path: Path) -> None:
    one = Bystander(submitted_at=0.0, user="ada", delayed_s=60)
    path = bounded(tmp_path, job(3), memory=Memory(bystanders={JobId(3): one}))
    found = as_json(path, "explain", "3")["bound"]
    assert found == {"job": "3", "user": "ada", "delayed_s": 60, "bound_s": 730, "near": None}
    assert "delayed by 01:00 of at most 12:10, 11:10 left" in line_of(tesched(path, "explain", "3"), "bound ")


def test_bound_is_worked_out_as_the_daemon_does_by_which_te_jobs_are_held(tmp_path: Path) -> None:
    jobs = [
        job(3),
        job(4),
        job(5, JobState.RUNNING, nodes=("n1",), start_time=NOW - 5000),
        job(6, JobState.RUNNING, nodes=("n1",), start_time=NOW - 400),
    ]
    past = Past(submitted_at=NOW - 9000, ran_s=300, suspended_s=100, longest_run_s=200, delayed_s=70)
    delayed = Bystander(
        submitted_at=0.0, user="ada", delayed_s=60, since=NOW - 5, by=(TeRunInTheWay(JobId(7), "bob", 0),)
    )
    memory = Memory(jobs={JobId(5): JobMemory(past=past)}, bystanders={JobId(4): delayed})
    seen = snapshot(NOW, *jobs, nodes=[Node(name="n1", state="MIXED", total=Tres(cpus=8))])
    # Its owner says how long it runs.
    seen = seen.with_traits({**seen.traits, JobId(4): replace(seen.traits[JobId(4)], run_time_s=9000.0)})
    limits = Limits(bound=Bound(slowdown=1.5, te_time_limit_s=600))
    deadlines = Deadlines.of(memory, seen, limits, capacity_of(seen), 2.0)
    assert deadlines is not None
    path, url = configured_store(tmp_path)
    engine = open_store(url)
    Writer(engine).write(seen, memory=memory, bound=replace(deadlines.summary(0), jobs=()))
    engine.dispose()
    for one in jobs:
        known, found = deadlines.deadline(one), as_json(path, "explain", str(one.job_id))["bound"]
        assert (found["delayed_s"], found["bound_s"]) == pytest.approx((known.delayed_s, known.bound_s))
    assert len({deadlines.deadline(one).bound_s for one in jobs}) == 3


def test_status_counts_the_te_jobs_that_had_to_wait_for_the_bound(tmp_path: Path) -> None:
    path, url = configured_store(tmp_path)
    engine = open_store(url)
    writer = Writer(engine)
    trials = [job(number, user="bob") for number in (7, 8, 9, 10)]
    bound = BoundNow(slowdown=3, te_time_limit_s=600, costs_s=100, te_waiting=0, near=0, jobs=())
    day_s = 24 * 3600

    def look(at: float, *refusals: Refusal) -> None:
        writer.look(at, *trials, job(3), te=[7, 8, 9, 10], refusals=refusals, bound=bound)

    waits = {number: refusal(number, number, RefusalCode.BOUND) for number in (7, 8, 9)}
    look(NOW - day_s - 200, waits[7], waits[8])
    look(NOW - day_s - 100, waits[8])
    look(NOW - 300, waits[8], waits[9])
    # It waits for other reasons, and 3 is no victim for 10: neither is a TE job that waits for the bound.
    look(NOW - 200, refusal(10, 10, RefusalCode.TE_LIMIT), refusal(3, 10, RefusalCode.BOUND))
    # Once more: it counts once.
    look(NOW - 100, waits[9])
    assert as_json(path, "status")["te_refused"] == {"jobs": 2, "whole": True}
    said = "TE jobs that had to wait for guard.bound in the last 24 h: 2"
    assert line_of(tesched(path, "status"), "had to wait") == said
    tesched(path, "status", "--html", str(tmp_path / "page.html"))
    assert said in (tmp_path / "page.html").read_text()
    with engine.connect() as connection:
        # Of a large store the newest refusals alone are read.
        assert te_refused(connection, NOW - day_s, most=2) == TeRefused(jobs=1, whole=False)
    engine.dispose()
