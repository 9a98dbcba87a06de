"""Where an unnamed configuration is searched for, which file counts, and which is refused."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from pathlib import Path

import pytest
from tesched_daemon import config_lookup, config_trust
from tesched_daemon.config import load, load_files
from tesched_daemon.config_errors import ConfigError
from tesched_daemon.config_files import DEFAULT_PATH
from tesched_daemon.config_lookup import places, search
from tesched_daemon.config_trust import SearchedPath, distrusted
from tesched_daemon.settings import Mode

ME = os.geteuid()
FILE = stat.S_IFREG


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the current folder; beside it are the user's folder, `home`, and the site's, `etc`, without a file."""
    for name in ("here", "home/.config/tesched", "etc"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(config_lookup, "DEFAULT_PATH", tmp_path / "etc" / "tesched.toml")
    return tmp_path / "here"


def home(here: Path) -> dict[str, str]:
    """Return an environment with that home."""
    return {"HOME": str(here.parent / "home")}


def test_the_current_folder_comes_before_the_users_own_and_that_before_the_sites(here: Path) -> None:
    files = [
        here / "tesched.toml",
        here.parent / "home" / ".config" / "tesched" / "tesched.toml",
        here.parent / "etc" / "tesched.toml",
    ]
    for file in files:
        file.write_text("")
    found = []
    for file in files:
        found.append(Path(search(home(here))))
        file.unlink()
    assert found == files


def test_xdg_config_home_stands_for_the_users_folder_unless_it_is_relative(here: Path) -> None:
    own = [str(place.path) for place in places({"XDG_CONFIG_HOME": "/x", "HOME": "/h"})]
    assert own[1] == "/x/tesched/tesched.toml"
    own = [str(place.path) for place in places({"XDG_CONFIG_HOME": "x", "HOME": "/h"})]
    assert own[1] == "/h/.config/tesched/tesched.toml"
    assert own[0] == str(here / "tesched.toml")


def test_without_a_home_in_the_environment_it_is_that_of_the_users_account(here: Path) -> None:
    wanted = Path(pwd.getpwuid(ME).pw_dir) / ".config" / "tesched" / "tesched.toml"
    assert [place.path for place in places({})] == [here / "tesched.toml", wanted, here.parent / "etc" / "tesched.toml"]


def test_where_there_is_none_the_error_names_all_places_and_what_makes_one(here: Path) -> None:
    with pytest.raises(ConfigError) as error:
        search(home(here))
    for word in ("--config", "TESCHED_CONFIG", *(str(place.path) for place in places(home(here))), "`tesched "):
        assert word in str(error.value)


def test_a_folder_that_is_gone_has_no_configuration(here: Path) -> None:
    (here.parent / "etc" / "tesched.toml").write_text("")
    here.rmdir()
    assert search(home(here)) == here.parent / "etc" / "tesched.toml"


def test_the_sites_folder_as_the_current_one_is_the_sites(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = here.parent / "etc" / "tesched.toml"
    site.write_text("")
    monkeypatch.chdir(site.parent)
    assert not isinstance(search(home(here)), SearchedPath)
    assert [place.path for place in places(home(here))][-1] == site


def test_a_closed_folder_is_passed_over_and_that_of_the_site_is_not(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Root's current folder and HOME, for a command that root runs as the daemon's user.
    def closed(path: Path) -> os.stat_result:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "lstat", closed)
    assert search(home(here)) == here.parent / "etc" / "tesched.toml"


def test_a_link_to_nothing_in_the_current_folder_is_an_error_and_not_passed_over(here: Path) -> None:
    (here / "tesched.toml").symlink_to("nothing")
    with pytest.raises(ConfigError, match="a link to a file that does not exist"):
        load(search(home(here)))


def test_what_is_searched_for_is_read_as_what_is_named(here: Path) -> None:
    (here / "tesched.toml").write_bytes(b"\xef\xbb\xbfmode = 'observe'\r\n")
    (here / "tesched.toml").chmod(0o644)
    (here / "conf.d").mkdir(mode=0o755)
    (here / "conf.d" / "a.toml").write_text("undo_on_stop = true")
    (here / "conf.d" / "a.toml").chmod(0o644)
    loaded = load_files(search(home(here)))
    assert (loaded.config.mode, loaded.config.undo_on_stop) == (Mode.OBSERVE, True)
    assert loaded.tree.files == (str(here / "tesched.toml"), str(here / "conf.d" / "a.toml"))


@pytest.mark.parametrize("name", ["tesched.toml", "conf.d", "conf.d/a.toml"])
@pytest.mark.parametrize("named", [False, True])
def test_what_every_user_may_write_to_is_refused_unless_its_configuration_is_named(
    here: Path, name: str, *, named: bool
) -> None:
    (here / "conf.d").mkdir(mode=0o755)
    for each in ("tesched.toml", "conf.d/a.toml"):
        (here / each).write_text("")
        (here / each).chmod(0o644)
    (here / name).chmod(0o777)
    path = search(home(here))
    assert path == here / "tesched.toml"
    if named:
        load(Path(str(path)))
        return
    with pytest.raises(ConfigError, match=r"every user may write to it.*chmod go-w.*--config") as error:
        load(path)
    assert str(error.value).startswith(f"{here / name}: ")


@pytest.mark.parametrize("name", ["tesched.toml", "conf.d", "conf.d/a.toml"])
def test_what_belongs_to_another_user_is_refused(here: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    (here / "conf.d").mkdir(mode=0o755)
    for each in ("tesched.toml", "conf.d/a.toml"):
        (here / each).write_text("")
        (here / each).chmod(0o644)
    theirs = (here / name).stat().st_ino

    def judged(status: os.stat_result, us: int) -> str:
        if status.st_ino == theirs:
            status = _status(uid=us + 1, mode=status.st_mode)
        return distrusted(status, us)

    monkeypatch.setattr(config_trust, "distrusted", judged)
    with pytest.raises(ConfigError, match="not used, since it belongs to") as error:
        load(search(home(here)))
    assert str(error.value).startswith(f"{here / name}: ")


def test_a_link_of_another_users_to_a_file_of_ours_is_refused(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here.parent / "ours.toml").write_text("")
    (here.parent / "ours.toml").chmod(0o644)
    (here / "tesched.toml").symlink_to("../ours.toml")
    path = search(home(here))
    load(path)

    def judged(status: os.stat_result, us: int) -> str:
        return "it belongs to another" if stat.S_ISLNK(status.st_mode) else distrusted(status, us)

    monkeypatch.setattr(config_trust, "distrusted", judged)
    with pytest.raises(ConfigError, match="it belongs to another"):
        load(path)


def test_a_link_of_ours_to_what_every_user_may_write_to_is_refused(here: Path) -> None:
    target = here.parent / "open.toml"
    target.write_text("")
    target.chmod(0o666)
    (here / "tesched.toml").symlink_to(target)
    with pytest.raises(ConfigError, match="every user may write to it"):
        load(search(home(here)))


def test_a_file_that_is_replaced_after_its_check_is_checked_too(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = here / "tesched.toml"
    file.write_text("")

    def swap(path: Path, flags: int) -> int:
        file.unlink()
        file.write_text("mode = 'enforce'")
        file.chmod(0o666)
        return really(path, flags)

    really = os.open
    monkeypatch.setattr(os, "open", swap)
    with pytest.raises(ConfigError, match="every user may write to it"):
        load(search(home(here)))


def test_a_loop_of_links_and_a_pipe_end_at_once(here: Path) -> None:
    file = here / "tesched.toml"
    file.symlink_to(file)
    with pytest.raises(ConfigError, match="cannot be read"):
        load(search(home(here)))
    file.unlink()
    os.mkfifo(file, 0o600)
    with pytest.raises(ConfigError, match="must be a file"):
        load(search(home(here)))
    file.unlink()
    file.mkdir(mode=0o755)
    with pytest.raises(ConfigError, match="must be a file, not a folder"):
        load(search(home(here)))


def _status(*, uid: int, mode: int = FILE | 0o644, gid: int = 0) -> os.stat_result:
    return os.stat_result((mode, 1, 1, 1, uid, gid, 0, 0, 0, 0))


@pytest.mark.parametrize(
    ("status", "why"),
    [
        (_status(uid=0), ""),
        (_status(uid=1000), ""),
        (_status(uid=1001), "it belongs to user 1001"),
        (_status(uid=1000, mode=FILE | 0o646), "every user may write to it"),
        (_status(uid=0, mode=FILE | 0o646), "every user may write to it"),
        (_status(uid=1000, mode=FILE | 0o664, gid=500), "the group team may write to it"),
        (_status(uid=1000, mode=FILE | 0o664, gid=1000), ""),
        (_status(uid=0, mode=FILE | 0o664, gid=1000), "the group alice may write to it"),
        (_status(uid=0, mode=FILE | 0o664, gid=0), ""),
        (_status(uid=0, mode=FILE | 0o664, gid=501), "the group 501 may write to it"),
        (_status(uid=0, mode=stat.S_IFLNK | 0o777), ""),
        (_status(uid=1001, mode=stat.S_IFLNK | 0o777), "it belongs to user 1001"),
    ],
)
def test_root_and_the_user_are_trusted_and_a_group_that_is_the_users_alone(
    monkeypatch: pytest.MonkeyPatch, status: os.stat_result, why: str
) -> None:
    groups = {0: ("root", []), 500: ("team", ["alice", "bob"]), 1000: ("alice", [])}
    users = {0: "root", 1000: "alice"}
    monkeypatch.setattr(grp, "getgrgid", lambda gid: grp.struct_group((groups[gid][0], "x", gid, groups[gid][1])))
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: pwd.struct_passwd((users[uid], "x", uid, uid, "", "/", "")))
    assert distrusted(status, 1000) == why


def test_a_group_of_the_users_name_with_a_further_member_is_not_the_users_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(grp, "getgrgid", lambda gid: grp.struct_group(("alice", "x", gid, ["bob"])))
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: pwd.struct_passwd(("alice", "x", uid, uid, "", "/", "")))
    assert distrusted(_status(uid=1000, mode=FILE | 0o664, gid=1000), 1000) != ""


def test_the_sites_path_is_where_the_unit_has_it() -> None:
    assert [*places({"HOME": "/h"})][-1].path == DEFAULT_PATH
