"""At rest the last whole poll stands while no job's record has changed, and it is made anew in time."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import pytest
from tesched_core.model.actions import Failure, FailureKind
from tesched_core.model.cluster import Job, JobState, SlurmSettings
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_slurm.answer_bytes import Answer, as_printed
from tesched_slurm.details import DetailsQuery
from tesched_slurm.resting_observer import BURST, EVERY_S, YOUNG_S, RestingObserver
from tesched_slurm.run_command import Commands

AWAY = Failure(kind=FailureKind.UNREACHABLE, message="slurmctld does not answer")
RUNS = (
    "JobId=1 JobName=a Priority=9 JobState=RUNNING Reason=None Requeue=1 Restarts=0 RunTime=00:00:05"
    " TimeLimit=01:00:00 SubmitTime=900 StartTime=1000 EndTime=4600 LastSchedEval=1000 Scheduler=Main NodeList=n1 "
)
WAITS = (
    "JobId=2 JobName=b Priority=8 JobState=PENDING Reason=Resources Requeue=1 Restarts=0 RunTime=00:00:00"
    " TimeLimit=01:00:00 SubmitTime=900 StartTime=Unknown EndTime=Unknown LastSchedEval=1000 Scheduler=Main NodeList= "
)
#: Slurm's own times in a record: what follows may be a user's text.
_TIME = re.compile(r"(?:SubmitTime=900|StartTime=1000)")


@dataclass
class Slurm:
    """Records of scontrol, polls that are counted, and a clock."""

    records: list[str] = field(default_factory=lambda: [RUNS, WAITS])
    says: str | Failure = ""
    doubt: str = ""
    unseen: bool = False
    settings: SlurmSettings = SlurmSettings()
    whole: int = 0
    now: float = 0.0

    def run_bytes(self, argv: Sequence[str], variables: Mapping[str, str]) -> bytes | Failure:
        assert argv[-2:] == ("show", "job")
        assert "-d" not in argv
        mark = variables["SLURM_TIME_FORMAT"].removeprefix("%s")
        marked = [_TIME.sub(rf"\g<0>{mark}", record, count=2) for record in self.records]
        if isinstance(self.says, Failure):
            return self.says
        return (self.says or "\n".join([*marked, ""])).encode()

    def observe(self) -> Snapshot | Failure:
        self.whole += 1
        job = Job(job_id=JobId(self.whole), state=JobState.RUNNING, doubt=self.doubt)
        return AWAY if self.unseen else Snapshot.of(0.0, jobs=[job], settings=self.settings)


@dataclass
class SlurmByJobs(Slurm):
    """One of which the jobs can be read alone."""

    jobs: int = 0

    def observe_jobs(self, last: Snapshot, query: DetailsQuery, answer: Answer) -> Snapshot | Failure:
        assert list(query.lines(answer)) == [*map(as_printed, self.records), b""]
        self.jobs += 1
        return AWAY if self.unseen else replace(last, jobs=dict(last.jobs))


@dataclass
class Watch:
    """An observer of it that has made one whole poll."""

    slurm: Slurm = field(default_factory=Slurm)

    def __post_init__(self) -> None:
        self.observer = RestingObserver(
            observer=self.slurm, commands=cast("Commands", self.slurm), stopwatch=lambda: self.slurm.now
        )
        assert self.polls_whole()

    def polls_whole(self, *, whole: bool = False, ends: bool = False) -> bool:
        """Poll; return whether everything was read."""
        before = self.slurm.whole
        self.observer.observe(whole=whole, ends=ends)
        return self.slurm.whole > before


@pytest.fixture
def watch() -> Watch:
    return Watch()


def test_where_nothing_changes_the_last_poll_stands_and_is_of_now(watch: Watch) -> None:
    first = watch.observer.observe(whole=False)
    again = watch.observer.observe(whole=False)
    assert isinstance(first, Snapshot)
    assert isinstance(again, Snapshot)
    assert again.jobs is first.jobs
    assert again.taken_at > 1e9, "the whole poll said 0"


def test_what_passes_by_itself_is_no_change(watch: Watch) -> None:
    watch.slurm.records = [
        RUNS.replace("RunTime=00:00:05", "RunTime=00:00:07").replace("LastSchedEval=1000", "LastSchedEval=1030"),
        WAITS.replace("StartTime=Unknown EndTime=Unknown", "StartTime=4600 EndTime=8200 SchedNodeList=n1")
        .replace("Reason=Resources", "Reason=Priority")
        .replace("Scheduler=Main", "Scheduler=Backfill"),
    ]
    # The list of nodes that backfill has in mind comes as a word more.
    assert not watch.polls_whole()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Reason=Resources", "Reason=Dependency"),
        ("Priority=8", "Priority=7"),
        ("TimeLimit=01:00:00", "TimeLimit=00:10:00"),
        ("Restarts=0", "Restarts=1"),
        ("JobName=b", "JobName=te"),
    ],
)
def test_each_change_of_a_waiting_job_is_read_at_once(watch: Watch, before: str, after: str) -> None:
    record = WAITS
    for _ in range(3 * BURST):
        record = record.replace(before, after) if record == WAITS else WAITS
        watch.slurm.records = [RUNS, record]
        assert watch.polls_whole()
        assert not watch.polls_whole()


def test_a_new_waiting_job_is_read_at_once_however_many_came_before(watch: Watch) -> None:
    for number in range(3 * BURST):
        watch.slurm.records = [*watch.slurm.records, WAITS.replace("JobId=2", f"JobId={10 + number}")]
        assert watch.polls_whole()


def test_where_ends_count_each_is_read_at_once_and_no_poll_besides(watch: Watch) -> None:
    for number in range(3 * BURST):
        watch.slurm.records = [RUNS.replace("Restarts=0", f"Restarts={number + 1}"), WAITS]
        assert watch.polls_whole(ends=True)
        assert not watch.polls_whole(ends=True)


def test_jobs_that_come_and_end_are_read_at_once_a_few_times_and_then_now_and_then(watch: Watch) -> None:
    def another_has_ended() -> bool:
        watch.slurm.records = [RUNS.replace("Restarts=0", f"Restarts={watch.slurm.whole}"), WAITS]
        return watch.polls_whole()

    assert [another_has_ended() for _ in range(BURST + 2)] == [True] * BURST + [False] * 2
    watch.slurm.now += EVERY_S / 2
    assert not another_has_ended()
    watch.slurm.now += EVERY_S / 2
    assert another_has_ended()
    assert not watch.polls_whole(), "that poll is of these records"


def test_a_job_that_ends_is_seen_before_slurm_forgets_it() -> None:
    watch = Watch(Slurm(settings=SlurmSettings(min_job_age_s=10)))
    watch.slurm.records = [RUNS]
    for restarts in range(2 * BURST):
        watch.slurm.records = [RUNS.replace("Restarts=0", f"Restarts={restarts + 1}")]
        watch.polls_whole()
    assert not watch.polls_whole()
    watch.slurm.now += 5.0
    assert watch.polls_whole()


def test_a_job_that_is_forgotten_is_a_change(watch: Watch) -> None:
    watch.slurm.records = [WAITS]
    assert watch.polls_whole()


def test_what_no_record_shows_is_read_after_a_while_and_later_and_later(watch: Watch) -> None:
    read_at = []
    for second in range(1, 1200):
        watch.slurm.now = float(second)
        if watch.polls_whole():
            read_at.append(second)
    assert read_at == [60, 120, 240, 480, 780, 1080]


def test_after_a_change_it_is_read_soon_again(watch: Watch) -> None:
    watch.slurm.now = 1000.0
    assert watch.polls_whole()
    watch.slurm.records = [RUNS]
    assert watch.polls_whole()
    watch.slurm.now += YOUNG_S - 1
    assert not watch.polls_whole()
    watch.slurm.now += 1
    assert watch.polls_whole()


def test_of_a_client_that_can_the_jobs_alone_are_read_and_the_rest_in_its_own_time() -> None:
    slurm = SlurmByJobs()
    watch = Watch(slurm)
    for second in range(1, 2 * round(YOUNG_S)):
        slurm.now = float(second)
        slurm.records = [RUNS, WAITS.replace("JobId=2", f"JobId={second}")]
        assert watch.polls_whole() is (second == YOUNG_S)
    assert slurm.jobs == 2 * YOUNG_S - 2, "each second but the one of the whole poll"
    assert not watch.polls_whole()
    assert slurm.jobs == 2 * YOUNG_S - 2


def test_where_the_jobs_could_not_be_read_the_next_poll_is_whole() -> None:
    slurm = SlurmByJobs()
    watch = Watch(slurm)
    slurm.records, slurm.unseen = [RUNS], True
    assert watch.observer.observe(whole=False) is AWAY
    slurm.unseen = False
    assert watch.polls_whole()


def test_a_text_that_is_the_record_of_a_job_to_come_does_not_hide_that_job(watch: Watch) -> None:
    """Another user has foreseen it, word by word, and has it in a comment."""
    te = WAITS.replace("JobId=2", "JobId=7")
    watch.slurm.records[1] = f"{WAITS}Comment=x\n{te}"
    assert watch.polls_whole()
    assert not watch.polls_whole()
    watch.observer._left = 0.0
    watch.slurm.records.append(te)
    assert watch.polls_whole()


def test_a_whole_poll_is_made_where_it_is_wanted_and_the_next_one_stands_on_a_new_one(watch: Watch) -> None:
    assert watch.polls_whole(whole=True)
    assert watch.polls_whole(), "nothing is known of the records from before that one"
    assert not watch.polls_whole()


def test_a_job_that_could_not_be_read_is_read_again(watch: Watch) -> None:
    watch.slurm.doubt = "it has two records"
    watch.slurm.records = [RUNS]
    assert [watch.polls_whole() for _ in range(BURST + 2)] == [True] * BURST + [False] * 2


def test_where_slurm_does_not_answer_nothing_stands(watch: Watch) -> None:
    watch.slurm.says = AWAY
    assert watch.observer.observe(whole=False) is AWAY
    watch.slurm.says = ""
    assert watch.polls_whole()
    watch.slurm.unseen = True
    watch.slurm.records = [RUNS]
    assert watch.observer.observe(whole=False) is AWAY
    assert watch.observer.observe(whole=False) is AWAY
    watch.slurm.unseen = False
    assert watch.polls_whole()


def test_another_slurmctld_is_news_once(watch: Watch) -> None:
    found = Snapshot.of(0.0, jobs=[Job(job_id=JobId(7), state=JobState.RUNNING)])
    watch.slurm.observe = lambda: replace(found, controller_changed=True)  # type: ignore[method-assign]
    watch.observer._known = None
    seen = [watch.observer.observe(whole=False) for _ in range(2)]
    assert [isinstance(one, Snapshot) and one.controller_changed for one in seen] == [True, False]


def test_a_poll_that_stands_says_since_when_ends_may_be_missing(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter(range(1000, 2000))
    monkeypatch.setattr("tesched_slurm.resting_observer.time.time", lambda: next(times))

    def ends_unseen_for_s() -> float:
        seen = watch.observer.observe(whole=False)
        assert isinstance(seen, Snapshot)
        return seen.taken_at - (seen.taken_at if seen.jobs_at is None else seen.jobs_at)

    assert ends_unseen_for_s() == 0
    assert ends_unseen_for_s() == 0, "nothing has changed"
    found = []
    for number in range(BURST + 3):
        watch.slurm.records[0] = RUNS.replace("Priority=9", f"Priority={number + 10}")
        found.append(ends_unseen_for_s())
    assert found == [0] * BURST + [1, 2, 3]
