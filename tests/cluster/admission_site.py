"""A cluster with the submission hook, and the admission file that a test writes in the daemon's place."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tesched_core.intake.class_rules import Classification, Match, Rule
from tesched_core.model.decision import Admission, SubmittedTe
from tesched_core.model.hook import HOOK_MARK
from tesched_core.model.snapshot import JobClass
from tesched_daemon.admission_file import text_of
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import Accounting, ClusterDefinition, NodeGroup, PartitionDefinition
from tesched_testcluster.harness.daemon_process import write_config
from tesched_testcluster.local import LocalCluster
from tesched_testcluster.users import ordinary_users

if TYPE_CHECKING:
    from tests.cluster.conftest import MakeCluster

HOOK = Path(__file__).parents[2] / "systemd" / "job_submit.lua"
#: With a list of variables 22.05 has slurmd ask a login shell for the rest first, which may take long.
PLAIN = ("--export=ALL",)
#: a TE job by the daemon's rules, of the longest time limit that may start
TRIAL = (*PLAIN, "--partition=debug", "--job-name=te", "--time=1")
LATER_S = 1000.0


@dataclass(frozen=True, kw_only=True)
class Site:
    """A cluster with the hook; TE jobs are those of the partition debug, in a tier above."""

    cluster: LocalCluster
    folder: Path
    te_user: str
    be_user: str

    @property
    def socket(self) -> Path:
        """Return the socket that the hook pokes."""
        return self.folder / "poke.sock"

    @property
    def file(self) -> Path:
        """Return the admission file that the hook reads."""
        return self.folder / "admission"

    def says(
        self,
        classes: Classification,
        *,
        until: float = 0.0,
        valid: float | None = None,
        uids: tuple[int, ...] = (),
        submitted: SubmittedTe | None = None,
        counted_s: float = 0.0,
    ) -> None:
        """Write the file in the daemon's place: a minute is the longest time limit; jobs were counted so long ago."""
        now = time.time()
        admission = Admission(until=until, most_s=60.0, submitted=submitted)
        self.file.write_text(
            text_of(admission, classes, now + LATER_S if valid is None else valid, uids, now=now - counted_s)
        )

    def submit(self, *options: str, wrap: str = "true", user: str = "") -> int:
        """Submit a job."""
        return self.cluster.sbatch(*options, wrap=wrap, user=user or self.te_user)

    def is_marked(self, *options: str) -> bool:
        """Submit a job and return whether the hook holds it."""
        job = self.cluster.job(self.submit(*PLAIN, "--begin=now+1hour", *options))
        marked = job.get("AdminComment") == HOOK_MARK
        assert marked is (job["Priority"] == "0")
        return marked

    def held(self) -> list[str]:
        """Return the jobs that wait for a release."""
        return [job["JobId"] for job in self.cluster.jobs() if job["Priority"] == "0" and job["JobState"] == "PENDING"]

    def config(self, tables: str = "") -> Path:
        """Write the configuration of a daemon that enforces a bound, with further tables."""
        config = write_config(
            self.cluster, self.folder, ClientChoice.COMMANDS, poll_interval_s=0.3, socket=str(self.socket)
        )
        drop_in = self.folder / "conf.d" / "bound.toml"
        drop_in.parent.mkdir(exist_ok=True)
        # Another list takes the place of the harness's, in which TE jobs have no longest time limit.
        drop_in.write_text(
            f'[slurm]\nadmission = "{self.file}"\n[loop]\nbackoff_max_s = 0.5\n'
            f"[guard]\nmax_victims_for_te_user_hour = 1000\nwait_for_free_s = 0\n"
            "[guard.bound]\nslowdown = 3\nte_time_limit_s = 60\n"
            '[[classes.rules]]\nname = "trials"\njob_class = "te"\n'
            'match = { partitions = ["debug"], max_time_limit_s = 60 }\n' + tables
        )
        return config


@contextmanager
def site_of(make_cluster: MakeCluster, accounting: Accounting | None = None, *, before: str = "") -> Iterator[Site]:
    """Give one node with the hook, and this Lua before it."""
    with tempfile.TemporaryDirectory(prefix="bound-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        hook = HOOK.read_text()
        for what in ("poke.sock", "admission"):
            assert hook.count(f'"/run/tesched/{what}"') == 1
            hook = hook.replace(f"/run/tesched/{what}", str(folder / what))
        definition = ClusterDefinition(
            groups=(NodeGroup(count=1),),
            partitions=(
                PartitionDefinition(name="main", default=True, priority_tier=1),
                PartitionDefinition(name="debug", priority_tier=10, preempt_mode="OFF", max_time="10"),
            ),
            settings={"JobSubmitPlugins": "lua"},
            files={"job_submit.lua": before + hook},
            accounting=accounting,
        )
        te_user, be_user = ordinary_users(2)
        yield Site(cluster=make_cluster(definition), folder=folder, te_user=te_user, be_user=be_user)


def rule(job_class: JobClass, match: Match) -> Rule:
    """Return a rule."""
    return Rule(name=f"{job_class}-{match}", job_class=job_class, match=match)


DEBUG = Classification(rules=(rule(JobClass.TE, Match(partitions=("debug",))),))
