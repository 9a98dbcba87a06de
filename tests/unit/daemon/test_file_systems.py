"""Which folders are on a network's file system, and what is said of a state store there."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from tesched_cli.main import main
from tesched_daemon import file_systems
from tesched_daemon.doctor.doctor import examine
from tesched_daemon.file_systems import network_type, served_by

MOUNTS = """\
/dev/sda1 / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
/dev/sdb1 /home/local xfs rw 0 0
server:/s /a\\040b fuse.sshfs rw 0 0
none /twice tmpfs rw 0 0
server:/t /twice lustre rw 0 0
server:/u /form\x0cfeed nfs4 rw 0 0
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/", ""),
        ("/homes", ""),
        ("/home", "nfs4"),
        ("/home/ada/try", "nfs4"),
        ("/home/local/ada", ""),
        ("/a b/c", "fuse.sshfs"),
        ("/twice", "lustre"),
        ("/form\x0cfeed/c", "nfs4"),
    ],
)
def test_a_network_s_file_system_is_known_by_the_mount_that_is_nearest(folder: str, kind: str) -> None:
    assert network_type(Path(folder), MOUNTS) == kind


@pytest.fixture
def nfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that is on another host."""
    folder = tmp_path / "home"
    folder.mkdir()
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/sda1 / ext4 rw 0 0\nserver:/home {folder} nfs4 rw 0 0\n")
    monkeypatch.setattr(file_systems, "MOUNTS", mounts)
    return folder


def test_a_link_is_followed(nfs: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(nfs)
    assert served_by(link) == "nfs4"
    assert served_by(tmp_path) == ""


def test_a_list_of_mounts_that_cannot_be_read_says_nothing(
    nfs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_systems, "MOUNTS", tmp_path / "none")
    assert served_by(nfs) == ""


def checked(config: Path, url: str) -> str:
    (config.parent / "slurm.conf").touch()
    config.write_text(f'[store]\nurl = "{url}"\n[slurm]\nconf = "{config.parent}/slurm.conf"\n')
    said = CliRunner(env={"NO_COLOR": "1"}).invoke(main, ["config", "check", str(config)])
    assert said.exit_code == 0
    return said.stderr


def test_a_sqlite_store_there_is_warned_of(nfs: Path, tmp_path: Path) -> None:
    config = tmp_path / "tesched.toml"
    said = checked(config, f"sqlite:///{nfs}/store.sqlite")
    assert said.startswith(f"Warning: {config}: store.url: {nfs} is on a network's file system (nfs4)")
    assert said.rstrip().endswith("name a file on a local disk, or a PostgreSQL database")
    found = [one.text for one in examine(config) if one.check == "configuration"]
    assert any("store.url" in text and "(nfs4)" in text for text in found)


def test_no_other_store_is_warned_of(nfs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "tesched.toml"
    monkeypatch.chdir(nfs)
    assert checked(config, f"sqlite:///{tmp_path}/store.sqlite") == ""
    assert checked(config, f"postgresql+psycopg:///tesched?host={nfs}") == ""
