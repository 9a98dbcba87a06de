"""Stage of the demo: a test cluster with tesched beside it, on this host or in containers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol, get_args

from tesched_testcluster.cluster import Cluster, ClusterError
from tesched_testcluster.docker import SHARED, DockerCluster, image_is_there
from tesched_testcluster.docker_image import MAIN, MOUNT, build_image
from tesched_testcluster.docker_service import docker_definition
from tesched_testcluster.load import (
    EVENTS,
    HOLD,
    JOB_SCRIPT,
    Event,
    Kind,
    LoadJob,
    hold,
    parse_events,
    read_events,
    scripts_in,
    submit,
)
from tesched_testcluster.local import LocalCluster
from tesched_testcluster.patience import Patience
from tesched_testcluster.users import ordinary_user

#: what every poll of the daemon that finds nothing to do says
FIRST_LOOK = "did nothing"

_CONFIG = """\
mode = "enforce"

[store]
url = "sqlite:///{folder}/tesched.sqlite"

[slurm]
conf = "{slurm_conf}"

[loop]
poll_interval_s = 0.5

[guard]
min_run_time_s = 0       # a demo is short; leave a minute or more to real jobs
cool_down_s = 0

[classes]
default_class = "be"
default_grace_period_s = 6

[[classes.rules]]
name = "debug-jobs"
job_class = "te"
match = {{ names = ["te-*"] }}
"""


class Stage(Protocol):
    """A running cluster and a tesched that is not running yet."""

    @property
    def cluster(self) -> Cluster:
        """Return the cluster."""
        ...

    def submit(self, job: LoadJob) -> int:
        """Submit a job and return its id."""
        ...

    def events(self) -> tuple[Event, ...]:
        """Return what the jobs have written so far, in order of time."""
        ...

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep the jobs from ending until the block ends, however slow the machine is."""
        ...

    @contextmanager
    def daemon(self) -> Iterator[None]:
        """Run the daemon until the block ends; it has had its first poll when the block begins."""
        ...

    @contextmanager
    def page(self) -> Iterator[str]:
        """Serve the live page until the block ends; give its address, or nothing where this host cannot reach it."""
        ...

    def tesched(self, *argv: str) -> str:
        """Return what `tesched argv…` prints. ClusterError if it fails."""
        ...


@dataclass(frozen=True, kw_only=True)
class LocalStage:
    """On this host; tesched keeps its state in SQLite."""

    cluster: LocalCluster
    folder: Path

    def submit(self, job: LoadJob) -> int:
        """Submit a job and return its id; where root asks, a trial is an ordinary user's, and no victim its own."""
        user = ordinary_user() if job.kind == "te" and os.geteuid() == 0 else None
        return submit(self.cluster, job, self.cluster.shared, script=self._scripts, user=user)

    def events(self) -> tuple[Event, ...]:
        """Return what the jobs have written so far."""
        return read_events(self.cluster.shared)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep the jobs from ending until the block ends."""
        holds = [hold(self.cluster.shared, kind) for kind in get_args(Kind)]
        try:
            yield
        finally:
            for path in holds:
                path.unlink()

    def configure(self) -> None:
        """Write the configuration: for commands that come before the daemon does."""
        self._config.write_text(_CONFIG.format(folder=self.folder, slurm_conf=self.cluster.slurm_conf))

    @contextmanager
    def daemon(self) -> Iterator[None]:
        """Run the daemon until the block ends."""
        log = self.folder / "daemon.log"
        self.configure()
        with log.open("wb") as out:
            process = subprocess.Popen([_program(), "daemon", "--config", str(self._config)], stdout=out, stderr=out)
        try:
            self.cluster.wait_for(lambda: FIRST_LOOK in log.read_text(), "the daemon's first look")
            yield
        except BaseException:
            sys.stderr.write(log.read_text())
            raise
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=Patience().limit_s)

    @contextmanager
    def page(self) -> Iterator[str]:
        """Serve the live page until the block ends, and give its address."""
        from tesched_testcluster.harness.web_process import running_web  # noqa: PLC0415 - needs tesched

        with running_web(self._config, is_silent=False) as address:
            yield f"{address}/"

    def tesched(self, *argv: str) -> str:
        """Return what `tesched argv…` prints."""
        environment = {**os.environ, "TESCHED_CONFIG": str(self._config), "COLUMNS": _columns()}
        done = subprocess.run(
            [_program(), *argv],
            env=environment,
            capture_output=True,
            text=True,
            timeout=Patience().limit_s,
            check=False,
        )
        return _printed(done, argv)

    @cached_property
    def _scripts(self) -> Path:
        return scripts_in(self.cluster.shared)

    @property
    def _config(self) -> Path:
        return self.folder / "tesched.toml"


@dataclass(frozen=True, kw_only=True)
class DockerStage:
    """In containers; tesched runs as an Operator of Slurm and keeps its state in PostgreSQL."""

    cluster: DockerCluster

    def submit(self, job: LoadJob) -> int:
        """Submit a job of an ordinary user, a trial of another one, and return its id."""
        user = "bob" if job.kind == "te" else "alice"
        return submit(self.cluster, job, Path(SHARED), script=_script_in_image(), user=user)

    def events(self) -> tuple[Event, ...]:
        """Return what the jobs have written so far."""
        return parse_events(self.cluster.run("cat", f"{SHARED}/{EVENTS}").stdout)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep the jobs from ending until the block ends."""
        holds = [f"{SHARED}/{HOLD.format(kind=kind)}" for kind in get_args(Kind)]
        self.cluster.run("touch", *holds)
        try:
            yield
        finally:
            self.cluster.run("rm", *holds)

    @contextmanager
    def daemon(self) -> Iterator[None]:
        """Run the daemon until the block ends."""
        self.cluster.start_tesched()
        try:
            self.cluster.wait_for(lambda: FIRST_LOOK in self.cluster.tesched_log(), "the daemon's first look")
            yield
        except BaseException:
            sys.stderr.write(self.cluster.tesched_log())
            raise
        finally:
            self.cluster.stop_tesched()

    @contextmanager
    def page(self) -> Iterator[str]:
        """Give no address: the containers have a network of their own."""
        yield ""

    def tesched(self, *argv: str) -> str:
        """Return what `tesched argv…` prints."""
        return _printed(self.cluster.tesched(*argv, columns=_columns()), argv)


@contextmanager
def local_stage() -> Iterator[LocalStage]:
    """Give eight nodes on this host until the block ends."""
    with LocalCluster() as cluster, tempfile.TemporaryDirectory(prefix="tesched-demo-") as name:
        # Jobs of two users write to it.
        events = cluster.shared / EVENTS
        events.touch()
        events.chmod(0o666)
        yield LocalStage(cluster=cluster, folder=Path(name))


@contextmanager
def docker_stage() -> Iterator[DockerStage]:
    """Give eight nodes in containers until the block ends; the image is made first, if it is missing."""
    build_image(quiet=image_is_there(MAIN.tag()))
    with DockerCluster(docker_definition(8)) as cluster:
        for command in ("touch", "chmod 666"):
            cluster.exec("slurmctld", *command.split(), f"{SHARED}/{EVENTS}")
        yield DockerStage(cluster=cluster)


def _script_in_image() -> Path:
    return Path(MOUNT, "slurm_test_cluster/tesched_testcluster") / JOB_SCRIPT.name


def _program() -> str:
    return str(Path(sys.executable).with_name("tesched"))


def _columns() -> str:
    return os.environ.get("COLUMNS", "110")


def _printed(done: subprocess.CompletedProcess[str], argv: tuple[str, ...]) -> str:
    # `tesched status` ends with how the daemon is, too.
    good = {0, 1, 3} if argv[:1] == ("status",) else {0}
    if done.returncode not in good:
        raise ClusterError(f"tesched {' '.join(argv)} ended with status {done.returncode}: {done.stderr.strip()}")
    return done.stdout
