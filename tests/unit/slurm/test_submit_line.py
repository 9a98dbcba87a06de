"""The --signal of sbatch's command line: as getopt reads it, and nothing where it could mean either of two."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import pytest
from tesched_core.intake.class_rules import Classification
from tesched_core.intake.classify import classified
from tesched_core.model.actions import Failure, FailureKind
from tesched_core.model.cluster import Job, SlurmSettings
from tesched_core.model.notice import Declared, Signal, Target
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_slurm.declared_signal import MOST_S, ScriptDeclarations
from tesched_slurm.run_command import Commands
from tesched_slurm.submit_line import (
    EXPECTED_PAUSE_S,
    EXPECTED_S,
    LATE_PAUSE_MAX_S,
    LATE_PAUSE_S,
    MOST_CHARACTERS,
    SLURMDBD_FIRST_PAUSE_S,
    SLURMDBD_PAUSE_S,
    declared_on,
    known_texts,
)

from tests.builders import NOW, running, share

USR1 = Signal(name="USR1")
BATCH = Signal(name="USR2", target=Target.BATCH, seconds_s=60.0)
NOTHING = {"comment": "", "job-name": "s.sh", "wrap": ""}
TWO_WAYS = "two ways"

#: tried with sbatch 22.05.8 and 26.05.5, which keep the words joined by blanks, without quotes
LINES = [
    ("sbatch --signal=B:USR2@60 s.sh", {}, BATCH),
    ("/usr/bin/sbatch --signal B:USR2@60 s.sh", {}, BATCH),
    ("sbatch --parsable --sig=USR1 s.sh", {}, USR1),
    ("sbatch --si USR1 s.sh", {}, USR1),
    ("sbatch -N1 --exclusive -t 10 -HJ a --signal=USR1", {"job-name": "a"}, USR1),
    ("sbatch --nice --signal=USR1 s.sh", {}, USR1),
    ("sbatch -k --signal=USR1 s.sh", {}, USR1),
    # the last one counts
    ("sbatch --signal=TERM --signal=USR1 s.sh", {}, USR1),
    # the script's own arguments
    ("sbatch s.sh --signal=USR1", {}, None),
    ("sbatch --signal=USR1 s.sh --signal=TERM", {}, USR1),
    ("sbatch -- s.sh --signal=USR1", {}, None),
    ("sbatch -n 2 s.sh --signal=USR1", {}, None),
    # another option's value
    ("sbatch -J --signal=USR1 s.sh", {"job-name": "--signal=USR1"}, None),
    ("sbatch --comment --signal=USR1 s.sh", {"comment": "--signal=USR1"}, None),
    ("sbatch --partition --signal=USR1 s.sh", {}, None),
    ("sbatch --comment= --signal=USR1 s.sh", {}, USR1),
    # texts with blanks, which are known
    ("sbatch --comment=a b --signal=USR1 s.sh", {"comment": "a b --signal=USR1"}, None),
    ("sbatch --comment=a b --signal=USR1 s.sh", {"comment": "a b"}, USR1),
    ("sbatch --comment=it's \"so --signal=USR1 s.sh", {"comment": "it's \"so"}, USR1),
    ("sbatch --comment a\nJobId=7 --signal=TERM --signal=USR1 s.sh", {"comment": "a\nJobId=7 --signal=TERM"}, USR1),
    ("sbatch --wrap=srun --signal=USR1 x", {"wrap": "srun --signal=USR1 x"}, None),
    ("sbatch --wrap x --signal=USR1", {"wrap": "x"}, USR1),
    ("sbatch --wrap x --signal=USR1", {"wrap": "x --signal=USR1"}, None),
    # the comment was changed since: is the --signal a part of what it was?
    ("sbatch --comment=a --signal=USR1 s.sh", {"comment": "other"}, TWO_WAYS),
    ("sbatch --comment=a -n1 --signal=USR1 s.sh", {"comment": "other"}, USR1),
    # options of plugins
    ("sbatch --container-image=x --signal=USR1 s.sh", {}, USR1),
    ("sbatch --of-a-plugin --signal=USR1 s.sh", {}, USR1),
    ("sbatch --of-a-plugin x --signal=USR1 s.sh", {}, TWO_WAYS),
    ("sbatch -y --signal=USR1 s.sh", {}, TWO_WAYS),
    ("run-it --signal=USR1 s.sh", {}, TWO_WAYS),
    ("sbatch " + "x" * MOST_CHARACTERS + " --signal=USR1", {}, TWO_WAYS),
    ("sbatch --signal", {}, None),
    ("", {}, None),
]


@pytest.mark.parametrize(("line", "texts", "signal"), LINES)
def test_what_a_command_line_declares(line: str, texts: Mapping[str, str], signal: Signal | str | None) -> None:
    found = declared_on(line, {**NOTHING, **texts})
    if signal is TWO_WAYS:
        assert found is not None
        assert found.signal is None
        assert TWO_WAYS in found.source
        assert TWO_WAYS in found.why_not
    else:
        assert (found.signal if found is not None else None) == signal


def test_a_signal_that_is_no_notice_goes_before_the_scripts_all_the_same() -> None:
    found = declared_on("sbatch --signal=KILL s.sh", NOTHING)
    assert found is not None
    assert found.signal is None
    assert (found.where, found.not_taken) == ("sbatch's command line", "KILL")


def test_any_text_is_read_in_bounded_time() -> None:
    rng = random.Random(1)  # noqa: S311
    parts = ["sbatch", " ", "--si", "--signal=", "USR1", "'", '"', "\n", "-", "=", "--comment", "x", "\\", "\0", "é"]
    for _ in range(2000):
        declared_on("sbatch " + "".join(rng.choices(parts, k=rng.randint(0, 40))), NOTHING)


NO_JSON = Failure(kind=FailureKind.REFUSED, message="no --json here")
AWAY = Failure(kind=FailureKind.UNREACHABLE, message="slurmdbd is away")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers(Commands):
    """Slurm's commands, from what is written here."""

    script: str = "#!/bin/bash\n#SBATCH --signal=TERM\n"
    shown: str | Failure = NO_JSON
    answers: dict[str, str | Failure] = field(default_factory=lambda: {"sacct": AWAY})
    asked: list[str] = field(default_factory=list)
    #: the jobs that sacct was queried for
    sacct_of: list[str] = field(default_factory=list)

    def run(
        self, argv: Sequence[str], variables: Mapping[str, str] | None = None, *, enough: int | None = None
    ) -> str | Failure:
        assert variables is None
        self.calls[argv[0]] += 1
        self.asked.append(argv[1] if argv[0] == "scontrol" else argv[0])
        if argv[0] == "sacct":
            self.sacct_of.append(argv[-1])
            separator = next(word for word in argv if word.startswith("--delimiter=")).partition("=")[2]
            said = self.answers["sacct"]
            return said if isinstance(said, Failure) else said.replace("|", separator)
        return self.script if argv[1] == "write" else self.shown


def snapshot(*jobs: Job, **settings: object) -> Snapshot:
    known = SlurmSettings(**settings)  # type: ignore[arg-type]
    return classified(replace(Snapshot.of(NOW, jobs=jobs), settings=known), Classification())


WITH_SLURMDBD: Mapping[str, object] = {"release": "22.05.8", "has_slurmdbd": True}
COMES = "1|RUNNING|sbatch --signal=USR1 s.sh|\n"


@dataclass(kw_only=True)
class Polls:
    """A reader that reads jobs at moments of the test's own, with slurmdbd."""

    commands: Answers
    jobs: Sequence[Job] = ()
    found: Mapping[JobId, Declared] = field(default_factory=dict)
    now: float = 0.0

    def __post_init__(self) -> None:
        self.jobs = self.jobs or [JOB]
        self.reader = ScriptDeclarations(commands=self.commands, stopwatch=lambda: self.now)

    def poll(self, at_s: float) -> str | None:
        """Return the signal that the first job declares; None if that is not known yet."""
        self.now = at_s
        self.found = self.reader.read(snapshot(*self.jobs, **WITH_SLURMDBD))
        declared = self.found.get(self.jobs[0].job_id)
        return None if declared is None else declared.signal.name if declared.signal else ""


JOB = running(1, share("n1", 1))


def shown(*lines: tuple[int, object]) -> str:
    return json.dumps({"jobs": [{"job_id": job_id, "submit_line": line} for job_id, line in lines]})


@pytest.mark.parametrize(
    ("answer", "name"),
    [
        (shown((1, "sbatch --signal=USR1 s.sh")), "USR1"),
        (shown((2, "sbatch --signal=HUP s.sh"), (1, "sbatch --signal=USR1 s.sh")), "USR1"),
        (shown((2, "sbatch --signal=USR1 s.sh")), "TERM"),
        (shown((1, "sbatch s.sh")), "TERM"),
        (shown((1, "")), "TERM"),
        (shown((1, 7)), "TERM"),
        ("{}", "TERM"),
        ("[", "TERM"),
        ('{"jobs": [7]}', "TERM"),
    ],
)
def test_the_command_line_goes_before_the_script_and_the_script_holds_without_one(answer: str, name: str) -> None:
    commands = Answers(shown=answer)
    reader = ScriptDeclarations(commands=commands)
    found = reader.read(snapshot(JOB, release="26.05.5"))[JobId(1)]
    assert found.signal is not None
    assert found.signal.name == name
    assert reader.read(snapshot(JOB, release="26.05.5"))[JobId(1)] == found
    assert commands.asked == ["--json", "write"]  # once


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("1|RUNNING|sbatch --signal=USR1 s.sh|\n", "USR1"),
        ("1|PENDING|sbatch --signal=USR1 s.sh|\n", "USR1"),
        ("1|REQUEUED|sbatch --signal=HUP s.sh|\n1|RUNNING|sbatch --signal=USR1 s.sh|\n", "USR1"),
        ("1|RUNNING|sbatch --comment=\n1;x --signal=USR1 s.sh|\n", "USR1"),
        # slurmdbd has the job's start: it was submitted by no command
        ("1|RUNNING||\n", "TERM"),
    ],
)
def test_before_26_05_slurmdbd_has_it(said: str, name: str) -> None:
    job = replace(JOB, comment="\n1;x")
    commands = Answers(answers={"sacct": said})
    reader = ScriptDeclarations(commands=commands)
    for _ in range(2):
        found = reader.read(snapshot(job, **WITH_SLURMDBD))[JobId(1)]
        assert found.signal is not None
        assert found.signal.name == name
    assert commands.asked == ["sacct", "write"]
    assert commands.calls == {"scontrol": 1}, "sacct is no RPC of slurmctld's"


#: what sacct says of a job that slurmdbd has not heard of, or not of its start
NOT_YET = ("", "\n", "2|RUNNING|sbatch --signal=USR1 s.sh|\n", "1|PENDING||\n", "1|REQUEUED||\n")


@pytest.mark.parametrize("said", NOT_YET)
def test_a_line_that_slurmdbd_does_not_have_yet_is_expected_and_its_job_is_not_read_until_then(said: str) -> None:
    at = Polls(commands=Answers(answers={"sacct": said}))
    assert at.poll(0.0) is None
    assert at.poll(EXPECTED_PAUSE_S / 2) is None
    assert at.commands.asked == ["sacct"]
    assert at.poll(EXPECTED_PAUSE_S) is None
    assert at.commands.asked == ["sacct"] * 2
    at.commands.answers["sacct"] = COMES
    assert at.poll(2 * EXPECTED_PAUSE_S) == "USR1"
    assert at.poll(3600.0) == "USR1"
    assert at.commands.asked == ["sacct"] * 3 + ["write"]


@pytest.mark.parametrize("said", NOT_YET)
def test_a_line_that_does_not_come_is_queried_ever_more_rarely_and_then_no_more(said: str) -> None:
    at = Polls(commands=Answers(answers={"sacct": said}))
    at_s = 0.0
    while at_s < EXPECTED_S:
        assert at.poll(at_s) is None
        at_s += 0.5
    assert at.commands.asked == ["sacct"] * int(EXPECTED_S / EXPECTED_PAUSE_S)
    asked_at_s = []
    while at_s < 3 * LATE_PAUSE_MAX_S:
        before = at.commands.asked.count("sacct")
        assert at.poll(at_s) == "TERM"  # its script's, meanwhile
        if at.commands.asked.count("sacct") > before:
            asked_at_s.append(at_s)
        at_s += 5
    assert [later - sooner for sooner, later in pairwise(asked_at_s)] == [60.0, 120.0, 240.0, 480.0, 960.0, 1920.0]
    # Once when it is taken for late, and once when there is none.
    assert at.commands.asked.count("write") == 2


def test_a_line_that_comes_late_is_taken_all_the_same() -> None:
    at = Polls(commands=Answers(answers={"sacct": ""}))
    assert at.poll(0.0) is None
    assert at.poll(EXPECTED_S) == "TERM"
    at.commands.answers["sacct"] = COMES
    assert at.poll(EXPECTED_S + LATE_PAUSE_S - 1) == "TERM"
    assert at.poll(EXPECTED_S + LATE_PAUSE_S) == "USR1"
    # What is known stays so when its job has run again.
    at.jobs = [replace(JOB, restarts=1, submit_time=JOB.submit_time + 9)]
    at.commands.answers["sacct"] = ""
    assert at.poll(EXPECTED_S + LATE_PAUSE_S + 1) == "USR1"


def test_a_line_that_is_awaited_holds_up_no_other_job_of_its_user() -> None:
    """However many are: each is queried once before any is queried again."""
    jobs = [replace(JOB, job_id=JobId(number)) for number in range(1, 41)]
    commands = Answers(answers={"sacct": ""})
    # Time for five questions a poll, each a second after the last one.
    now = [0.0]

    def stopwatch() -> float:
        now[0] += MOST_S / 20
        return now[0]

    reader = ScriptDeclarations(commands=commands, stopwatch=stopwatch)
    seen = snapshot(*jobs, **WITH_SLURMDBD)
    while len(commands.sacct_of) < len(jobs):
        reader.read(seen)
        now[0] += EXPECTED_PAUSE_S
    assert len(set(commands.sacct_of)) == len(jobs)


def test_an_arrays_line_is_queried_once_a_poll_and_given_up_for_all_its_tasks() -> None:
    tasks = [replace(JOB, job_id=JobId(100 + number), array_job_id=JobId(100)) for number in range(1, 300)]
    at = Polls(commands=Answers(answers={"sacct": ""}), jobs=tasks)
    for at_s in range(int(EXPECTED_S)):
        assert at.poll(float(at_s)) is None
    assert at.commands.asked == ["sacct"] * int(EXPECTED_S)
    assert at.poll(EXPECTED_S) == "TERM"
    assert at.poll(EXPECTED_S + 1) == "TERM"
    assert at.commands.asked == ["sacct"] * int(EXPECTED_S + 1) + ["write"]
    later = replace(tasks[0], job_id=JobId(900))
    at.jobs = [*tasks, later]
    at.commands.answers["sacct"] = "101|RUNNING|sbatch --array=1-900 --signal=USR1 s.sh|\n"
    assert at.poll(EXPECTED_S + LATE_PAUSE_S) == "USR1"
    assert set(at.found.values()) == {at.found[later.job_id]}
    assert len(at.found) == 300


def test_no_line_is_queried_without_slurmdbd() -> None:
    commands = Answers(script="#!/bin/bash\n")
    found = ScriptDeclarations(commands=commands).read(snapshot(JOB, release="22.05.8"))[JobId(1)]
    assert (found.signal, commands.asked) == (None, ["write"])
    assert "its command line can't be seen" in found.source


def test_a_slurmdbd_that_is_away_is_left_alone_for_a_while_and_then_queried_again() -> None:
    at = Polls(commands=Answers())
    asked_at_s = []
    for number in range(600):
        at_s = number / 2
        before = len(at.commands.sacct_of)
        assert at.poll(at_s) == (None if at_s < EXPECTED_S else "TERM")  # its script's, meanwhile
        if len(at.commands.sacct_of) > before:
            asked_at_s.append(at_s)
    pauses = [later - sooner for sooner, later in pairwise(asked_at_s)]
    assert pauses == [SLURMDBD_FIRST_PAUSE_S, 10.0, 20.0, 40.0, SLURMDBD_PAUSE_S, SLURMDBD_PAUSE_S, SLURMDBD_PAUSE_S]
    # For hours, too: what it has not said, it may still have.
    at.poll(3 * LATE_PAUSE_MAX_S)
    at.commands.answers["sacct"] = COMES
    assert at.poll(3 * LATE_PAUSE_MAX_S + SLURMDBD_PAUSE_S) == "USR1"


def test_scripts_are_searched_for_the_sites_texts_and_anew_when_these_change() -> None:
    commands = Answers(script="#!/bin/bash\npython -m lab.train [a-z]\n")
    reader = ScriptDeclarations(commands=commands)
    for patterns, there in (((), set()), (("lab.train", "lab*"), {"lab.train"}), (("[a-z]",), {"[a-z]"})):
        found = reader.read(snapshot(JOB), patterns)[JobId(1)]
        assert found.script_has == there
    assert commands.asked == ["write"] * 3


@pytest.mark.parametrize("text", ["true", "a\n\nb", "\n" * 1_000_000 + "x", "x" + "\n \n" * 1_000_000 + "x", ""])
def test_what_was_wrapped_is_known_in_one_pass_however_many_lines_it_has(text: str) -> None:
    # By the square of its newlines this would take hours; faulthandler ends it then.
    script = f"#!/bin/sh\n# This script was created by sbatch --wrap.\n\n{text}\n\n"
    assert known_texts(running(1, share("n1", 1)), script)["wrap"] == text.rstrip("\n")


def test_another_script_wraps_nothing() -> None:
    assert known_texts(running(1, share("n1", 1)), "#!/bin/sh\ntrue\n")["wrap"] == ""
