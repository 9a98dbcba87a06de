"""The submission hook in Lua: how long it takes for a user's text, and what it makes of it."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import pytest
from tesched_core.intake.class_rules import Classification, Match, Rule
from tesched_core.model.cluster import Request
from tesched_core.model.request import requested_gpus
from tesched_core.model.snapshot import JobClass
from tesched_slurm.slurm_formats import asked_gres, gres_in_order

from tests.lua_hook import NO_VAL, OPEN, Hook, table

#: Lua's steps for one submission: a hundredth of a second of slurmctld's, or so
FEW_STEPS = 1_000_000


def rule(job_class: JobClass, match: Match) -> Rule:
    return Rule(name=f"{job_class}-{match}", job_class=job_class, match=match)


DEBUG = Classification(rules=(rule(JobClass.TE, Match(partitions=("debug",))),))


@pytest.mark.parametrize(
    "tasks",
    [
        "9007199254740992",
        "0-9007199254740992",
        "9007199254740992-9007199254740993",
        "1-4194305",
        "4194305",
        "1-9:9007199254740993",
        "1-4," * 1200,
        "1-100000:0",
        "1," * 3000,
        "1," * 2_000_000,
        "+1-5",
        "0x1-0x5",
    ],
    ids=lambda one: one[:20],
)
def test_an_array_that_cannot_be_counted_in_a_moment_is_one_too_many(tmp_path: Path, tasks: str) -> None:
    answer = Hook(tmp_path, DEBUG, most=4, until=OPEN).submits(partition="debug", array_inx=tasks)
    assert answer.refused
    assert answer.steps < FEW_STEPS


def test_an_array_that_repeats_its_tasks_takes_no_longer_for_a_large_limit(tmp_path: Path) -> None:
    answer = Hook(tmp_path, DEBUG, most=50_000, until=OPEN).submits(partition="debug", array_inx="1-40000," * 400)
    assert answer.refused
    assert answer.steps < FEW_STEPS


@pytest.mark.parametrize(
    ("tasks", "too_many"),
    [("1-4", False), ("1-5", True), ("[0-9:3]%2", False), ("1,1,2-3,2%1,4", False), ("4194300-4194304:2", False)],
)
def test_the_tasks_of_an_array_count_once_each(tmp_path: Path, tasks: str, too_many: bool) -> None:
    answer = Hook(tmp_path, DEBUG, most=4, until=OPEN).submits(partition="debug", array_inx=tasks)
    assert answer.refused is too_many
    assert not answer.held


def test_each_field_of_a_job_is_read_once_however_many_rules_there_are(tmp_path: Path) -> None:
    rules = tuple(rule(JobClass.TE, Match(users=(f"u{at}",), interactive=True, max_gpus=at)) for at in range(100))
    answer = Hook(tmp_path, Classification(rules=rules)).submits(tres_per_node="gres:gpu:1")
    assert not answer.held
    assert answer.reads < 30


@pytest.mark.parametrize("option", ["tres_per_node", "tres_per_job", "tres_per_socket", "tres_per_task"])
def test_a_list_of_gpus_that_is_too_long_is_not_known(tmp_path: Path, option: str) -> None:
    few = Classification(rules=tuple(rule(JobClass.TE, Match(names=("x", f"{at}"), max_gpus=2)) for at in range(20)))
    long = Hook(tmp_path, few).submits(name="x", **{option: "gpu," * 1_000_000})
    assert long.held
    assert long.steps < FEW_STEPS
    assert not Hook(tmp_path, few).submits(name="x", **{option: "gres:gpu:3"}).held


@pytest.mark.parametrize(
    "text", ["gres:gpu:8,gres:gpu:1", "gpu:8,gpu", "gpu:8,gpu:2(CNT:1)", "gpu_mem:80", "gpu:8,gpu:0"]
)
def test_the_last_count_of_a_name_is_what_a_job_has(tmp_path: Path, text: str) -> None:
    few = Classification(rules=(rule(JobClass.TE, Match(max_gpus=2)),))
    assert Hook(tmp_path, few).submits(tres_per_node=text).held


def test_a_job_has_no_fewer_gpus_to_tesched_than_to_its_hook(tmp_path: Path) -> None:
    chance = random.Random(1)  # noqa: S311 - texts of a test
    names = (
        "gpu",
        "gpu:a",
        "gpu:b",
        "gres:gpu",
        "gres/gpu",
        "tmp",
        "gpux",
        "GPU",
        " gpu",
        "gpu:no_consume",
        "gpu:(null)",
    )
    counts = ("", ":0", ":1", ":2", ":8", "=3", ":1k", ":2000", ":2GiB", "(CNT:2)", ":4(S:0-1)", ":", ":x")
    texts = [
        ",".join(chance.choice(names) + chance.choice(counts) for _ in range(chance.randint(1, 4))) for _ in range(600)
    ]
    options = {f"tres_per_{each}": f"gres_per_{each}" for each in ("node", "job", "task", "socket")}
    jobs = [{chance.choice(tuple(options)): text} for text in texts]
    said = Hook(tmp_path, DEBUG).value(
        "(function(jobs) local all = {} for at, job in ipairs(jobs) do all[at] = tesched_gpus(job) end "
        f"return table.concat(all, ' ') end)({{{', '.join(map(table, jobs))}}})"
    )
    wrong = []
    for job, least in zip(jobs, map(int, said.split()), strict=True):
        ((option, text),) = job.items()
        read = gres_in_order if option == "tres_per_node" else asked_gres
        wanted: dict[str, Any] = {options[option]: read(text)}
        has = requested_gpus(Request(cpus=1, mem_per_node_mib=1, **wanted))
        # What is written plainly is the same to both.
        plain = not {"(", " ", "k", "G", "n"} & set(text) and not text.endswith(":")
        if least > has or (plain and has and least != has and "0" not in text):
            wrong.append((job, least, has))
    assert not wrong


LAB = Classification(rules=(rule(JobClass.TE, Match(accounts=("lab",))),))
NOT_LAB = Classification(default_class=JobClass.TE, rules=(rule(JobClass.BE, Match(accounts=("lab",))),))


@pytest.mark.parametrize(
    ("classes", "named", "held"),
    [
        (LAB, "bogus", True),
        (LAB, "", True),
        (LAB, "LAB", True),
        (LAB, None, True),
        (NOT_LAB, "bogus", True),
        (NOT_LAB, "Lab", False),
        (NOT_LAB, None, False),
    ],
)
def test_an_account_that_slurm_may_pass_over_hides_no_te_job(
    tmp_path: Path, classes: Classification, named: str | None, held: bool
) -> None:
    account = {} if named is None else {"account": named}
    assert Hook(tmp_path, classes).submits(default_account="lab", **account).held is held
    assert Hook(tmp_path, LAB).submits(account="other").held is False, "without accounting it stays so"


def test_an_account_that_slurm_may_pass_over_is_not_certain_enough_to_refuse_a_job(tmp_path: Path) -> None:
    hook = Hook(tmp_path, LAB, most=1, until=OPEN)
    assert not hook.submits(default_account="x", account="lab", array_inx="1-9").refused
    assert hook.submits(default_account="lab", account="lab", array_inx="1-9").refused


@pytest.mark.parametrize(
    ("limit", "least", "held", "refused"),
    [(600, 1, True, False), (600, 2, False, False), (1, 1, True, True), (1, 0, True, True), (600, 0, False, False)],
)
def test_a_time_limit_that_slurm_may_lower_is_not_known(
    tmp_path: Path, limit: int, least: int, held: bool, refused: bool
) -> None:
    short = Classification(rules=(rule(JobClass.TE, Match(max_time_limit_s=60)),))
    wanted = {"time_limit": limit, "time_min": least or NO_VAL}
    assert Hook(tmp_path, short).submits(**wanted).held is held
    assert Hook(tmp_path, short, most=1, until=OPEN).submits(**wanted, array_inx="1-9").refused is refused


def test_one_that_may_run_for_longer_than_the_window_is_open_is_held(tmp_path: Path) -> None:
    short = Classification(rules=(rule(JobClass.TE, Match(max_time_limit_s=60)),))
    later = time.time() + 1000
    assert Hook(tmp_path, short, until=later).submits(time_limit=600, time_min=1).held
    assert not Hook(tmp_path, short, until=later).submits(time_limit=1).held


@pytest.mark.parametrize("least", [601, 602])
def test_a_time_limit_that_slurm_may_lower_below_another_rules_is_not_known(tmp_path: Path, least: int) -> None:
    long = Classification(default_class=JobClass.TE, rules=(rule(JobClass.BE, Match(min_time_limit_s=602 * 60)),))
    assert Hook(tmp_path, long).submits(time_limit=700, time_min=least).held is (least < 602)


def test_the_partition_of_a_reservation_is_not_known(tmp_path: Path) -> None:
    assert Hook(tmp_path, DEBUG).submits(reservation="r").held
    assert not Hook(tmp_path, DEBUG).submits(reservation="r", partition="main").held
    assert not Hook(tmp_path, DEBUG).submits().held, "it has the default partition"
    assert not Hook(tmp_path, DEBUG, most=1, until=OPEN).submits(reservation="r", array_inx="1-9").refused


TRIAL = {"partition": "debug"}


@pytest.mark.parametrize(
    "change",
    [
        {"array_inx": "9"},
        {"licenses": ""},
        {"cpus_per_task": 1},
        {"ntasks_per_node": 1},
        {"num_tasks": 65534},
        {"num_tasks": 1},
        {"max_nodes": 1},
        {"shared": 1},
        {"time_min": 1},
        {"prefer": ""},
        {"req_switch": 0},
        {"reboot": 0},
        {"begin_time": 1},
        {"dependency": ""},
        {"min_nodes": 65534},
        {"comment": "x"},
        {"name": "x"},
        {"mail_user": "x", "licenses": ""},
        # such as --deadline, which Slurm does not show to a hook
        {},
    ],
    ids=str,
)
def test_any_change_of_a_te_job_that_must_wait_is_put_off(tmp_path: Path, change: dict[str, Any]) -> None:
    answer = Hook(tmp_path, DEBUG).changes(TRIAL, **change)
    assert (answer.later, answer.pokes) == (True, 1)
    assert not Hook(tmp_path, DEBUG).changes({"partition": "main"}, **change).later
    assert not Hook(tmp_path, DEBUG, until=OPEN).changes(TRIAL, **change).later


@pytest.mark.parametrize(
    "change",
    [
        {"mail_user": "x"},
        {"mail_type": 1},
        {"std_out": "x"},
        {"std_err": "x", "std_in": "y"},
        {"priority": 0},
        {"priority": 0, "licenses": ""},
    ],
    ids=str,
)
def test_a_change_that_starts_no_job_is_not_put_off(tmp_path: Path, change: dict[str, Any]) -> None:
    answer = Hook(tmp_path, DEBUG).changes(TRIAL, **change)
    assert (answer.later, answer.pokes) == (False, 0)


@pytest.mark.parametrize(("change", "later"), [({"licenses": ""}, False), ({"priority": NO_VAL + 1}, True)])
def test_of_a_held_job_its_release_alone_is_put_off(tmp_path: Path, change: dict[str, Any], later: bool) -> None:
    assert Hook(tmp_path, DEBUG).changes({**TRIAL, "priority": 0}, **change).later is later


@pytest.mark.parametrize("uid", [0, 64030])
def test_changes_of_roots_and_of_the_daemons_are_left_alone(tmp_path: Path, uid: int) -> None:
    hook = Hook(tmp_path, DEBUG, uids=(64030,))
    assert not hook.changes(TRIAL, uid=uid, licenses="").later
    assert hook.changes(TRIAL, uid=1000, licenses="").later
