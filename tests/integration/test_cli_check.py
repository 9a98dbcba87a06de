"""`tesched check` as it is typed: what it prints, and what it says of what it can't judge."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tesched_cli.main import main

#: five functions, each of which calls the next one sixty times
CALLS = "".join(f"f{n}() {{\n" + f"f{n + 1}\n" * 60 + "}\n" for n in range(5)) + "f0\n"
SCRIPT = "#!/bin/bash\n#SBATCH --signal=B:USR1@60\npython3 train.py\n"


def run(*words: str, stdin: str = "") -> Result:
    return CliRunner().invoke(main, ["check", *words], input=stdin)


@pytest.fixture(autouse=True)
def _without_slurm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let no Slurm of this host answer, and no configuration be found."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def test_it_says_what_becomes_of_it_and_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text(SCRIPT)
    said = run("job.sh")
    assert said.exit_code == 1
    assert said.stdout.startswith(
        "job.sh: starts over\n"
        "  it gets SIGUSR1 to its batch shell, from --signal in line 2, and has 60 s before it is requeued\n"
    )
    assert "+#SBATCH --open-mode=append\n" in said.stdout
    assert "  note: Slurm does not say what it is set to" in said.stdout
    assert "  note: judged by the default configuration" in said.stdout


def test_pbs_lines_are_named_unless_sbatch_ignores_them(tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text("#!/bin/bash\n#PBS -q lab\npython3 train.py\n")
    note = "note: #PBS in line 2: sbatch takes options from such lines, which are not read here"
    assert note in run("job.sh").stdout
    assert note not in run("--ignore-pbs", "job.sh").stdout


def test_a_sites_rules_count(tmp_path: Path) -> None:
    (tmp_path / "tesched.toml").write_text(
        '[[classes.rules]]\nname = "lab"\njob_class = "be"\nnotice_signal = "B:USR2"\n'
        'match = { partitions = ["lab"] }\n'
    )
    (tmp_path / "tesched.toml").chmod(0o600)
    (tmp_path / "job.sh").write_text("#!/bin/bash\npython3 train.py\n")
    assert "SIGUSR2 to its batch shell, from rule lab" in run("-plab", "job.sh").stdout
    assert "no signal is declared" in run("-pother", "job.sh").stdout


def test_words_that_the_site_does_not_follow_are_named(tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text(SCRIPT)
    said = run("--signal=KILL", "--comment=grace=9999", "job.sh").stdout
    assert "\n  said    --signal=KILL (on the command line) is not followed: SIGKILL may not be a notice" in said
    assert "said    grace=9999 (the job's comment) is not followed" in said


def test_an_option_of_ours_behind_the_script_is_pointed_out(tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text(SCRIPT)
    ran = run("job.sh", "--json")
    assert ran.stdout.startswith("job.sh: ")
    assert "note: --json is taken for the script's here; for tesched: tesched check --json ... SCRIPT" in ran.stderr


def test_help_has_a_short_and_a_long_option() -> None:
    assert run("-h").stdout.startswith("Usage: ")
    assert run("--help").stdout == run("-h").stdout


def test_standard_input_and_wrap() -> None:
    assert json.loads(run("--json", "-", stdin=SCRIPT).stdout)["verdict"] == "starts over"
    said = json.loads(run("--json", "--open-mode=append", "--signal=USR1", "--wrap", "srun python3 x.py").stdout)
    assert (said["verdict"], said["diff"]) == ("saves if its program does", "")


@pytest.mark.parametrize(
    ("words", "text", "said"),
    [
        ((), SCRIPT, "no script is named"),
        (("nope.sh",), SCRIPT, "nope.sh: No such file or directory"),
        (("job.sh",), "python3 x\n", 'job.sh: line 1: sbatch takes a script that begins with "#!"'),
        (("job.sh",), "#!/bin/sh\n\0", "job.sh: it is no text"),
        (("--foo", "1", "job.sh"), SCRIPT, "whether --foo takes a value is not known: write --foo=VALUE"),
        (("-y", "job.sh"), SCRIPT, "sbatch has no option -y"),
        (("--wrap=a", "job.sh"), SCRIPT, "--wrap and a script, job.sh: name one of them"),
        (("job.sh",), "#!/bin/sh\n#SBATCH --foo 1\n", "job.sh: line 2: whether --foo takes a value is not known"),
        (("job.sh",), "#!/bin/sh\n" + "a && " * 10_000, "job.sh: its commands stand in each other too deep"),
        (("job.sh",), "#!/bin/sh\n" + "#" * 66_000, "job.sh: it has more than 65536 bytes"),
        (("job.sh",), "#!/bin/sh\r\ntrue\r\n", "job.sh: sbatch takes no lines that end as DOS has them"),
        (("/dev/zero",), "", "/dev/zero: it is a device, not a file; name a batch script"),
        (("/dev/null",), "", "/dev/null: the batch script is empty; name a batch script"),
        (("..",), "", "..: it is a folder, not a file; name a batch script"),
        (("job.sh",), "", "job.sh: the batch script is empty; it begins with a line such as #!/bin/bash"),
        (
            ("job.sh",),
            "\x7fELF\0\0" + "x" * 70_000,
            "job.sh: it is a program, and sbatch takes a batch script; --wrap=",
        ),
        (("job.sh",), "x" * 70_000, 'job.sh: line 1: sbatch takes a script that begins with "#!"'),
        (("--bogus",), "", "unrecognized option --bogus, unless a plugin of the site's has it; no script is named"),
        (("--signal=full:USR1", "job.sh"), SCRIPT, "--signal=full:USR1 on the command line: sbatch takes [R][B]:SIG"),
        (("--signal=USR1@99999", "job.sh"), SCRIPT, "of 65535 s at most"),
        (("job.sh",), "#!/bin/sh\n" + CALLS, "job.sh: it has more than 20000 commands"),
    ],
)
def test_what_it_cannot_judge_ends_with_2(words: tuple[str, ...], text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text(text, newline="")
    ran = run(*words)
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert said in ran.stderr


def test_an_option_that_sbatch_does_not_have_is_named(tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text("#!/bin/sh\n#SBATCH --bogus=1\ntrue\n")
    said = "sbatch refuses --bogus in line 2, unless a plugin of the site's has it"
    assert f"note: {said}" in run("job.sh").stdout
    assert "sbatch refuses" not in run("--parti=x", "--nice=3", "-J", "x", "--wrap=true").stdout


def test_a_configuration_that_is_named_has_to_be_right(tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text(SCRIPT)
    (tmp_path / "own.toml").write_text("mode = 1\n")
    ran = run("--config", "own.toml", "job.sh")
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert "own.toml: mode" in ran.stderr


def test_hostile_text_is_shown_as_text(tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text("#!/bin/bash\n#SBATCH --signal=B:USR1@60\n./x '\x1b[31m[/red]' &\nwait\n")
    assert "\x1b" not in run("job.sh").stdout


def test_a_terminal_of_another_encoding_gets_question_marks_and_the_same_exit_status(tmp_path: Path) -> None:
    # A long command is shortened with a sign that Latin-1 lacks.
    wrapped = f"--wrap=srun python3 train.py --name '5 € für λ' {'--more ' * 20}"
    argv = [sys.executable, "-c", "from tesched_cli.main import main; main()", "check"]
    whole, latin = (
        subprocess.run(
            [*argv, "--open-mode=append", "--signal=USR1", wrapped],
            env={"PYTHONIOENCODING": encoding, "PYTHONUTF8": "1", "HOME": str(tmp_path)},
            capture_output=True,
            check=False,
        )
        for encoding in ("utf-8", "iso8859-1")
    )
    assert (whole.returncode, whole.stderr) == (latin.returncode, latin.stderr) == (0, b"")
    assert "€ für λ" in whole.stdout.decode()
    assert latin.stdout == whole.stdout.decode().encode("iso8859-1", "replace")


@pytest.mark.parametrize("time", ["9" * 5000, f"1-{'9' * 5000}", f"{'9' * 5000}:00"])
def test_a_time_of_very_many_digits_is_refused(tmp_path: Path, time: str) -> None:
    (tmp_path / "job.sh").write_text(SCRIPT)
    (tmp_path / "inside.sh").write_text(f"#!/bin/bash\n#SBATCH --time={time}\ntrue\n")
    for words in ((f"--time={time}", "job.sh"), (f"--time-min={time}", f"--time={time}", "job.sh"), ("inside.sh",)):
        said = run(*words)
        assert (said.exit_code, said.stdout) == (2, "")
        (line,) = said.stderr.splitlines()
        assert "has too many digits" in line
        assert len(line) < 200
