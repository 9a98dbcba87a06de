"""What is said of a configuration beyond its form: another file at the daemon's paths, a bound that is not kept."""

from __future__ import annotations

import errno
import grp
import os
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tesched_cli.main import main
from tesched_core.model.limits import Limits
from tesched_daemon import own_file
from tesched_daemon.config import load, load_files
from tesched_daemon.config_checks import remarks
from tesched_daemon.config_errors import ConfigError
from tesched_daemon.doctor.doctor import examine
from tesched_daemon.doctor.finding import Severity
from tesched_daemon.reload import Reloader
from tesched_daemon.wiring import run
from tesched_slurm.commands_actuator import DryRunActuator

from tests.unit.daemon.test_config_reload import Site
from tests.unit.daemon.test_own_file import OTHERS, as_it_is

TE = '[[classes.rules]]\nname = "t"\njob_class = "te"\nmatch = { max_time_limit_s = 60 }\n'
BOUND = "[guard.bound]\nslowdown = 3\nte_time_limit_s = 60\n"
SHADOW = 'guard.bound: it is measured, not enforced: in mode shadow no TE job is held; set mode = "enforce"'
NO_TE = "guard.bound: no rule makes a job trial and error: nothing is held, and nothing is bounded; write a rule with"
PLUGIN = (
    'guard.bound: with guard.lever = "plugin" it is kept by marks alone between two polls: a TE job that Slurm admits '
    'by then is not held; set guard.lever = "requeue" or "auto"'
)


SLOW = (
    "guard.bound: it counts on a poll each 5 s (loop.backoff_max_s), and two commands of Slurm's one after the other "
    "may take 6 s (slurm.timeout_s, twice); let loop.backoff_max_s be no shorter than that"
)

#: a group of no user's here
GROUP = 65534
NOGROUP = grp.getgrgid(GROUP).gr_name


def check(path: Path) -> Result:
    """Run `tesched config check`."""
    return CliRunner(env={"NO_COLOR": "1"}).invoke(main, ["config", "check", str(path)])


@pytest.mark.parametrize("key", ["marks", "admission"])
@pytest.mark.parametrize("other", OTHERS)
def test_another_file_at_the_daemons_path_is_refused(tmp_path: Path, other: str, key: str) -> None:
    config, path = tmp_path / "tesched.toml", tmp_path / "path"
    config.write_text(f'[slurm]\n{key} = "{path}"\n')
    make, why = OTHERS[other]
    make(path)
    before = as_it_is(path)
    said = check(config)
    assert said.exit_code == 2
    start = f"{config}: slurm.{key}: {path}: {why}"
    assert said.stderr.startswith(f"Error: {start}")
    assert said.stderr.endswith(f'; name a path where there is nothing, such as "/run/tesched/{key}"\n')
    with pytest.raises(ConfigError, match=re.escape(start)):
        run(config, once=True)
    finding = next(one for one in examine(config) if one.level is Severity.FAIL)
    assert finding.text.startswith(start)
    assert as_it_is(path) == before


@pytest.mark.parametrize("key", ["marks", "admission"])
@pytest.mark.parametrize("name", ["tesched.toml", "conf.d/50-site.toml"])
def test_the_configuration_itself_is_refused_though_it_may_be_empty(tmp_path: Path, name: str, key: str) -> None:
    config = tmp_path / "tesched.toml"
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "50-site.toml").touch()
    (tmp_path / "conf.d" / "60-site.toml").write_text(f'[slurm]\n{key} = "{tmp_path / name}"\n')
    config.touch()
    said = check(config)
    assert said.exit_code == 2
    assert f"slurm.{key}: {tmp_path / name}: it is a file of the configuration" in said.stderr


@pytest.mark.parametrize("key", ["marks", "admission"])
def test_a_path_below_a_file_is_refused(tmp_path: Path, key: str) -> None:
    config = tmp_path / "tesched.toml"
    config.write_text(f'[slurm]\n{key} = "{config}/x"\n')
    said = check(config)
    assert (said.exit_code, "it is below a file, which has to be a folder" in said.stderr) == (2, True)


@pytest.mark.parametrize("key", ["marks", "admission"])
@pytest.mark.parametrize(
    ("path", "why"), [("loop/x", "Too many levels of symbolic links"), ("x" * 256, "File name too long")]
)
def test_a_path_that_cannot_be_checked_is_refused(tmp_path: Path, path: str, why: str, key: str) -> None:
    site = Site(path=tmp_path / "tesched.toml")
    (tmp_path / "loop").symlink_to("loop")
    text = f'[slurm]\n{key} = "{tmp_path}/{path}"\n'
    said = site.reload(text)
    start = f"{site.path}: slurm.{key}: {tmp_path}/{path}: it cannot be examined: {why}; name a path"
    assert said.startswith(f"the configuration is not reloaded: {start}")
    assert check(site.path).stderr.startswith(f"Error: {start}")
    assert any(one.text in start for one in examine(site.path) if one.level is Severity.FAIL)


@pytest.mark.parametrize("key", ["marks", "admission"])
@pytest.mark.parametrize(
    ("error", "why"),
    [
        (OSError(errno.EIO, "Input/output error"), "it cannot be examined: Input/output error"),
        (OSError(errno.ESTALE, "Stale file handle"), "it cannot be examined: Stale file handle"),
        (FileNotFoundError(errno.ENOENT, "No such file or directory"), ""),
        (PermissionError(errno.EACCES, "Permission denied"), ""),
    ],
)
def test_whatever_the_system_says_of_an_own_file_is_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, error: OSError, why: str
) -> None:
    def fails(path: Path, most: int) -> bytes:
        raise error

    (tmp_path / key).write_text("")
    config = tmp_path / "tesched.toml"
    config.write_text(f'[slurm]\n{key} = "{tmp_path}/{key}"\n')
    monkeypatch.setattr(own_file, "beginning", fails)
    said = check(config)
    assert said.exit_code == (2 if why else 0)
    assert why in said.stderr


@pytest.mark.parametrize("key", ["marks", "admission"])
def test_what_stands_where_the_new_file_is_written_is_refused_and_an_older_link_is_not(
    tmp_path: Path, key: str
) -> None:
    config, beside = tmp_path / "tesched.toml", tmp_path / ".path.new"
    config.write_text(f'[slurm]\n{key} = "{tmp_path}/path"\n')
    beside.write_bytes(b"\0" * 100)
    said = check(config)
    assert (said.exit_code, f"slurm.{key}: {beside}: it is another file" in said.stderr) == (2, True), said.output
    beside.unlink()
    beside.symlink_to("nowhere")
    assert check(config).exit_code == 0


@pytest.mark.parametrize("key", ["marks", "admission"])
def test_a_device_is_refused(tmp_path: Path, key: str) -> None:
    config = tmp_path / "tesched.toml"
    config.write_text(f'[slurm]\n{key} = "/dev/null"\n')
    said = check(config)
    assert (said.exit_code, f"slurm.{key}: /dev/null: it is a device" in said.stderr) == (2, True)


def test_the_store_is_known_by_a_relative_path_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = tmp_path / "tesched.toml"
    config.write_text(f'[store]\nurl = "sqlite:///s"\n[slurm]\nmarks = "{tmp_path}/s-wal"\n')
    said = check(config)
    assert (said.exit_code, "slurm.marks: must be another file than store.url" in said.stderr) == (2, True), said.output


def test_a_path_without_a_file_and_its_own_files_are_taken(tmp_path: Path) -> None:
    config = tmp_path / "tesched.toml"
    config.write_text(f'[slurm]\nmarks = "{tmp_path}/marks"\nadmission = "{tmp_path}/no/admission"\n')
    assert check(config).exit_code == 0
    (tmp_path / "marks").write_text("tesched-marks 1\nend 0\n")
    assert check(config).exit_code == 0


def test_a_reload_refuses_another_file(tmp_path: Path) -> None:
    site = Site(path=tmp_path / "tesched.toml")
    said = site.reload(f'[slurm]\nmarks = "{site.path}"\n[guard]\ncool_down_s = 7\n')
    assert said.startswith(f"the configuration is not reloaded: {site.path}: slurm.marks: {site.path}: it is a file of")
    assert site.loop.limits != Limits(cool_down_s=7)


@pytest.mark.parametrize(
    ("text", "warnings"),
    [
        (TE + BOUND, [SHADOW]),
        ('mode = "observe"\n' + TE + BOUND, [SHADOW.replace("shadow", "observe")]),
        ('mode = "enforce"\n' + TE + BOUND, []),
        ('mode = "enforce"\n' + BOUND, [NO_TE]),
        ('mode = "enforce"\n' + BOUND + '[guard]\nlever = "plugin"\n' + TE, [PLUGIN]),
        ('mode = "enforce"\n' + BOUND + '[guard]\nlever = "auto"\n' + TE, []),
        ('mode = "enforce"\n' + BOUND + "[loop]\nbackoff_max_s = 5\n[slurm]\ntimeout_s = 3\n" + TE, [SLOW]),
        ('mode = "enforce"\n' + BOUND + "[loop]\nbackoff_max_s = 5\n[slurm]\ntimeout_s = 2.5\n" + TE, []),
        ("[guard.te]\nmax_running_per_user = 1\n" + TE, [SHADOW.replace("bound", "te")]),
        (TE, []),
        ("", []),
    ],
)
def test_a_bound_that_is_not_kept_is_a_warning_that_names_file_and_key(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str, warnings: list[str]
) -> None:
    config = tmp_path / "tesched.toml"
    config.write_text(text)
    said = check(config)
    assert said.exit_code == 0, "it can be used"
    assert ": good (" in said.stdout
    lines = said.stderr.splitlines()
    assert len(lines) == len(warnings)
    for line, warning in zip(lines, warnings, strict=True):
        assert line.startswith(f"Warning: {config}: {warning}")
    found = [one for one in examine(config) if one.level is Severity.WARN and f"{config}: guard." in one.text]
    assert [f"{one.text}; {one.advice}" for one in found] == [line.removeprefix("Warning: ") for line in lines]
    site = Site(path=config)
    config.write_text(text)
    Reloader(path=config, running=load(config), actuator=DryRunActuator()).reload(site.loop)
    assert [line.removeprefix("Warning: ") in caplog.text for line in lines] == [True] * len(lines)


@pytest.mark.parametrize(
    ("listen", "is_open"),
    [
        ("", False),
        ("127.0.0.1:9817", False),
        ("[::1]:9817", False),
        ("localhost:9817", False),
        ("/run/tesched/metrics.sock", False),
        ("0.0.0.0:9817", True),
        ("10.1.2.3:9817", True),
        ("login1:9817", True),
    ],
)
def test_metrics_that_others_than_this_host_may_read_are_a_warning(tmp_path: Path, listen: str, is_open: bool) -> None:
    config = tmp_path / "tesched.toml"
    config.write_text(f'[metrics]\nlisten = "{listen}"\n')
    said = check(config)
    assert said.exit_code == 0
    warned = f"Warning: {config}: metrics.listen: whatever reaches {listen} may read the metrics"
    assert said.stderr.startswith(warned) == is_open
    assert bool(said.stderr) == is_open


@pytest.mark.parametrize("key", ["metrics.listen", "reports.socket"])
@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("missing/a.sock", "there is no folder {}/missing"),
        ("tesched.toml/a.sock", "{}/tesched.toml is no folder"),
        ("tesched.toml", "it is a file, where a socket is to be"),
        ("conf.d", "it is a folder, where a socket is to be"),
    ],
)
def test_a_socket_that_has_no_place_is_refused(tmp_path: Path, key: str, place: str, why: str) -> None:
    config, path = tmp_path / "tesched.toml", tmp_path / place
    (tmp_path / "conf.d").mkdir()
    table, _, name = key.partition(".")
    config.write_text(f'[{table}]\n{name} = "{path}"\n')
    said = check(config)
    assert said.exit_code == 2
    right = f'name a path in a folder that is there, such as "/run/tesched/{path.name}"'
    assert said.stderr == f"Error: {config}: {key}: {path}: {why.format(tmp_path)}; {right}\n"
    finding = next(one for one in examine(config) if one.level is Severity.FAIL)
    assert finding.advice == right


@pytest.mark.parametrize("listen", ["/run/tesched/metrics.sock", "{}/a.sock", "127.0.0.1:9817", ""])
def test_a_socket_that_has_a_place_is_good(tmp_path: Path, listen: str) -> None:
    config = tmp_path / "tesched.toml"
    config.write_text(f'[metrics]\nlisten = "{listen.format(tmp_path)}"\n')
    assert (check(config).exit_code, check(config).stderr) == (0, "")


@pytest.mark.parametrize(
    ("guard", "why"),
    [
        ("[guard.te]\nmax_running_per_user = 1\n", "guard.te"),
        (BOUND, "guard.bound"),
        ('[guard]\nlever = "plugin"\n', 'guard.lever = "plugin"'),
        ('[policy]\nbe = "fill"\n', "policy.be"),
        ('[slurm]\nclient = "pyslurm"\n', 'slurm.client = "pyslurm"'),
        ('[guard]\nlever = "plugin"\n[policy]\nbe = "fill"\n', 'guard.lever = "plugin", policy.be'),
        ('[policy]\nte = "patient"\n[guard]\nlever = "requeue"\n[slurm]\nclient = "commands"\n', ""),
        ("", ""),
    ],
)
def test_early_turns_that_never_come_are_a_warning(tmp_path: Path, guard: str, why: str) -> None:
    config = tmp_path / "tesched.toml"
    config.write_text('mode = "enforce"\n[loop]\nearly_turn = true\n' + guard + TE)
    said = check(config)
    assert said.exit_code == 0
    line = f"Warning: {config}: loop.early_turn: no early turn comes, because of {why}: "
    assert (line in said.stderr) is bool(why)
    assert bool(said.stderr) is bool(why)
    config.write_text(config.read_text().replace("early_turn = true\n", ""))
    assert "early_turn" not in check(config).stderr


def test_early_turns_that_never_come_in_mode_observe_are_a_warning_and_no_site_is_warned_of_a_default(
    tmp_path: Path,
) -> None:
    config = tmp_path / "tesched.toml"
    config.write_text('mode = "observe"\n[loop]\nearly_turn = true\n')
    assert 'no early turn comes, because of mode = "observe": ' in check(config).stderr
    loaded = load_files(config)
    assert [one.key for one in remarks(loaded)] == ["loop.early_turn"]
    del loaded.tree.origins["loop.early_turn"]
    assert not [*remarks(loaded)]


@pytest.fixture
def group_folder(tmp_path: Path) -> Path:
    """Return a folder as /etc/tesched is: root's, for the daemon's group alone, with conf.d in it."""
    assert os.geteuid() == 0, "only root can run this test: it changes the group of files"
    folder = tmp_path / "etc"
    (folder / "conf.d").mkdir(parents=True)
    for path in (folder, folder / "conf.d"):
        os.chown(path, 0, GROUP)
        path.chmod(0o750)
    for path in (folder / "tesched.toml", folder / "conf.d" / "50-site.toml"):
        path.write_text("")
        os.chown(path, 0, GROUP)
        path.chmod(0o640)
    return folder


@pytest.mark.parametrize(
    ("name", "of", "mode", "warned"),
    [
        ("tesched.toml", (0, GROUP), 0o640, False),
        ("tesched.toml", (0, 0), 0o644, False),
        ("tesched.toml", (0, 0), 0o640, True),
        ("tesched.toml", (0, GROUP), 0o600, True),
        # It may be the daemon's own.
        ("tesched.toml", (GROUP, 0), 0o600, False),
        ("conf.d/50-site.toml", (0, 0), 0o600, True),
        ("conf.d/50-site.toml", (0, 0), 0o604, False),
        ("conf.d", (0, 0), 0o750, True),
        ("conf.d", (0, GROUP), 0o740, True),
        ("conf.d", (0, 0), 0o755, False),
    ],
)
def test_a_file_that_root_alone_may_read_is_a_warning_where_the_folder_is_for_a_group(
    group_folder: Path, name: str, of: tuple[int, int], mode: int, warned: bool
) -> None:
    path, config = group_folder / name, group_folder / "tesched.toml"
    os.chown(path, *of)
    path.chmod(mode)
    said = check(config)
    text = f"{path}: the group {NOGROUP} may not read it, as it may {group_folder}: a daemon that is in it cannot start"
    advice = f"chgrp {NOGROUP} {path}; chmod {'g+rx' if path.is_dir() else 'g+r'} {path}"
    assert said.exit_code == 0, said.output
    assert said.stderr == f"Warning: {text}; {advice}\n" * warned
    found = [(one.level, one.text, one.advice) for one in examine(config) if str(path) in one.text and one.advice]
    assert [one for one in found if one[1].startswith(f"{path}: ")] == [(Severity.WARN, text, advice)] * warned


def test_a_right_by_an_access_list_is_left_to_the_daemon(group_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = group_folder / "tesched.toml"
    os.chown(config, 0, 0)
    assert check(config).stderr.startswith("Warning: ")
    monkeypatch.setattr(os, "listxattr", lambda _path: ["system.posix_acl_access"])
    assert check(config).stderr == ""


def test_a_folder_of_roots_own_group_is_for_a_daemon_that_runs_as_root(group_folder: Path) -> None:
    config = group_folder / "tesched.toml"
    for path in (group_folder, config):
        os.chown(path, 0, 0)
    config.chmod(0o600)
    assert check(config).stderr == ""


def test_only_root_is_warned_of_files_that_the_daemon_cannot_read(
    group_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The daemon has read them, or has said that it cannot.
    os.chown(group_folder / "tesched.toml", 0, 0)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert check(group_folder / "tesched.toml").stderr == ""


@pytest.mark.parametrize(
    ("match", "limits", "says", "warned"),
    [
        ('partitions = ["debug"]', "[guard.te]\nmax_running_per_user = 1\n", "true", True),
        ('qos = ["debug"]', "[guard.te]\nmax_running_per_user = 1\n", "true", True),
        ('partitions = ["debug"]', BOUND, "true", True),
        ('partitions = ["debug"]', "[guard.te]\nmax_running_per_user = 1\n", "false", False),
        ('partitions = ["debug"]', "", "true", False),
        ('names = ["debug"]', "[guard.te]\nmax_running_per_user = 1\n", "true", False),
    ],
)
def test_a_job_that_a_place_made_te_may_leave_the_limits_by_its_users_word(
    tmp_path: Path, match: str, limits: str, says: str, warned: bool
) -> None:
    config = tmp_path / "tesched.toml"
    rule = f'[[classes.rules]]\nname = "t"\njob_class = "te"\nmatch = {{ max_time_limit_s = 60, {match} }}\n'
    config.write_text(f'mode = "enforce"\n{rule}[classes.user_word]\nmay_say_be = {says}\n{limits}')
    found = [one.key for one in remarks(load_files(config))]
    assert ("classes.user_word.may_say_be" in found) is warned
