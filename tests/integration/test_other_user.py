"""Programs of the checkout run as another user, wherever the checkout stands."""

from __future__ import annotations

import grp
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tesched_testcluster.harness import other_user
from tesched_testcluster.harness.daemon_process import TESCHED
from tesched_testcluster.harness.other_user import prefix, words

NOBODY = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups")

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@pytest.fixture
def closed() -> Iterator[Path]:
    """Give a folder that its owner alone may enter, with an open one in it that has a file."""
    with tempfile.TemporaryDirectory(prefix="tesched-closed-") as name:
        folder = Path(name) / "a clone" / "docs"
        folder.mkdir(parents=True)
        (folder / "page").write_text("read\n")
        yield folder


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a command from the root folder."""
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")


def test_another_user_reads_below_a_folder_that_is_closed_to_it(closed: Path) -> None:
    page = str(closed / "page")
    assert run(*NOBODY, "cat", page).returncode != 0
    opened = run(*words([closed]), *NOBODY, "cat", page)
    assert (opened.returncode, opened.stdout) == (0, "read\n"), opened.stderr
    assert run(*NOBODY, "cat", page).returncode != 0, "it is opened for that command alone"


def test_a_checkout_that_is_closed_itself_is_named_with_what_opens_it(
    closed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(other_user, "ROOT", closed)
    closed.chmod(0o700)
    with pytest.raises(PermissionError, match=rf"chmod o\+rx {closed}"):
        prefix()


@pytest.mark.parametrize(
    "words", [("status", "--config", "{}"), ("config", "check", "{}"), ("config", "show"), ("jobs",)]
)
def test_a_configuration_that_is_named_and_may_not_be_read_is_said_to_be_a_groups(
    words: tuple[str, ...],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "tesched.toml"
        config.touch()
        os.chown(config, 0, 1)
        config.chmod(0o640)
        Path(folder).chmod(0o755)
        named = ("env", *(() if "{}" in words else (f"TESCHED_CONFIG={config}",)))
        said = run(*prefix(), *NOBODY, *named, str(TESCHED), *(word.format(config) for word in words))
    assert said.returncode == 2
    assert said.stderr == (
        f"Error: you may not read {config}: only the group {grp.getgrgid(1).gr_name!r} may, and you are not in it; "
        "ask the site's admins to add you, then log in again\n"
    )


def test_the_program_and_its_own_python_run_as_another_user() -> None:
    said = run(*prefix(), *NOBODY, str(TESCHED), "--version")
    assert (said.returncode, said.stdout.split()[0]) == (0, "tesched,"), said.stderr
    library = run(*prefix(), *NOBODY, sys.executable, "-c", "import os; print(os.__file__)")
    assert library.stdout.strip() == os.__file__
