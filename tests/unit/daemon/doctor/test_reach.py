"""What the running daemon does not see of its configuration's paths, by its own mount namespace."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tesched_daemon.config import Config, load
from tesched_daemon.doctor import reach
from tesched_daemon.doctor.doctor import examine
from tesched_daemon.doctor.finding import Severity
from tesched_db import process
from tesched_db.engine import open_store
from tesched_testcluster.harness.store_examples import Writer, configured_store

#: hides the first folder as ProtectHome= does, makes the second one read-only as ProtectSystem=strict does, puts the
#: third one in place of the fourth as PrivateTmp= does, and stays until its input ends
AS_A_UNIT = """
set -e
mount -t tmpfs -o mode=0 hidden "$1"
mount --bind "$2" "$2"
mount -o remount,bind,ro "$2"
mount --bind "$3" "$4"
echo ready
exec cat
"""


class Site:
    """Folders of a site, and a configuration that names paths in them."""

    def __init__(self, tmp_path: Path) -> None:
        """Make them."""
        self.home, self.state, self.rest = tmp_path / "home", tmp_path / "state", tmp_path / "rest"
        self.tmp, private = tmp_path / "tmp", tmp_path / "private"
        for folder in (self.home / "spool", self.state, self.rest, self.tmp / "spool", private / "spool"):
            folder.mkdir(parents=True)
        self.config, self.url = configured_store(self.rest)

    def says(self, text: str) -> Config:
        """Write the configuration, and read it."""
        store = f'[store]\nurl = "{self.url}"\n'
        self.config.write_text(store + text)
        return load(self.config)

    @contextmanager
    def unit(self) -> Iterator[int]:
        """Process that sees the site as a daemon under its unit does."""
        assert os.geteuid() == 0, "only root can run this test: it mounts"
        folders = (self.home, self.state, self.tmp.with_name("private"), self.tmp)
        words = ("unshare", "--mount", "sh", "-c", AS_A_UNIT, "sh", *map(str, folders))
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as shut_in:
            assert shut_in.stdin is not None
            assert shut_in.stdout is not None
            assert shut_in.stdout.readline() == b"ready\n"
            try:
                yield shut_in.pid
            finally:
                shut_in.stdin.close()


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.mark.parametrize("key", ["reports.spool", "idle.file", "tell.command"])
def test_a_path_that_the_unit_hides_is_a_warning(site: Site, key: str) -> None:
    path = site.home / "spool"
    table, name = key.split(".")
    config = site.says(f"[{table}]\n{name} = {[str(path)] if key == 'tell.command' else repr(str(path))}\n")
    with site.unit() as pid:
        (found,) = reach.examine(config, pid)
    assert (found.level, found.check) == (Severity.WARN, "unit")
    assert found.text == f"the daemon does not see {path} ({key}), which is there: its unit hides it"
    assert "ProtectHome=read-only" in found.advice


@pytest.mark.parametrize(
    ("key", "used"),
    [
        ("marks", '[guard]\nlever = "plugin"\n'),
        ("admission", "[guard.bound]\nslowdown = 3\nte_time_limit_s = 60\n"),
        ("admission", "[guard.te]\nmax_running_per_user = 1\n"),
    ],
)
def test_a_folder_that_is_read_only_to_the_unit_is_a_warning_where_a_file_is_written_there(
    site: Site, key: str, used: str
) -> None:
    named = f'[slurm]\n{key} = "{site.state}/{key}"\n'
    rule = '[[classes.rules]]\nname = "t"\njob_class = "te"\nmatch = { max_time_limit_s = 60 }\n'
    with site.unit() as pid:
        (found,) = reach.examine(site.says(f"{named}{used}{rule}"), pid)
        assert [*reach.examine(site.says(f"{named}{rule}"), pid)] == []
    assert found.level is Severity.WARN
    assert found.text == f"the daemon may not write in {site.state} (slurm.{key}): it is read-only to its unit"
    assert f"ReadWritePaths={site.state}" in found.advice


@pytest.mark.parametrize(
    ("folder", "text"),
    [
        ("home/spool", "the daemon does not see {folder} (slurm.marks), which is there: its unit hides it"),
        ("tmp", "the daemon sees another folder at {folder} (slurm.marks): its unit has one of its own there"),
        ("tmp/spool", "the daemon sees another folder at {folder} (slurm.marks): its unit has one of its own there"),
    ],
)
def test_a_file_that_is_written_where_slurmctld_has_another_folder_is_a_warning(
    site: Site, folder: str, text: str
) -> None:
    there = site.rest.parent / folder
    config = site.says(f'[slurm]\nmarks = "{there}/marks"\n[guard]\nlever = "plugin"\n')
    with site.unit() as pid:
        (found,) = reach.examine(config, pid)
    assert (found.level, found.check) == (Severity.WARN, "unit")
    assert found.text == text.format(folder=there)
    assert "name a path in /run/tesched" in found.advice


def test_a_spool_of_the_same_name_that_is_the_daemons_own_is_a_warning(site: Site) -> None:
    config = site.says(f'[reports]\nspool = "{site.tmp}/spool"\n')
    with site.unit() as pid:
        (found,) = reach.examine(config, pid)
    assert found.level is Severity.WARN
    assert (
        found.text
        == f"the daemon sees another folder at {site.tmp}/spool (reports.spool): its unit has one of its own there"
    )
    assert "outside of /home" in found.advice


def test_a_folder_that_does_not_exist_is_no_warning(site: Site) -> None:
    config = site.says(f'[slurm]\nmarks = "{site.home}/not-there/marks"\n[guard]\nlever = "plugin"\n')
    with site.unit() as pid:
        assert [*reach.examine(config, pid)] == []


def test_what_the_daemon_sees_as_others_do_is_no_warning(site: Site) -> None:
    config = site.says(
        f'[reports]\nspool = "{site.rest}"\n[idle]\nfile = "{site.home}/not-there"\n'
        f'[slurm]\nmarks = "{site.rest}/marks"\n[guard]\nlever = "plugin"\n'
    )
    with site.unit() as pid:
        assert [*reach.examine(config, pid)] == []


def test_nothing_is_said_of_a_daemon_that_has_ended(site: Site) -> None:
    config = site.says(f'[reports]\nspool = "{site.home}/spool"\n')
    with site.unit() as pid:
        assert [*reach.examine(config, pid)] != []
    assert [*reach.examine(config, pid)] == [], "the process has ended"


def test_the_doctor_goes_by_the_process_that_wrote_last(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.says(f'[reports]\nspool = "{site.home}/spool"\n[slurm]\nconf = "/nowhere/slurm.conf"\n')
    with site.unit() as pid:
        monkeypatch.setattr(os, "getpid", lambda: pid)
        monkeypatch.setattr(process, "ticks_of", lambda _pid: None)
        engine = open_store(site.url)
        Writer(engine).look(time.time())
        engine.dispose()
        monkeypatch.undo()
        assert [one.check for one in examine(site.config)].count("unit") == 1
    assert "unit" not in [one.check for one in examine(site.config)]
