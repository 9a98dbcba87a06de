"""Reason word of a job that is not submitted, beside what Slurm 22.05.8 said of the same jobs once submitted."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from tesched_core.model.cluster import Job, JobState, Node, Partition, Reservation
from tesched_core.model.resources import JobId
from tesched_core.model.slurm_limits import QosRules, SlurmLimits
from tesched_core.model.snapshot import Snapshot
from tesched_daemon.submission.read import time_limit_s
from tesched_daemon.submission.reason_word import ReasonWord, reason_word
from tesched_daemon.submission.request import request_of
from tesched_daemon.submission.slurms_answer import waits_for_nodes
from tesched_slurm.sbatch_options import read_options

NOW = time.mktime((2026, 11, 27, 10, 30, 0, 0, 0, -1))
UP = Partition(name="main")
EARLIER = Job(
    job_id=JobId(33), state=JobState.RUNNING, name="x", user="ann", partitions=("main",), start_time=NOW - 120
)


def kept(
    *words: str,
    main: Partition = UP,
    other: Partition | None = None,
    earlier: Job = EARLIER,
    limits: SlurmLimits | None = None,
) -> tuple[ReasonWord, list[str]]:
    """Return the reason word of a job of these options, and the notes."""
    options = {one.name: one for one in read_options(words)[0]}
    partitions = [main, *([other] if other is not None else [])]
    seen = Snapshot.of(taken_at=NOW, partitions=partitions, jobs=[earlier], limits=limits or SlurmLimits())
    said = {name: one.value or "" for name, one in options.items()}
    job = Job(
        job_id=JobId(34),
        state=JobState.PENDING,
        name="y",
        user="ann",
        partitions=tuple(one.name for one in partitions),
        qos=said.get("qos", ""),
        dependency=said.get("dependency", ""),
        time_limit_s=time_limit_s(said.get("time")),
        request=request_of(options, main, seen.settings)[0],
    )
    notes: list[str] = []
    return reason_word(options, job, seen, notes), notes


def word(*words: str, main: Partition = UP, other: Partition | None = None, earlier: Job = EARLIER) -> str:
    return kept(*words, main=main, other=other, earlier=earlier)[0].word


SHORT = replace(UP, max_time_s=120)


@pytest.mark.parametrize(
    ("main", "words", "expected"),
    [
        (SHORT, ("--time=5",), "PartitionTimeLimit"),
        (SHORT, ("--time=0",), "PartitionTimeLimit"),
        (SHORT, ("--time=5", "--time-min=1"), "Resources"),
        (SHORT, ("--time=2",), "Resources"),
        # Without a word of its own it has the partition's limit.
        (SHORT, (), "Resources"),
        (replace(UP, max_nodes=1), ("-N2",), "PartitionNodeLimit"),
        (replace(UP, max_nodes=1), ("-N1-2",), "Resources"),
        (replace(UP, min_nodes=2), ("-N1",), "PartitionNodeLimit"),
        (replace(UP, min_nodes=2), ("-n1",), "Resources"),
        (replace(UP, state="DOWN"), (), "PartitionDown"),
        (replace(UP, state="INACTIVE"), (), "PartitionInactive"),
    ],
)
def test_a_partition_that_would_not_start_the_job_is_its_reason(
    main: Partition, words: tuple[str, ...], expected: str
) -> None:
    assert word(*words, main=main) == expected


def test_one_partition_that_would_start_the_job_is_enough() -> None:
    assert word("--time=5", main=SHORT, other=Partition(name="long")) == "Resources"
    assert word("--time=5", main=SHORT, other=Partition(name="long", state="DOWN")) == "PartitionTimeLimit"


def test_a_qos_lifts_the_time_limit_of_a_partition() -> None:
    limits = SlurmLimits(rules={"long": QosRules(flags=frozenset({"partitiontimelimit"}))})
    assert kept("--time=5", "--qos=long", main=SHORT, limits=limits)[0].word == "Resources"
    assert kept("--time=5", "--qos=other", main=SHORT, limits=limits)[0].word == "PartitionTimeLimit"


def test_a_request_that_is_not_read_breaks_no_limit_of_nodes() -> None:
    options = {one.name: one for one in read_options(("-N1,3",))[0]}
    job = Job(job_id=JobId(34), state=JobState.PENDING, partitions=("main",))
    seen = Snapshot.of(taken_at=NOW, partitions=[replace(UP, min_nodes=2)])
    assert reason_word(options, job, seen, [], request_known=False).word == "Resources"


@pytest.mark.parametrize("text", ["teatime", "tomorrow", "0630"])
def test_a_begin_time_that_is_not_read_is_named(text: str) -> None:
    found, notes = kept(f"--begin={text}")
    note = f"--begin={text}: the time is not understood here; Slurm's own word counts it"
    assert (found.word, found.unread, notes) == ("Resources", (f"--begin={text}",), [note])


def test_a_begin_time_that_is_read_is_the_time_from_which_the_job_is_eligible() -> None:
    assert kept("--begin=now+1hour")[0] == ReasonWord(word="BeginTime", eligible_time=NOW + 3600)


PENDING, DONE, FAILED = (
    replace(EARLIER, state=state) for state in (JobState.PENDING, JobState.COMPLETED, JobState.FAILED)
)


@pytest.mark.parametrize(
    ("text", "earlier", "expected"),
    [
        ("after:33", EARLIER, "Resources"),
        ("after:33", PENDING, "Dependency"),
        ("after:33+1", EARLIER, "Resources"),
        ("after:33+5", EARLIER, "Dependency"),
        ("AFTEROK:33", EARLIER, "Dependency"),
        ("afterok:33", DONE, "Resources"),
        ("afterok:33", FAILED, "Dependency"),
        ("afternotok:33", FAILED, "Resources"),
        ("afternotok:33", DONE, "Dependency"),
        ("afterany:33", FAILED, "Resources"),
        ("afternotok:7", EARLIER, "Resources"),
        ("33", EARLIER, "Dependency"),
        ("33", FAILED, "Resources"),
        ("after:33?afterok:33", EARLIER, "Resources"),
        ("after:33,afterok:33", EARLIER, "Dependency"),
        ("afterany:7:33", EARLIER, "Dependency"),
        ("singleton", replace(EARLIER, name="y"), "Dependency"),
        ("singleton", EARLIER, "Resources"),
    ],
)
def test_a_dependency_keeps_the_job_until_it_is_fulfilled(text: str, earlier: Job, expected: str) -> None:
    found, _ = kept(f"--dependency={text}", earlier=earlier)
    assert (found.word, found.unread) == (expected, ())


@pytest.mark.parametrize(
    "text",
    ["aftercorr:33", "afterburstbuffer:33", "after:33_1", "after:33?singleton,after:33", "x"],
)
def test_a_dependency_that_is_not_read_is_named_and_nothing_is_guessed(text: str) -> None:
    found, _ = kept(f"--dependency={text}")
    assert (found.word, found.unread) == ("Resources", (f"--dependency={text}",))


def test_a_job_that_slurm_knows_no_more_is_named_in_a_note() -> None:
    found, notes = kept("--dependency=afterok:7")
    assert (found.word, found.unread) == ("Resources", ())
    assert notes == ["--dependency=afterok:7: Slurm knows no job 7 (any more); that counts as fulfilled"]


def test_a_job_without_nodes_waits_where_some_are_drained_or_its_partition_forbids_it() -> None:
    main = frozenset({"main"})
    job = Job(job_id=JobId(34), state=JobState.PENDING, partitions=("main",), reason="Resources")
    idle = Node(name="n1", state="IDLE", partitions=main)
    drained = replace(idle, flags=frozenset({"DRAIN"}))

    def waits(node: Node, job: Job = job, *reservations: Reservation) -> bool:
        return waits_for_nodes(job, Snapshot.of(taken_at=NOW, nodes=[node], reservations=reservations))

    assert waits(drained)
    assert not waits(idle), "sbatch refuses it for good"
    assert not waits(replace(drained, partitions=frozenset({"debug"})))
    assert waits(idle, replace(job, reason="PartitionNodeLimit"))
