"""The signal that a batch script declares, read as sbatch reads it; whatever else is in it declares nothing."""

from __future__ import annotations

import random
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest
from tesched_core.intake.class_rules import Classification
from tesched_core.intake.classify import classified
from tesched_core.model.actions import Failure, FailureKind
from tesched_core.model.cluster import Job, JobState, SlurmSettings
from tesched_core.model.not_followed import LONGEST_SAID
from tesched_core.model.notice import Declared, Signal, Target
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_slurm.declared_signal import (
    MOST_BYTES,
    MOST_CHARACTERS,
    MOST_S,
    MOST_SCRIPTS,
    ScriptDeclarations,
    declared_in,
)
from tesched_slurm.run_command import Commands
from tesched_slurm.submit_line import NoLine, SubmitLines

from tests.builders import NOW, running, share

USR1 = Signal(name="USR1", seconds_s=60.0)
BATCH = Signal(name="USR2", target=Target.BATCH, seconds_s=90.0)

SCRIPTS = [
    ("#!/bin/bash\n#SBATCH --signal=USR1@60\nsrun x\n", USR1),
    ("#!/bin/bash\n#SBATCH --signal USR1@60\n", USR1),
    ("#!/bin/bash\n#SBATCH -n 4 --signal=B:USR2@90 # a comment\n", BATCH),
    ("#!/bin/bash\n#SBATCH --signal='B:USR2@90'\n", BATCH),
    ('#!/bin/bash\n#SBATCH --signal="B:USR2@90"\n', BATCH),
    ('#!/bin/bash\n#SBATCH "--signal=B:USR2@90"\n', BATCH),
    ("#!/bin/bash\n#SBATCH --signal=B\\:USR2@90\n", BATCH),
    ("#!/bin/bash\n#SBATCH --sig=USR1@60\n", USR1),
    ("#!/bin/bash\n#SBATCH --signal=USR1\n", Signal(name="USR1")),
    # the last one counts
    ("#!/bin/bash\n#SBATCH --signal=TERM@5\n\n# text\n  # text\n#SBATCH --signal=USR1@60\nx\n", USR1),
    # not before the first command any more
    ("#!/bin/bash\ncd /tmp\n#SBATCH --signal=USR1@60\n", None),
    ("#!/bin/bash\n  true\n#SBATCH --signal=USR1@60\n", None),
    # no option lines
    ("#!/bin/bash\n # SBATCH --signal=USR1@60\n", None),
    ("#!/bin/bash\n ##SBATCH --signal=USR1@60\n##SBATCH --signal=USR1@60\n", None),
    ("#!/bin/bash\n#sbatch --signal=USR1@60\n", None),
    ("#!/bin/bash\n#SBATCH -n 4 # --signal=USR1@60\n", None),
    ("#!/bin/bash\n#SBATCH --job-name='--signal=USR1@60 x'\n", None),
    ("#!/bin/bash\n#SBATCH --signal\n", None),
    ("#!/bin/bash\n#SBATCH --signal=\n", None),
    ("#!/bin/bash\n#SBATCH --signal=KILL@60\n", None),
    ("#!/bin/bash\n#SBATCH --signal=USR1@60x\n", None),
    ("#!/bin/bash\n#SBATCH --signal='USR1@60\n", None),
    ("#!/bin/bash\n#SBATCH --s=USR1@60\n", None),
    ("#!/bin/bash\n#SBATCH --signal=$(touch /tmp/x)\n", None),
    ("", None),
    ("\0", None),
    # the value of another option, also on the next line: sbatch reads all lines as one command line
    ("#!/bin/bash\n#SBATCH --comment --signal=B:USR2@90\n", None),
    ("#!/bin/bash\n#SBATCH -J --signal=USR1@60\n", None),
    ("#!/bin/bash\n#SBATCH -HJ --signal=USR1@60 -n 4\n", None),
    ("#!/bin/bash\n#SBATCH --job-name\n#SBATCH --signal=USR1@60\n", None),
    ("#!/bin/bash\n#SBATCH --comment --signal=TERM@5 --signal=USR1@60\n", USR1),
    ("#!/bin/bash\n#SBATCH --comment x --signal=USR1@60\n", USR1),
    ("#!/bin/bash\n#SBATCH -J x -H --signal=USR1@60\n", USR1),
    # behind a word that is no option sbatch reads none: it refuses such a script
    ("#!/bin/bash\n#SBATCH --time=10 see --signal=USR1@60 in the docs\n", None),
    ("#!/bin/bash\n#SBATCH -- --signal=USR1@60\n", None),
    # a plugin's options, with and without a value
    ("#!/bin/bash\n#SBATCH --x11-of-ours --signal=USR1@60\n", USR1),
    ("#!/bin/bash\n#SBATCH --image ubuntu --signal=USR1@60\n", USR1),
    ("#!/bin/bash\n#SBATCH --image=ubuntu\n#SBATCH --signal=USR1@60\n", USR1),
    ("#!/bin/bash\n#SBATCH -Z 5 -Zx --signal=USR1@60\n", USR1),
    ("#!/bin/bash\n#SBATCH -n 2\n#SBATCH hetjob\n#SBATCH --signal=USR1@60\n", USR1),
    # an option that cannot be read leaves none of the earlier ones in force
    ("#!/bin/bash\n#SBATCH --signal=USR1@60\n#SBATCH --signal=9\n", None),
]


@pytest.mark.parametrize(("script", "signal"), SCRIPTS)
def test_what_a_script_declares(script: str, signal: Signal | None) -> None:
    assert declared_in(script).signal == signal


@pytest.mark.parametrize(
    ("options", "not_taken"),
    [("--signal=KILL@60", "KILL@60"), ("--signal USR1@60 --signal=9", "9"), ("--signal=9 --signal=USR1@60", "")],
)
def test_an_option_that_is_not_taken_is_kept_for_explain(options: str, not_taken: str) -> None:
    found = declared_in(f"#!/bin/bash\n#SBATCH {options}\n")
    assert (found.not_taken, found.where) == (not_taken, "its script")
    assert ("none that tesched sends" in found.source) is bool(not_taken)
    assert len(declared_in(f"#SBATCH --signal={'x' * 9000}\n").not_taken) == LONGEST_SAID
    assert declared_in("#!/bin/bash\n") == Declared(source="no --signal in its script")


def test_a_script_is_read_up_to_a_bound() -> None:
    line = "#SBATCH --signal=USR1@60\n"
    assert declared_in("#\n" * (MOST_CHARACTERS // 2 - len(line)) + line).signal == USR1
    assert declared_in("#\n" * MOST_CHARACTERS + line).signal is None
    assert declared_in("#SBATCH " + "'\"\\ x" * 1_000_000).signal is None


def test_any_text_is_read() -> None:
    rng = random.Random(5)  # noqa: S311 - texts, no secrets
    options = ["#SBATCH", " ", "--signal", "=", "B:", "USR1", "@", "60"]
    parts = [*options, "\n", "'", '"', "\\", "#", "\0", "\udcff", "²", "x"]
    for _ in range(20_000):
        declared_in("".join(rng.choices(parts, k=rng.randint(0, 30))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scripted(Commands):
    """Commands that answer from a dictionary."""

    answers: dict[str, str | Failure]
    asked: list[str] = field(default_factory=list)

    def run(
        self, argv: Sequence[str], variables: Mapping[str, str] | None = None, *, enough: int | None = None
    ) -> str | Failure:
        assert (variables, enough) == (None, MOST_BYTES)
        assert tuple(argv[:3]) == ("scontrol", "write", "batch_script")
        assert tuple(argv[4:]) == ("-",)
        self.asked.append(argv[3])
        return self.answers[argv[3]]


def snapshot(*jobs: Job) -> Snapshot:
    return classified(Snapshot.of(NOW, jobs=jobs), Classification())


ONE, TWO = running(1, share("n1", 1)), running(2, share("n1", 1))
DECLARES = "#!/bin/bash\n#SBATCH --signal=USR1@60\n"


def test_a_script_is_read_once_for_each_job() -> None:
    commands = Scripted(answers={"1": DECLARES, "2": "#!/bin/bash\n"})
    reader = ScriptDeclarations(commands=commands)
    first = reader.read(snapshot(ONE, TWO))
    assert [found.signal for found in first.values()] == [USR1, None]
    assert reader.read(snapshot(ONE, TWO)) == first
    assert commands.asked == ["1", "2"]
    # Requeued, it waits and runs again; then another job has its id.
    waits = replace(ONE, restarts=1, submit_time=ONE.submit_time + 9, allocation=())
    assert reader.read(snapshot(waits, TWO))[ONE.job_id].signal == USR1
    assert reader.read(snapshot(replace(waits, allocation=ONE.allocation), TWO)) == first
    assert commands.asked == ["1", "2"]
    reader.read(snapshot(replace(ONE, submit_time=ONE.submit_time + 20), TWO))
    assert commands.asked == ["1", "2", "1"]


def test_what_is_known_without_a_call() -> None:
    commands = Scripted(answers={"1": DECLARES})
    reader = ScriptDeclarations(commands=commands)
    assert reader.known(snapshot(ONE)) == {}
    read = reader.read(snapshot(ONE))
    assert read
    assert reader.known(snapshot(ONE, TWO)) == read, "not what a poll has not read"
    assert reader.known(snapshot(replace(ONE, restarts=1, submit_time=ONE.submit_time + 9))) == read
    assert reader.known(snapshot(replace(ONE, submit_time=ONE.submit_time + 20))) == {}, "another job has its id"
    assert reader.known(snapshot(TWO)) == {}
    assert commands.asked == ["1"]


def test_only_running_best_effort_batch_jobs_are_queried() -> None:
    commands = Scripted(answers={})
    interactive = replace(ONE, batch=False)
    waits = replace(TWO, allocation=())
    assert ScriptDeclarations(commands=commands).read(snapshot(interactive, waits)) == {}


def test_so_many_scripts_at_a_poll() -> None:
    jobs = [running(number, share("n1", 1)) for number in range(1, 2 * MOST_SCRIPTS)]
    commands = Scripted(answers={str(job.job_id): "" for job in jobs})
    reader = ScriptDeclarations(commands=commands, stopwatch=lambda: 0.0)
    assert len(reader.read(snapshot(*jobs))) == MOST_SCRIPTS
    assert len(reader.read(snapshot(*jobs))) == len(jobs)


def of_user(user: str, *job_ids: int) -> list[Job]:
    return [replace(running(number, share("n1", 1)), user=user) for number in job_ids]


def test_users_are_served_in_turn_whatever_one_of_them_has() -> None:
    flood = of_user("eve", *range(1, 500))
    others = [*of_user("ada", 600, 601), *of_user("zoe", 700)]
    jobs = [*flood, *others]
    commands = Scripted(answers={str(job.job_id): DECLARES for job in jobs})
    ticks = iter(range(10_000))
    # Time for three scripts a poll.
    reader = ScriptDeclarations(commands=commands, stopwatch=lambda: next(ticks) * MOST_S / 4)
    reader.read(snapshot(*jobs))
    assert commands.asked == ["600", "1", "700"]
    reader.read(snapshot(*jobs))
    assert commands.asked[3:] == ["601", "2", "3"]


def test_the_next_poll_begins_behind_the_user_that_was_served_last() -> None:
    jobs = [job for number, user in enumerate("abcdef", 1) for job in of_user(user, number, number + 10)]
    commands = Scripted(answers={str(job.job_id): "" for job in jobs})
    ticks = iter(range(10_000))
    reader = ScriptDeclarations(commands=commands, stopwatch=lambda: next(ticks) * MOST_S / 5)
    for _ in range(3):
        reader.read(snapshot(*jobs))
    assert commands.asked == ["1", "2", "3", "4", "5", "6", "11", "12", "13", "14", "15", "16"]


def test_the_tasks_of_an_array_share_one_script() -> None:
    tasks = [
        replace(job, array_job_id=JobId(100), array_task_id=number)
        for number, job in enumerate(of_user("eve", *range(101, 400)))
    ]
    commands = Scripted(answers={"101": DECLARES, "500": ""})
    reader = ScriptDeclarations(commands=commands)
    jobs = [*tasks, *of_user("ada", 500)]
    found = reader.read(snapshot(*jobs))
    assert commands.asked == ["500", "101"]
    assert {found[task.job_id].signal for task in tasks} == {USR1}
    # One that starts later has it as well; another array of the same id has not.
    later = replace(tasks[0], job_id=JobId(400), array_task_id=300)
    assert reader.read(snapshot(*jobs, later))[later.job_id].signal == USR1
    commands.answers["401"] = ""
    other = replace(later, job_id=JobId(401), submit_time=later.submit_time + 1)
    assert reader.read(snapshot(*jobs, later, other))[other.job_id].signal is None
    assert commands.asked == ["500", "101", "401"]


def test_the_command_line_of_an_array_is_queried_by_a_task_with_an_id_of_its_own() -> None:
    """The last task bears the array's id, and Slurm answers to that with all of its records."""
    last, ended, runs = (
        replace(job, array_job_id=JobId(100), array_task_id=number)
        for number, job in enumerate(of_user("eve", 100, 101, 102))
    )
    ended = replace(ended, state=JobState.COMPLETED, allocation=())

    def asked(*jobs: Job) -> list[int]:
        found: list[int] = []

        class Lines(SubmitLines):
            def read(self, name: Hashable, job: Job, settings: SlurmSettings) -> NoLine:
                found.append(job.job_id)
                return NoLine.NONE

        reader = ScriptDeclarations(commands=Scripted(answers={"100": "", "102": ""}))
        reader._lines = Lines(commands=reader.commands)
        reader.read(snapshot(*jobs))
        return found

    assert asked(last, ended, runs) == [102]
    # Slurmdbd hears first of what has started first.
    assert asked(last, runs, replace(runs, job_id=JobId(103))) == [102]
    assert asked(last, ended) == [101]
    assert asked(last, replace(runs, submit_time=runs.submit_time + 1)) == [100, 102]
    assert asked(last) == [100]


def test_a_script_that_one_task_could_not_have_read_is_read_for_the_next() -> None:
    first, second = (
        replace(job, array_job_id=JobId(100), array_task_id=number)
        for number, job in enumerate(of_user("eve", 101, 102))
    )
    gone = Failure(kind=FailureKind.NOT_FOUND, message="no such job")
    commands = Scripted(answers={"101": gone, "102": DECLARES})
    found = ScriptDeclarations(commands=commands).read(snapshot(first, second))
    assert found[second.job_id].signal == USR1
    assert commands.asked == ["101", "102"]


def test_so_long_at_a_poll() -> None:
    jobs = [running(number, share("n1", 1)) for number in range(1, 10)]
    commands = Scripted(answers={str(job.job_id): "" for job in jobs})
    ticks = iter(range(100))
    reader = ScriptDeclarations(commands=commands, stopwatch=lambda: next(ticks) / 5)
    assert 1 <= len(reader.read(snapshot(*jobs))) < 9


@pytest.mark.parametrize("kind", FailureKind)
def test_a_script_that_cannot_be_read_declares_nothing_and_is_tried_again_only_if_slurm_was_away(
    kind: FailureKind,
) -> None:
    commands = Scripted(answers={"1": Failure(kind=kind, message="no"), "2": DECLARES})
    reader = ScriptDeclarations(commands=commands)
    found = reader.read(snapshot(ONE, TWO))
    if kind in {FailureKind.UNREACHABLE, FailureKind.BUSY}:
        assert found == {}
        assert commands.asked == ["1"]
    else:
        assert found[ONE.job_id] == Declared(source="its script could not be read")
        assert found[TWO.job_id].signal == USR1
