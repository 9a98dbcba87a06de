"""README's "Try it on a cluster": its lines as they stand, typed by an ordinary user in an empty folder.

That user runs the cluster, too, and so has the rights that the last lines need. `pip install .` is the one line that is
not run: it stands in the text above the box, and the program is this checkout's.
"""

from __future__ import annotations

import os
import pwd
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tesched_testcluster.harness.daemon_process import TESCHED
from tesched_testcluster.harness.other_user import prefix
from tesched_testcluster.local import LocalCluster
from tesched_testcluster.registry import ROOT_VARIABLE
from tesched_testcluster.users import ordinary_user

pytestmark = pytest.mark.slurm

README = Path(__file__).parents[2] / "README.md"
TITLE = "## Try it on a cluster\n"
_DONE = "status of the line above:"


def lines() -> list[str]:
    """Return the lines of the section's boxes."""
    section = README.read_text().partition(TITLE)[2].partition("\n## ")[0]
    return [
        line for box in re.findall(r"^```\n(.*?)^```$", section, re.MULTILINE | re.DOTALL) for line in box.splitlines()
    ]


@dataclass(kw_only=True)
class Beginner:
    """An ordinary user with an empty folder, a shell, and a cluster of its own."""

    cluster: LocalCluster
    folder: Path
    #: before each command, so that it is this user's
    words: list[str]
    environment: Mapping[str, str]
    #: what a line printed on standard output, by the line
    printed: dict[str, str] = field(default_factory=dict)

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """Run a command as this user, in the folder."""
        return subprocess.run(
            [*self.words, *argv], env=self.environment, cwd=self.folder, capture_output=True, text=True, check=False
        )

    def type(self, lines: list[str]) -> str:
        """Type these lines in one shell; return the first that fails, with what it said, or nothing."""
        out, err = (self.folder.with_name(name) for name in ("out", "err"))
        with out.open("wb") as to, err.open("wb") as errors:
            shell = subprocess.Popen(
                [*self.words, "bash"],
                env=self.environment,
                cwd=self.folder,
                stdin=subprocess.PIPE,
                stdout=to,
                stderr=errors,
            )
        assert shell.stdin is not None
        started = 0
        try:
            for number, line in enumerate(lines, start=1):
                before = len(out.read_text())
                shell.stdin.write(f"eval {shlex.quote(line)}\necho {shlex.quote(_DONE)} $? ${{!:-0}}\n".encode())
                shell.stdin.flush()
                self.cluster.wait_for(lambda: out.read_text().count(f"{_DONE} ") == number, line)  # noqa: B023 - called here
                self.printed[line], _, ended = out.read_text()[before:].rpartition(_DONE)
                status, started = map(int, ended.split())
                complaints = re.sub(r"^configuration: .*\n", "", err.read_text(), flags=re.MULTILINE)
                if status or complaints:
                    return f"{line}: status {status}: {self.printed[line]}{complaints}"
                self._wait_as_people_do(line, started)
        finally:
            shell.stdin.close()
            shell.wait()
            if self._runs(started):
                os.kill(started, signal.SIGKILL)
        return ""

    def _wait_as_people_do(self, line: str, daemon: int) -> None:
        """Wait until a daemon that the line started has polled, and until one that it signalled has heard of it."""
        if re.search(r"&\s*(#|$)", line):
            self.cluster.wait_for(
                lambda: self.log_says("did nothing") or not self._runs(daemon), "the daemon's first poll"
            )
        if "HUP" in line:
            self.cluster.wait_for(
                lambda: self.log_says("configuration reloaded") or not self._runs(daemon), "the new configuration"
            )

    def log_says(self, text: str) -> bool:
        """Return whether the daemon's log has this."""
        log = self.folder / "daemon.log"
        return log.exists() and text in log.read_text()

    def _runs(self, process: int) -> bool:
        """Return whether this is still a process of the shell's."""
        try:
            return Path(f"/proc/{process}/cwd").readlink() == self.folder
        except OSError:
            return False


@contextmanager
def beginner() -> Iterator[Beginner]:
    """Give an ordinary user: the one who runs the tests, or another where that is root."""
    me = os.geteuid()
    account = pwd.getpwnam(ordinary_user()) if me == 0 else pwd.getpwuid(me)
    words = (
        [*prefix(), "setpriv", f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups"]
        if me == 0
        else []
    )
    with tempfile.TemporaryDirectory(prefix="tesched-try-") as name, pytest.MonkeyPatch.context() as patch:
        place = Path(name)
        place.chmod(0o755)
        for folder in ("clusters", "home", "try"):
            (place / folder).mkdir(mode=0o755)
            os.chown(place / folder, account.pw_uid, account.pw_gid)
        patch.setenv(ROOT_VARIABLE, str(place / "clusters"))
        environment = {
            "PATH": f"{TESCHED.parent}:{os.environ['PATH']}",
            "HOME": str(place / "home"),
            ROOT_VARIABLE: str(place / "clusters"),
        }
        up = [sys.executable, "-m", "tesched_testcluster", "up", "--name=try", "--nodes=1"]
        subprocess.run([*words, *up], env=environment, cwd=place / "home", check=True)
        cluster = LocalCluster.attach("try")
        try:
            environment["SLURM_CONF"] = str(cluster.slurm_conf)
            yield Beginner(cluster=cluster, folder=place / "try", words=words, environment=environment)
        finally:
            cluster.down()


@pytest.mark.gate
def test_the_lines_work_as_they_stand() -> None:
    with beginner() as user:
        job = user.run("sbatch", "--parsable", "--time=10", "--output=/dev/null", "--wrap=sleep 1000").stdout.strip()
        user.cluster.wait_state(job, "RUNNING")
        assert user.type(lines()) == ""
        said = {line.partition("#")[0].strip(): text for line, text in user.printed.items()}
        assert "mode shadow" in said["tesched init"]
        assert " 0 FAIL" in said["tesched doctor"]
        assert re.search(r"^mode +shadow,", said["tesched status"], re.MULTILINE)
        assert re.search(rf"^{job} .*short-and-small", said["tesched jobs"], re.MULTILINE)
        assert user.log_says('mode "shadow" -> "enforce"')
        made = {"tesched.toml", "tesched.sqlite", "daemon.log"}
        assert {path.name for path in user.folder.iterdir()} == made, "the daemon has ended and left nothing open"
        assert [*(user.folder.parent / "home").iterdir()] == []
        assert user.cluster.state(job) == "RUNNING"


@pytest.mark.parametrize(
    ("before", "after", "fails"),
    [
        ("tesched init", "tesched config example > tesched.toml", "tesched doctor"),
        ("2> daemon.log &", "--once 2> daemon.log", "tesched status"),
        ("tesched status", "tesched state", "tesched state"),
        ("&& tesched undo", "&& tesched undone", "kill $! "),
    ],
)
def test_a_line_that_does_not_work_is_found(before: str, after: str, fails: str) -> None:
    wrong = [line.replace(before, after) for line in lines()]
    assert wrong != lines()
    with beginner() as user:
        assert user.type(wrong).startswith(fails)
