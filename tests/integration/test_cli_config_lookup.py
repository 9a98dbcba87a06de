"""Which configuration a command takes: the one that is named, else the first that is found and can be trusted."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from tesched_cli.main import main
from tesched_daemon import config_lookup
from tesched_db import migrate


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the current folder; HOME and the site's folder are beside it, with nothing in them."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("TESCHED_CONFIG", raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setattr(config_lookup, "DEFAULT_PATH", tmp_path / "etc" / "tesched.toml")
    return tmp_path / "here"


def tesched(*argv: str, **variables: str) -> Result:
    """Run `tesched argv…` in this process."""
    return CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1", **variables}).invoke(main, list(argv))


def write(file: Path, text: str) -> None:
    """Write a file that can be trusted, whatever the umask."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(0o644)


def shown(*argv: str, **variables: str) -> tuple[str, str]:
    """Return the configuration that `config show` names, and what it says has named it."""
    data = json.loads(tesched("config", "show", "--json", *argv, **variables).output)
    first = tesched("config", "show", *argv, **variables).output.splitlines()[0]
    assert first == f"{data['configuration']} ({data['by']})"
    assert data["files"] == [data["configuration"]]
    return data["configuration"], data["by"]


def test_show_says_which_file_it_is_and_what_has_named_it(here: Path) -> None:
    site, own, current = (here.parent / name for name in ("etc/tesched.toml", "own.toml", "here/tesched.toml"))
    home = here.parent / "home" / ".config" / "tesched" / "tesched.toml"
    for file in (site, home, current, own):
        write(file, "")
    assert shown("--config", "../own.toml") == ("../own.toml", "--config")
    assert shown(TESCHED_CONFIG=str(own)) == (str(own), "TESCHED_CONFIG")
    assert shown("--config", str(site), TESCHED_CONFIG=str(own)) == (str(site), "--config")
    assert shown() == (str(current), "the current folder's")
    assert shown(TESCHED_CONFIG="") == (str(current), "the current folder's")
    current.unlink()
    assert shown() == (str(home), "the user's own")
    home.unlink()
    assert shown() == (str(site), "the site's")


def test_every_command_with_a_configuration_says_where_it_was_searched(here: Path) -> None:
    asked = []
    for argv, command in _commands(main, ()):
        # check goes by the defaults then, and says so: a job can be judged by them.
        if not any(parameter.name == "config_path" for parameter in command.params) or argv == ("check",):
            continue
        asked.append(argv)
        said = tesched(*argv, *("1" for one in command.params if isinstance(one, click.Argument)), *_needs(command))
        text = " ".join(said.output.split())
        assert said.exit_code == 2, (argv, said.output)
        for place in (here, here.parent / "home" / ".config" / "tesched", here.parent / "etc"):
            assert str(place / "tesched.toml") in text, argv
        assert "`tesched " in text or "to do: tesched" in text, argv
    assert {("status",), ("undo",), ("daemon",), ("db", "upgrade"), ("config", "show"), ("doctor",)} <= {*asked}


def test_check_without_a_path_takes_the_one_that_is_found(here: Path) -> None:
    assert tesched("config", "check").exit_code == 2
    write(here / "tesched.toml", "mode = 'observe'")
    said = tesched("config", "check")
    assert (said.exit_code, said.output.split(":")[0]) == (0, str(here / "tesched.toml"))
    (here.parent / "named.toml").write_text("")
    said = tesched("config", "check", TESCHED_CONFIG=str(here.parent / "named.toml"))
    assert said.output.startswith(str(here.parent / "named.toml"))


def test_a_command_says_nothing_of_the_file_that_it_found(here: Path) -> None:
    write(here / "tesched.toml", f'[store]\nurl = "sqlite:///{here}/s.sqlite"\n')
    migrate.upgrade(f"sqlite:///{here}/s.sqlite")
    said = tesched("orders")
    assert (said.exit_code, said.stderr) == (0, "")
    assert "tesched.toml" not in said.output


CHANGING = [
    ("pause",),
    ("unpause",),
    ("undo",),
    ("undo", "--json"),
    ("db", "upgrade"),
    ("db", "prune"),
    ("learn", "--forget"),
    ("throughputs", "import", "speeds.csv"),
    ("poke",),
]


@pytest.mark.parametrize("argv", CHANGING, ids=" ".join)
def test_a_command_that_makes_changes_names_the_configuration_that_it_found_here(
    here: Path, argv: tuple[str, ...]
) -> None:
    current, own = here / "tesched.toml", here.parent / "home" / ".config" / "tesched" / "tesched.toml"
    site, named = here.parent / "etc" / "tesched.toml", here.parent / "named.toml"
    # There is no store: it is said before anything is done.
    text = f'[store]\nurl = "sqlite:///{here}/s.sqlite"\n[loop]\nsocket = ""\n'
    (here / "speeds.csv").write_text("workload,accelerator,steps_per_s\na,b,1\n")
    for file in (current, own, site, named):
        write(file, text)

    def first(*more: str, **variables: str) -> str:
        return tesched(*argv, *more, **variables).stderr.partition("\n")[0]

    assert first() == f"configuration: {current} (the current folder's)"
    assert "configuration:" not in tesched(*argv, "--config", str(named)).stderr
    assert "configuration:" not in tesched(*argv, TESCHED_CONFIG=str(current)).stderr
    current.unlink()
    assert first() == f"configuration: {own} (the user's own)"
    own.unlink()
    assert "configuration:" not in tesched(*argv).stderr, "that is the site's"


def test_a_pause_where_no_daemon_lives_says_so(here: Path) -> None:
    write(here.parent / "etc" / "tesched.toml", f'[store]\nurl = "sqlite:///{here}/s.sqlite"\n')
    migrate.upgrade(f"sqlite:///{here}/s.sqlite")
    said = tesched("pause", "--json")
    assert json.loads(said.stdout)["pause"]
    why = "NOT RUNNING: no daemon has ever run on this store"
    assert said.stderr == f"no daemon lives on this store ({why}); `tesched config show` says which store is meant\n"
    assert said.exit_code == 0


def test_doctor_has_a_distrusted_file_tried_again_as_it_was_found(here: Path) -> None:
    write(here / "tesched.toml", "")
    (here / "tesched.toml").chmod(0o666)
    assert "`tesched config check` tries it again" in " ".join(tesched("doctor").output.split())
    assert tesched("config", "check").exit_code == 2
    (here / "bad.toml").write_text("bad")
    said = " ".join(tesched("doctor", "--config", "bad.toml").output.split())
    assert "`tesched config check bad.toml` tries it again" in said


@pytest.mark.parametrize("argv", [("undo",), ("daemon", "--once"), ("status",), ("config", "check"), ("db", "upgrade")])
def test_another_users_file_in_the_current_folder_is_refused(
    here: Path, monkeypatch: pytest.MonkeyPatch, argv: tuple[str, ...]
) -> None:
    (here.parent / "etc").mkdir()
    (here.parent / "etc" / "tesched.toml").write_text("")
    write(here / "tesched.toml", f'[store]\nurl = "sqlite:///{here}/s.sqlite"\n')
    (here / "tesched.toml").chmod(0o644)
    if os.geteuid() == 0:
        os.chown(here / "tesched.toml", 65534, 65534)
    else:
        another = os.geteuid() + 1
        monkeypatch.setattr(os, "geteuid", lambda: another)
    said = tesched(*argv)
    assert said.exit_code == 2
    assert f"{here / 'tesched.toml'}: not used, since it belongs to " in said.stderr
    assert "; name the configuration that is meant by --config FILE" in said.stderr
    assert [path.name for path in here.iterdir()] == ["tesched.toml"]


def _commands(command: click.Command, path: tuple[str, ...]) -> list[tuple[tuple[str, ...], click.Command]]:
    if not isinstance(command, click.Group):
        return [(path, command)]
    context = click.Context(command)
    inner = [(name, command.get_command(context, name)) for name in command.list_commands(context)]
    return [one for name, each in inner if each is not None for one in _commands(each, (*path, name))]


def _needs(command: click.Command) -> list[str]:
    """Return the options without which the command cannot be run."""
    needed = [one for one in command.params if one.required and isinstance(one, click.Option)]
    return [word for one in needed for word in (one.opts[0], "1")]
