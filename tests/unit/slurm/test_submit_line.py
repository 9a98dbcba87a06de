"""The --signal of sbatch's command line: as getopt reads it, and nothing where it could mean two things."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest
from tesched_core.intake.class_rules import Classification
from tesched_core.intake.classify import classified
from tesched_core.model.actions import Failure, FailureKind
from tesched_core.model.cluster import Job, SlurmSettings
from tesched_core.model.notice import Signal, Target
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_slurm.declared_signal import ScriptDeclarations
from tesched_slurm.run_command import Commands
from tesched_slurm.submit_line import MOST_CHARACTERS, SLURMDBD_PAUSE_S, declared_on, known_texts

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
    else:
        assert (found.signal if found is not None else None) == signal


def test_a_signal_that_is_no_notice_goes_before_the_scripts_all_the_same() -> None:
    found = declared_on("sbatch --signal=KILL s.sh", NOTHING)
    assert found is not None
    assert found.signal is None


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
    sacct: str | Failure = AWAY
    asked: list[str] = field(default_factory=list)

    def run(
        self, argv: Sequence[str], variables: Mapping[str, str] | None = None, *, enough: int | None = None
    ) -> str | Failure:
        assert variables is None
        self.asked.append(argv[1] if argv[0] == "scontrol" else argv[0])
        if argv[0] == "sacct":
            separator = next(word for word in argv if word.startswith("--delimiter=")).partition("=")[2]
            return self.sacct if isinstance(self.sacct, Failure) else self.sacct.replace("|", separator)
        return self.script if argv[1] == "write" else self.shown


def snapshot(job: Job, **settings: object) -> Snapshot:
    known = SlurmSettings(**settings)  # type: ignore[arg-type]
    return classified(replace(Snapshot.of(NOW, jobs=[job]), settings=known), Classification())


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
    assert commands.asked == ["write", "--json"]  # once


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("1|sbatch --signal=USR1 s.sh|\n", "USR1"),
        ("1|sbatch --comment=\n1;x --signal=USR1 s.sh|\n", "USR1"),
        ("2|sbatch --signal=USR1 s.sh|\n", "TERM"),
        ("", "TERM"),
        ("\n", "TERM"),
    ],
)
def test_before_26_05_slurmdbd_has_it(said: str, name: str) -> None:
    job = replace(JOB, comment="\n1;x")
    commands = Answers(sacct=said)
    found = ScriptDeclarations(commands=commands).read(snapshot(job, release="22.05.8", has_slurmdbd=True))[JobId(1)]
    assert found.signal is not None
    assert found.signal.name == name
    assert commands.asked == ["write", "sacct"]


def test_without_slurmdbd_nobody_is_asked_for_it() -> None:
    commands = Answers(script="#!/bin/bash\n")
    found = ScriptDeclarations(commands=commands).read(snapshot(JOB, release="22.05.8"))[JobId(1)]
    assert (found.signal, commands.asked) == (None, ["write"])
    assert "its command line can't be seen" in found.source


def test_a_slurmdbd_that_is_away_is_left_alone_for_a_while_and_then_asked_again() -> None:
    now = [0.0]
    commands = Answers()
    reader = ScriptDeclarations(commands=commands, stopwatch=lambda: now[0])
    seen = snapshot(JOB, release="22.05.8", has_slurmdbd=True)
    for at_s in (0.0, 1.0, SLURMDBD_PAUSE_S - 1):
        now[0] = at_s
        found = reader.read(seen)[JobId(1)].signal
        assert found is not None
        assert found.name == "TERM"  # its script's, meanwhile
    assert commands.asked.count("sacct") == 1
    now[0] = SLURMDBD_PAUSE_S
    reader.read(seen)
    assert commands.asked.count("sacct") == 2


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
