"""What `tesched check` says of each kind of job is what becomes of it on a real Slurm (tests/cluster proves that)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from tesched_core.intake.class_rules import Classification, Match, Rule, UserWord
from tesched_core.model.limits import Limits, YieldBy
from tesched_core.model.snapshot import JobClass
from tesched_daemon.config import Config
from tesched_daemon.submission.survival import Survival
from tesched_testcluster.kinds import ARRAY, NEVER, SCRIPTS, TORCH, Kind

from tests.unit.cli.checking import AGREES, Checked, checked

BATCH = [kind for kind in (*SCRIPTS, *NEVER, *TORCH, ARRAY) if kind.how == "batch"]
EXACTLY = {
    "plain": Survival.UNDECLARED,
    "exec": Survival.PROGRAM,
    "foreground": Survival.AGAIN,
    "waits": Survival.SAVES,
    "usr2": Survival.SAVES,
    "comment": Survival.SAVES,
    "step": Survival.PROGRAM,
    "forwards": Survival.PROGRAM,
    "dies": Survival.AGAIN,
    "kept": Survival.KEPT,
    "sigterm": Survival.UNDECLARED,
    "jit": Survival.PROGRAM,
}
#: a job of ten minutes at most is trial and error
TRIALS = Config(
    classes=Classification(rules=(Rule(name="short", job_class=JobClass.TE, match=Match(max_time_limit_s=600)),))
)
OPTING_OUT = Config(classes=Classification(user_word=UserWord(may_say_no_preemptions=True)))


def of(kind: Kind, folder: Path, release: str) -> Checked:
    """Return what is said of a kind of job."""
    script = folder / "job.sh"
    script.write_text(kind.script)
    return checked(*kind.options, str(script), release=release)


@pytest.mark.parametrize("kind", BATCH, ids=lambda kind: kind.name)
@pytest.mark.parametrize("release", ["22.05.8", "26.05.5"])
def test_each_kind_is_called_what_it_becomes(kind: Kind, release: str, tmp_path: Path) -> None:
    found = of(kind, tmp_path, release)
    for ending in kind.wanted((int(release[:2]), int(release[3:5]))).values():
        assert found.verdict in AGREES[ending]
    assert found.verdict is EXACTLY.get(kind.name, found.verdict)
    assert found.exit_status == (0 if found.verdict in {Survival.KEPT, Survival.SAVES, Survival.PROGRAM} else 1)


def test_where_exit_0_ends_a_job_it_says_so(tmp_path: Path) -> None:
    (silent,) = (kind for kind in TORCH if kind.name == "jit-exit0")
    assert "ends with exit status 0, it has finished (Slurm 22.05.8)" in of(silent, tmp_path, "22.05.8").text
    assert "it has finished" not in of(silent, tmp_path, "26.05.5").text
    (again,) = (kind for kind in TORCH if kind.name == "jit-again")
    assert "it has finished" not in of(again, tmp_path, "22.05.8").text


REQUEUES = "trap 'scontrol requeue $SLURM_JOB_ID' USR1"
#: a script after its first line, options, and what it is called
SCRIPTS_OF_STRANGERS: dict[str, tuple[str, tuple[str, ...], Survival]] = {
    "a function as its trap": (
        "#SBATCH --signal=B:USR1@60\nsave() { scontrol requeue $SLURM_JOB_ID; }\ntrap save USR1\npython x &\nwait",
        (),
        Survival.SAVES,
    ),
    "its program in a function": (
        "#SBATCH --signal=B:USR1@60\nmain() {\n  python x\n}\ntrap 'exit 99' USR1\nmain",
        (),
        Survival.AGAIN,
    ),
    "a trap that is taken back": (
        "#SBATCH --signal=B:USR1@60\ntrap 'exit 99' USR1\ntrap - USR1\npython x &\nwait",
        (),
        Survival.AGAIN,
    ),
    "a trap of another signal": ("#SBATCH --signal=B:USR1\ntrap 'exit 99' USR2\npython x &\nwait", (), Survival.AGAIN),
    "a trap that says nothing": ("#SBATCH --signal=B:USR1\ntrap '' USR1\npython x &\nwait", (), Survival.AGAIN),
    "SIG before its name": ("#SBATCH --signal=B:SIGUSR1\ntrap 'exit 99' SIGUSR1\npython x &\nwait", (), Survival.SAVES),
    "no wait": ("#SBATCH --signal=B:USR1\ntrap 'exit 99' USR1\npython x &\nsleep 100", (), Survival.AGAIN),
    "wait with a number": (
        "#SBATCH --signal=B:USR1\ntrap 'exit 99' USR1\npython x & pid=$!\nwait $pid",
        (),
        Survival.SAVES,
    ),
    "exit 0 in its trap": ("#SBATCH --signal=B:USR1\ntrap 'exit 0' USR1\npython x &\nwait", (), Survival.UNFINISHED),
    "exit 0, and a word for it": (
        "#SBATCH --signal=B:USR1\ntrap 'exit 0' USR1\npython x &\nwait",
        ("--comment=exit0=again",),
        Survival.SAVES,
    ),
    "to steps that are none": ("#SBATCH --signal=USR1@60\npython x", (), Survival.AGAIN),
    "to steps, by mpirun": ("#SBATCH --signal=USR1@60\nmpirun -np 4 ./x", (), Survival.PROGRAM),
    "a starter before srun": ("#SBATCH --signal=USR1@60\ntime timeout -k 5 3600 srun ./x", (), Survival.PROGRAM),
    "a trap named in a text": (
        "#SBATCH --signal=B:USR1\necho \"trap 'exit 99' USR1\"\npython x &\nwait",
        (),
        Survival.AGAIN,
    ),
    "a trap in a here-document": (
        "#SBATCH --signal=B:USR1\ncat <<EOF\ntrap 'exit 99' USR1\nEOF\npython x &\nwait",
        (),
        Survival.AGAIN,
    ),
    "options after the first command": ("python x\n#SBATCH --signal=B:USR1@60", (), Survival.UNDECLARED),
    "the command line goes first": (
        "#SBATCH --signal=B:USR2@60\ntrap 'exit 99' USR1\npython x &\nwait",
        ("--signal", "B:USR1@5"),
        Survival.SAVES,
    ),
    "the comment goes first of all": (
        "#SBATCH --signal=B:USR2@60\ntrap 'exit 99' USR1\npython x &\nwait",
        ("--comment=signal=USR1",),
        Survival.SAVES,
    ),
    "KILL": ("#SBATCH --signal=B:KILL@60\npython x", (), Survival.UNDECLARED),
    "its trap of TERM": ("trap 'kill $!; wait; exit 99' TERM\npython x &\nwait", (), Survival.SAVES),
    "all its processes": ("#SBATCH --comment=signal=full:USR1\ntrap 'exit 99' USR1\npython x", (), Survival.PROGRAM),
    "no requeue, and then one": ("#SBATCH --no-requeue\npython x", ("--requeue",), Survival.UNDECLARED),
    "no requeue": ("#SBATCH --requeue\npython x", ("--no-requeue",), Survival.KEPT),
    "a trap that does not end it": (
        "#SBATCH --signal=B:USR1\ntrap 'kill -USR1 $PID' USR1\n./x & PID=$!\nwait $PID\necho done",
        (),
        Survival.UNCLEAR,
    ),
    "two statuses": (
        "#SBATCH --signal=B:USR1\ntrap 'if [ -f a ]; then exit 0; else exit 1; fi' USR1\n./x &\nwait",
        (),
        Survival.UNCLEAR,
    ),
    "a trap after it has waited": (f"#SBATCH --signal=B:USR1\n./x &\nwait\n{REQUEUES}", (), Survival.AGAIN),
    "a trap of another shell": (f"#SBATCH --signal=B:USR1\n( {REQUEUES}; ./x & wait )", (), Survival.AGAIN),
    "a trap behind it": (f"#SBATCH --signal=B:USR1\n{REQUEUES} &\n./x &\nwait", (), Survival.AGAIN),
    "a trap in a pipe": (
        f"#SBATCH --signal=B:USR1\nf() {{ {REQUEUES}; }}\nf | cat\n./x &\nwait",
        (),
        Survival.AGAIN,
    ),
    "conda run": (f"#SBATCH --signal=B:USR1\n{REQUEUES}\nconda run -n e python x &\nwait $!", (), Survival.SAVES),
    "conda run in the foreground": (
        f"#SBATCH --signal=B:USR1\n{REQUEUES}\n./side &\nconda run -n e python x\nwait",
        (),
        Survival.BY_TIME,
    ),
    "tail until it ends": (
        f"#SBATCH --signal=B:USR1\n{REQUEUES}\n./x &\ntail -f --pid=$! /dev/null\nwait",
        (),
        Survival.BY_TIME,
    ),
    "a last step": (f"#SBATCH --signal=B:USR1\n{REQUEUES}\n./x &\nwait $!\ngzip out.txt", (), Survival.BY_TIME),
    "a loop of sleeps": (
        f"#SBATCH --signal=B:USR1\n{REQUEUES}\n./x &\nwhile kill -0 $!; do sleep 1; done",
        (),
        Survival.SAVES,
    ),
    "a signal by its variable": (
        "#SBATCH --signal=B:USR1\nsig=USR1\ntrap 'exit 99' $sig\n./x &\nwait",
        (),
        Survival.UNCLEAR,
    ),
    "srun in a substitution": ("#SBATCH --signal=USR1@60\nout=$(srun python x)", (), Survival.PROGRAM),
    "srun by its variable": ("#SBATCH --signal=USR1@60\n$SRUN python x", (), Survival.UNCLEAR),
    "srun by a script": ("#SBATCH --signal=USR1@60\nbash ./steps.sh", (), Survival.UNCLEAR),
    "a trap that submits another": (
        "#SBATCH --signal=B:USR1\ntrap 'sbatch $0; exit 1' USR1\n./x &\nwait",
        (),
        Survival.TWICE,
    ),
    "a trap that submits another, and ends": (
        "#SBATCH --signal=B:USR1\ntrap 'sbatch $0; exit 0' USR1\n./x &\nwait",
        (),
        Survival.SAVES,
    ),
    "a trap that cancels it": (
        "#SBATCH --signal=B:USR1\ntrap 'scancel $SLURM_JOB_ID' USR1\n./x &\nwait",
        (),
        Survival.UNFINISHED,
    ),
    "broken": ("#SBATCH --signal=B:USR1\ntrap 'exit 99' USR1\nif then ((\npython x", (), Survival.AGAIN),
}


@pytest.mark.parametrize("name", SCRIPTS_OF_STRANGERS)
def test_ordinary_scripts_are_judged_as_they_fare(name: str, tmp_path: Path) -> None:
    body, options, verdict = SCRIPTS_OF_STRANGERS[name]
    script = tmp_path / "job.sh"
    script.write_text(f"#!/bin/bash\n{body}\n")
    assert checked(*options, str(script)).verdict is verdict


def test_a_program_of_another_language_is_the_batch_shell(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text("#!/usr/bin/env -S python3 -u\n#SBATCH --signal=B:USR1@60\nimport signal\n")
    assert checked(str(script)).verdict is Survival.PROGRAM


def test_not_every_sh_knows_a_signal_with_sig_before_its_name(tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    for first, name, verdict in (
        ("#!/bin/sh", "SIGUSR1", Survival.UNCLEAR),
        ("#!/bin/sh", "USR1", Survival.SAVES),
        ("#!/bin/bash", "SIGUSR1", Survival.SAVES),
    ):
        script.write_text(f"{first}\n#SBATCH --signal=B:USR1\ntrap 'exit 99' {name}\n./x &\nwait\n")
        assert checked(str(script)).verdict is verdict


def test_its_size_and_what_a_site_protects_count(tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/bash\n./x\n")
    small = Match(max_nodes=1, max_gpus=2)
    classes = Classification(rules=(Rule(name="small", job_class=JobClass.EXEMPT, match=small),))
    config = Config(classes=classes, guard=Limits(protected_partitions=("prod*",)))
    for options, verdict in (
        ((), Survival.KEPT),
        (("-N8",), Survival.UNDECLARED),
        (("--gpus=64",), Survival.UNDECLARED),
        (("--gres=gpu:a100:3",), Survival.UNDECLARED),
        (("-N8", "-p", "prod1"), Survival.KEPT),
    ):
        assert checked(*options, str(script), config=config).verdict is verdict, options


def test_what_its_exit_code_means_is_the_sites(tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/bash\n#SBATCH --signal=B:USR1@60\ntrap 'exit 99' USR1\npython x &\nwait\n")
    assert "exit 99 is of RequeueExit: Slurm puts it back" in checked(str(script), requeue_exit=(99,)).text
    assert "exit 99 is not of RequeueExit" in checked(str(script)).text
    assert "exit 99 is of RequeueExitHold" in checked(str(script), requeue_exit_hold=(99,)).text


def test_what_the_head_lacks_is_a_patch(tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/bash\n#SBATCH --time=9\necho a\n")
    assert checked(str(script)).diff.splitlines()[2:] == [
        "@@ -2,2 +2,3 @@",
        " #SBATCH --time=9",
        "+#SBATCH --open-mode=append",
        " echo a",
    ]
    # What sbatch does not read is no head.
    script.write_text("#!/bin/bash\necho a\n#SBATCH --time=9\n")
    assert checked(str(script)).diff.splitlines()[2:5] == [
        "@@ -1,2 +1,3 @@",
        " #!/bin/bash",
        "+#SBATCH --open-mode=append",
    ]
    assert "line 3: sbatch reads no #SBATCH line after the first command" in checked(str(script)).text
    assert checked("--open-mode=append", str(script)).diff == ""
    assert checked(str(script), appends=True).diff == ""


def patched(text: str, diff: str) -> str:
    """Return the text with a patch of one hunk, as patch(1) reads it: line feeds alone end lines."""
    head, *hunk = diff.removesuffix("\n").split("\n")[2:]
    place = int(head.split()[1].removeprefix("-").partition(",")[0]) - 1
    before, after = ([line[1:] for line in hunk if line[0] in kinds] for kinds in (" -", " +"))
    lines = text.split("\n")
    assert lines[place : place + len(before)] == before
    return "\n".join([*lines[:place], *after, *lines[place + len(before) :]])


@pytest.mark.parametrize("mark", ["\f", "\v", "\r", "\x1c", "\x85", "\u2028"])
def test_the_patch_is_of_the_lines_that_sbatch_sees(mark: str, tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    head, rest = ["#!/bin/bash", f"# one{mark}page", "#SBATCH --time=9"], ["export A=\\", f"echo{mark}b", ""]
    text = "\n".join([*head, *rest])
    script.write_bytes(text.encode())
    assert patched(text, checked(str(script)).diff).split("\n") == [*head, "#SBATCH --open-mode=append", *rest]


@pytest.mark.parametrize(
    ("options", "config", "verdict", "because"),
    [
        (("--comment=preempted=end",), Config(), Survival.ENDS, "preempted=end: it is cancelled"),
        (("--comment=preempted=end", "--signal=B:USR1@60"), Config(), Survival.ENDS, "has 60 s before it is cancelled"),
        # Slurm itself requeues what it preempts, and knows no such word.
        (
            ("--comment=preempted=end",),
            Config(guard=Limits(lever=YieldBy.PLUGIN)),
            Survival.UNDECLARED,
            "no signal is declared",
        ),
        (
            ("--time=5",),
            TRIALS,
            Survival.KEPT,
            "it is trial and error (rule short): best-effort jobs alone are preempted",
        ),
        (("--comment=preemptions=0",), OPTING_OUT, Survival.KEPT, "its owner says so (preemptions=0)"),
        (("--comment=preemptions=0",), Config(), Survival.UNDECLARED, "no signal is declared"),
    ],
    ids=["ends", "ends after its notice", "the plugin knows no such word", "a trial", "never", "not followed"],
)
def test_what_its_owner_or_its_class_says_comes_before_its_signal(
    tmp_path: Path, options: Sequence[str], config: Config, verdict: Survival, because: str
) -> None:
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/sh\npython3 work.py\n")
    found = checked(*options, str(script), config=config)
    assert found.verdict is verdict
    assert because in found.text
    assert found.exit_status == (1 if verdict is Survival.UNDECLARED else 0)
    assert ("open-mode=append" in found.text) == (verdict is Survival.UNDECLARED)
