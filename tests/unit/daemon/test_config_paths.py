"""Paths of a configuration at which nothing is found: a warning at each check, and the daemon goes on."""

from __future__ import annotations

from pathlib import Path

import pytest
from tesched_core.model.journal_error import JournalError
from tesched_daemon.doctor.doctor import examine
from tesched_daemon.doctor.finding import Severity
from tesched_daemon.wiring import run

from tests.unit.daemon.test_config_checks import check


@pytest.mark.parametrize(
    ("key", "value", "why", "follows"),
    [
        ("slurm.conf", '"{}/no.conf"', "there is no {}/no.conf", "each command of Slurm's fails, after a wait"),
        ("slurm.conf", '"{}/conf.d"', "{}/conf.d: Is a directory", "each command"),
        ("slurm.conf", '"{}/tesched.toml/a"', "{}/tesched.toml/a: Not a directory", "each command"),
        ("slurm.marks", '"{}/no/marks"', "{}/no/marks: there is no folder {}/no", "no job can be marked"),
        ("slurm.admission", '"{}/no/a"', "{}/no/a: there is no folder {}/no", "the submission hook holds no job"),
        ("loop.socket", '"{}/no/s"', "{}/no/s: there is no folder {}/no", "no job is seen before the next poll"),
        ("loop.socket", '"{}/conf.d"', "{}/conf.d: it is a folder, where a socket is to be", "no job is seen"),
        ("idle.file", '"{}/no/idle"', "{}/no/idle: there is no folder {}/no", "no job counts as idle"),
        ("idle.file", '"{}/tesched.toml/a"', "{}/tesched.toml/a: {}/tesched.toml is no folder", "no job counts"),
        ("tell.command", '["{}/no", "-x"]', "{}/no: No such file or directory", "no user is notified by it"),
        ("tell.command", '["{}/conf.d"]', "{}/conf.d: it is a folder, where a program is to be", "no user"),
        ("tell.command", '["{}/tesched.toml"]', "{}/tesched.toml: it is not executable", "no user is notified"),
    ],
)
def test_a_path_at_which_the_daemon_finds_nothing_is_a_warning_at_its_start_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, *, key: str, value: str, why: str, follows: str
) -> None:
    config, here = tmp_path / "tesched.toml", str(tmp_path)
    (tmp_path / "conf.d").mkdir()
    table, _, name = key.partition(".")
    config.write_text(
        f'[store]\nurl = "sqlite:///{tmp_path}/no/store"\n[{table}]\n{name} = {value.replace("{}", here)}\n'
    )
    why = why.replace("{}", here)
    said = check(config)
    warning = f"{config}: {key}: {why}: {follows}"
    assert (said.exit_code, said.stderr.count("\n")) == (0, 1), said.output
    assert said.stderr.startswith(f"Warning: {warning}")
    # Before anything else is waited for, such as the store.
    with pytest.raises(JournalError, match="does not exist"):
        run(config, once=True)
    assert [line for line in caplog.messages if line.startswith(warning)]
    level = Severity.FAIL if key == "slurm.conf" else Severity.WARN
    assert [one.level for one in examine(config) if why in one.text] == [level]


def test_paths_at_which_the_daemon_finds_what_it_needs_are_no_warning(tmp_path: Path) -> None:
    config, program = tmp_path / "tesched.toml", tmp_path / "notify"
    program.touch(0o750)
    config.write_text(
        f'[slurm]\nconf = "{config}"\nmarks = "{tmp_path}/marks"\nadmission = "/run/tesched/admission"\n'
        f'[loop]\nsocket = "/run/tesched/s"\n[idle]\nfile = "{tmp_path}/idle"\n[tell]\ncommand = ["{program}", "-x"]\n'
    )
    assert (check(config).exit_code, check(config).stderr) == (0, "")
