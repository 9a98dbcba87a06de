"""`tesched ask` as it is typed: what it says of what it can't answer, without a Slurm that answers."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tesched_cli.main import main
from tesched_db import migrate


def run(*words: str, stdin: str | bytes = "") -> Result:
    return CliRunner().invoke(main, ["ask", *words], input=stdin)


@pytest.fixture(autouse=True)
def _site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Give a configuration and a store, and let no Slurm of this host answer."""
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tesched.toml").write_text(
        f'[store]\nurl = "sqlite:///{tmp_path}/store.sqlite"\n[slurm]\nclient = "commands"\n'
    )
    (tmp_path / "tesched.toml").chmod(0o600)
    migrate.upgrade(f"sqlite:///{tmp_path}/store.sqlite")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "job.sh: No such file or directory"),
        (b"", "job.sh: the batch script is empty; it begins with a line such as #!/bin/bash"),
        (b"echo\n", 'job.sh: line 1: sbatch takes a script that begins with "#!"'),
        (b"\x7fELF\0\0", "job.sh: it is a program, and sbatch takes a batch script; "),
        (b"#!/bin/sh\n\0\n", "job.sh: it is no text"),
        (b"#!/bin/sh\r\ntrue\r\n", "job.sh: sbatch takes no lines that end as DOS has them"),
        (b"#!/bin/sh\n" + b"#" * 4_194_304, "job.sh: it has more than 4194304 bytes"),
        # tesched check parses no longer one than 65,536 bytes.
        (b"#!/bin/sh\n" + b"#" * 70_000, "Slurm cannot be seen"),
        (b"#!/bin/sh\n#SBATCH --site x\n", "job.sh: line 2: whether --site takes a value is not known"),
        (b"#!/bin/sh\n#SBATCH -Z\n", "job.sh: line 2: sbatch has no option -Z"),
        (b"#!/bin/sh\n#SBATCH --signal=USR1@99999\n", "Slurm cannot be seen"),
        (b"#!/bin/sh\n\xff\xfe\x1b[31m\n", "Slurm cannot be seen: "),
    ],
)
def test_an_error_is_one_line_that_names_what_is_wrong(tmp_path: Path, text: bytes | None, why: str) -> None:
    if text is not None:
        (tmp_path / "job.sh").write_bytes(text)
    said = run("job.sh")
    assert (said.exit_code, said.stdout) == (2, "")
    assert why in said.stderr
    assert said.stderr.startswith("Error: ")
    assert said.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--bogus",), "unrecognized option --bogus, unless a plugin of the site's has it; no script is named: "),
        (("/bin/true",), "/bin/true: it is a program, and sbatch takes a batch script; --wrap="),
        ((), "no script is named: tesched ask [SBATCH_OPTION]... SCRIPT"),
        (("--wrap=true", "job.sh"), "--wrap and a script, job.sh: name one of them"),
        (("--site", "x"), "whether --site takes a value is not known"),
        (("-Z",), "sbatch has no option -Z"),
        (("/",), "/: it is a folder, not a file; name a batch script"),
        (("--usage", "--wrap=true"), "--usage: with it sbatch submits nothing"),
        (("a\0b",), "embedded null byte"),
    ],
)
def test_words_that_sbatch_would_not_take_are_named(words: tuple[str, ...], why: str) -> None:
    said = run(*words)
    assert (said.exit_code, said.stdout) == (2, "")
    assert why in said.stderr


def test_a_store_that_is_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "store.sqlite").unlink()
    said = run("--wrap=true")
    assert said.exit_code == 2
    assert "store.sqlite" in said.stderr


def test_help_has_a_short_and_a_long_option() -> None:
    for word in ("--help", "-h"):
        said = run(word)
        assert said.exit_code == 0
        assert "Nothing is submitted" in said.stdout
