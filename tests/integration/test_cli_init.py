"""`tesched init`: a folder with all that a first try needs, or nothing at all."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tesched_cli.main import main
from tesched_daemon import config_trust, file_systems
from tesched_db import migrate
from tesched_db.engine import SCHEMA
from tesched_db.errors import StoreError


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give an empty current folder."""
    folder = tmp_path / "try"
    folder.mkdir(mode=0o755)
    monkeypatch.chdir(folder)
    monkeypatch.delenv("TESCHED_CONFIG", raising=False)
    (tmp_path / "slurm.conf").write_text("")
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    return folder


def tesched(*argv: str, **variables: str) -> Result:
    """Run `tesched argv…` in this process."""
    return CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1", **variables}).invoke(main, list(argv))


def test_it_makes_a_configuration_and_a_store_which_the_commands_find(here: Path) -> None:
    said = tesched("init")
    assert (said.exit_code, said.stderr) == (0, "")
    assert said.stdout.splitlines() == [
        f"made {here}/tesched.toml: mode shadow, slurm.conf {here.parent}/slurm.conf",
        f"made {here}/tesched.sqlite: the state store",
        "next: tesched doctor",
    ]
    assert {path.name for path in here.iterdir()} == {"tesched.toml", "tesched.sqlite"}
    assert [(path.stat().st_mode & 0o777) | 0o040 for path in sorted(here.iterdir())] == [0o640, 0o640]
    checked = tesched("config", "check")
    assert checked.output == f"{here}/tesched.toml: good (mode shadow, policy fitgpp, 1 rule(s))\n"
    assert tesched("db", "current").output == f"{SCHEMA}\n"
    assert tesched("status").exit_code == 3  # no daemon runs


def test_it_says_that_the_environment_names_another_configuration(here: Path) -> None:
    said = tesched("init", TESCHED_CONFIG="/elsewhere.toml")
    assert (said.exit_code, said.stderr) == (
        0,
        "unset TESCHED_CONFIG: it names another configuration, /elsewhere.toml\n",
    )
    assert (here / "tesched.toml").exists()


@pytest.mark.parametrize(
    "name", ["tesched.toml", "tesched.sqlite", "tesched.sqlite-wal", "conf.d", "marks", "admission"]
)
def test_nothing_is_overwritten(here: Path, name: str) -> None:
    (here / name).symlink_to("nowhere")
    said = tesched("init")
    assert (said.exit_code, said.stdout) == (2, "")
    assert f"{here}/{name} is there already, and nothing is overwritten" in said.stderr
    assert [path.name for path in here.iterdir()] == [name]
    assert (here / name).readlink() == Path("nowhere")


def test_a_second_time_it_leaves_what_is_there(here: Path) -> None:
    tesched("init")
    before = {path: path.read_bytes() for path in here.iterdir()}
    assert tesched("init").exit_code == 2
    assert {path: path.read_bytes() for path in here.iterdir()} == before


@pytest.mark.parametrize("error", [StoreError("no store; mend it"), KeyboardInterrupt(), OSError(28, "No space left")])
def test_where_a_step_fails_nothing_is_left(here: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def fails(url: str) -> str:
        really(url)
        (here / "tesched.sqlite-wal").write_text("")
        raise error

    really = migrate.upgrade
    monkeypatch.setattr(migrate, "upgrade", fails)
    assert tesched("init").exit_code == (1 if isinstance(error, KeyboardInterrupt) else 2)
    assert [*here.iterdir()] == []


@pytest.mark.parametrize(("name", "why"), [("\udcff", "no UTF-8"), ("a\x7fb", "no configuration can")])
def test_a_slurm_conf_that_no_configuration_can_name_is_an_error_of_its_own(here: Path, name: str, why: str) -> None:
    odd = Path(f"{here.parent}/{name}")
    odd.write_text("")
    said = tesched("init", SLURM_CONF=str(odd))
    assert (said.exit_code, "Error: SLURM_CONF names " in said.stderr, why in said.stderr) == (2, True, True), (
        said.stderr
    )
    assert [*here.iterdir()] == []


def test_a_network_s_file_system_is_reported(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = here.parent / "mounts"
    mounts.write_text(f"server:/x {here} beegfs rw 0 0\n")
    monkeypatch.setattr(file_systems, "MOUNTS", mounts)
    said = tesched("init")
    assert said.exit_code == 0
    assert said.stderr.startswith(f"{here} is on a network's file system (beegfs), where a state store in SQLite")
    assert "do it in a folder on a local disk" in said.stderr


def test_a_slurm_conf_that_does_not_exist_is_an_error(here: Path) -> None:
    said = tesched("init", SLURM_CONF="/no/such/slurm.conf")
    assert said.exit_code == 2
    assert "SLURM_CONF names /no/such/slurm.conf" in said.stderr
    assert [*here.iterdir()] == []


def test_a_folder_that_every_user_may_write_to_is_no_place_for_it(here: Path) -> None:
    here.chmod(0o1777)
    said = tesched("init")
    assert said.exit_code == 2
    assert "every user may write to it; make a folder of your own" in said.stderr
    assert "mkdir -m 700 ~/tesched" in said.stderr
    assert [*here.iterdir()] == []


@pytest.mark.parametrize("mode", [0o775, 0o777])
def test_a_new_folder_that_others_may_write_to_is_mended_by_the_advice(
    here: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    # A umask of 002, and a group that has other members: mkdir makes such a folder at home, too.
    monkeypatch.setattr(config_trust, "_is_private", lambda *_: False)
    odd = here / "a try"
    odd.mkdir()
    odd.chmod(mode)
    monkeypatch.chdir(odd)
    said = tesched("init")
    assert said.exit_code == 2
    advice = f"chmod go-w '{odd}'"
    assert said.stderr.rstrip().endswith(f"may write to it; say {advice}")
    subprocess.run(["/bin/sh", "-c", advice], check=True)
    assert tesched("init").exit_code == 0


def test_a_folder_of_another_user_is_no_place_for_it(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    us = os.geteuid() + 1000
    monkeypatch.setattr(os, "geteuid", lambda: us)
    monkeypatch.setattr(config_trust, "_is_private", lambda *_: False)
    here.chmod(0o775)
    said = tesched("init")
    assert said.exit_code == 2
    assert said.stderr.rstrip().endswith("make a folder of your own: mkdir -m 700 ~/tesched; cd ~/tesched")


@pytest.mark.parametrize("name", ["what?", "a\x7fb"])
def test_a_folder_that_no_url_can_name_is_refused(here: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    odd = here / name
    odd.mkdir(mode=0o755)
    monkeypatch.chdir(odd)
    said = tesched("init")
    assert (said.exit_code, "take one with a plain name" in said.stderr) == (2, True), said.output
    assert [*odd.iterdir()] == []


def test_a_folder_that_is_gone_is_an_error(here: Path) -> None:
    here.rmdir()
    said = tesched("init")
    assert (said.exit_code, said.stderr.splitlines()[-1]) == (
        2,
        "Error: the current folder: No such file or directory; nothing was made",
    )


@pytest.mark.parametrize("argv", [("daemon", "--once"), ("status",), ("db", "upgrade")])
def test_a_store_in_a_missing_folder_is_reported_with_what_to_do(here: Path, argv: tuple[str, ...]) -> None:
    (here / "tesched.toml").write_text(f'[store]\nurl = "sqlite:///{here}/missing/s.sqlite"\n')
    said = tesched(*argv)
    assert said.exit_code == 2
    assert f"directory {here}/missing does not exist; create it first, or name another in store.url" in said.stderr


def test_a_missing_store_is_reported_with_what_makes_one(here: Path) -> None:
    (here / "tesched.toml").write_text(f'[store]\nurl = "sqlite:///{here}/s.sqlite"\n')
    said = tesched("status")
    assert (said.exit_code, "`tesched db upgrade` makes one" in said.stderr) == (2, True)
