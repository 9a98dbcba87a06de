"""Three hostile users at random beside an honest one, after a quiet time of the honest one alone.

The hostile users draw from `grammar.py` what they submit, change and cancel; the honest one submits a TE job that needs
a victim every four seconds. The site is that of `site.py`. What must hold:

- the daemon never ends, and obeys SIGTERM afterwards;
- no poll takes more than 2 s, as the daemon counts it;
- honest TE jobs wait, from submission to start by slurmctld's log, at most twice as long beside the hostile users as in
  the quiet time (p50 and p95), or two seconds where that is more: Slurm's own passes come once a second;
- no job of the honest user's is unreadable;
- the memory and the store grow with the jobs that there are, and not with what is in them (`verdict.py`).
"""

from __future__ import annotations

import math
import random
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tesched_slurm.client_choice import ClientChoice

from tesched_testcluster.cluster import ClusterError
from tesched_testcluster.harness.attacks import site
from tesched_testcluster.harness.attacks.bench import Bench, Polls, longest_request_s
from tesched_testcluster.harness.attacks.usage import resident_mib, store_mib
from tesched_testcluster.harness.attacks.users import Honest, Hostile, User, started, write_scripts
from tesched_testcluster.harness.daemon_process import Daemon, daemon_of
from tesched_testcluster.local import LocalCluster
from tesched_testcluster.patience import Patience
from tesched_testcluster.users import ordinary_users

#: how many times as long an honest TE job may wait, and seconds below which a quiet wait counts as so long
MOST_TIMES, RESOLUTION_S = 2.0, 1.0
#: MiB of a daemon without jobs, and of each job or task that its store knows
MEMORY_MIB, MEMORY_MIB_A_JOB = 256.0, 1 / 32
STORE_MIB, STORE_MIB_A_JOB = 16.0, 1 / 32
#: seconds after the end in which the last TE jobs may start
_LAST_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Size of a soak."""

    client: ClientChoice
    seconds: float = 600.0
    quiet_s: float = 90.0
    #: of the hostile users together
    jobs: int = 2000
    seed: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Sizes at one moment: MiB of the daemon and of its store, and the jobs in it."""

    memory_mib: float
    store_mib: float
    jobs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A part of the soak: the polls in it, and how long honest TE jobs waited (infinite: never started)."""

    polls: Polls
    waits: tuple[float, ...]

    def wait_s(self, share: float) -> float:
        """Return the wait that this share of the TE jobs does not exceed."""
        ordered = sorted(self.waits)
        return ordered[max(math.ceil(share * len(ordered)) - 1, 0)] if ordered else math.inf


@dataclass(kw_only=True)
class Soak:
    """What was seen of a soak."""

    plan: Plan
    submitted: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    quiet: Stretch | None = None
    beside: Stretch | None = None
    samples: list[Sample] = field(default_factory=list)
    #: labels of jobs that were unreadable at some time, by user
    unread: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    honest: str = ""
    #: seconds of slurmctld's slowest request meanwhile, and which it was: no poll is quicker than what it waits for
    slowest_request: tuple[float, str] = (0.0, "none")
    #: how the daemon ended too soon, or a user's thread
    ended: str = ""


def run(plan: Plan) -> Soak:
    """Make a cluster, and soak a daemon beside it."""
    soak = Soak(plan=plan)
    with tempfile.TemporaryDirectory(prefix="tesched-soak-") as name, LocalCluster(site.definition()) as cluster:
        site.set_limits(cluster)
        write_scripts(cluster)
        site.fill_up(cluster)
        bench = Bench(cluster=cluster, client=plan.client, folder=Path(name))
        try:
            with daemon_of(cluster, site.write_config(cluster, bench.folder, plan.client)) as daemon:
                _soak(soak, bench, daemon)
        except (AssertionError, ClusterError) as error:
            soak.ended = soak.ended or str(error)[-2000:] or type(error).__name__
    return soak


def _soak(soak: Soak, bench: Bench, daemon: Daemon) -> None:
    plan, cluster = soak.plan, bench.cluster
    *hostile, soak.honest = ordinary_users(site.HOSTILE + 1)
    quiet = Honest(cluster=cluster, user=soak.honest)
    # Until then no job of the background may be a victim.
    time.sleep(site.MIN_RUN_TIME_S)
    began = time.time()
    with _sampled(soak, bench, daemon):
        _together(soak, daemon, [quiet], plan.quiet_s)
        soak.quiet = Stretch(polls=bench.polls(began), waits=_waits(bench, quiet.jobs))
        soak.samples.clear()
        began = time.time()
        beside = Honest(cluster=cluster, user=soak.honest)
        known: list[str] = []
        users = [
            Hostile(
                cluster=cluster,
                user=user,
                rng=random.Random(f"{plan.seed} {user}"),  # noqa: S311 - no secret
                jobs=math.ceil(plan.jobs / len(hostile)),
                seconds=plan.seconds,
                all_jobs=known,
            )
            for user in hostile
        ]
        _together(soak, daemon, [beside, *users], plan.seconds)
        for one in users:
            soak.submitted += one.submitted
            soak.counts += one.counts
        soak.slowest_request = longest_request_s(cluster.slurmctld_log, began)
        soak.beside = Stretch(polls=bench.polls(began), waits=_waits(bench, beside.jobs))


def _together(soak: Soak, daemon: Daemon, users: Sequence[User], seconds: float) -> None:
    """Let these users act for so long, or until a process has ended that should not."""
    over = threading.Event()
    errors: list[BaseException] = []
    threads = [started(user, over, errors.append) for user in users]
    until = time.monotonic() + seconds
    while time.monotonic() < until and not errors and daemon.process.poll() is None:
        time.sleep(0.2)
    over.set()
    for thread in threads:
        thread.join(Patience().limit_s)
    if daemon.process.poll() is not None:
        soak.ended = f"the daemon has ended with status {daemon.process.returncode}"
    elif errors:
        soak.ended = f"a user's commands failed: {errors[0]!r}"
    assert not soak.ended, soak.ended


def _waits(bench: Bench, jobs: Sequence[int]) -> tuple[float, ...]:
    """Return how long each waited, once all have started or there was time enough."""
    patience = Patience(_LAST_S)
    while len(waits := bench.waits(jobs)) < len(jobs) and not patience.is_over():
        time.sleep(1.0)
    return tuple(waits.get(job_id, math.inf) for job_id in jobs)


@contextmanager
def _sampled(soak: Soak, bench: Bench, daemon: Daemon) -> Iterator[None]:
    """Measure once a second, until the block ends."""
    over = threading.Event()

    def sample() -> None:
        ((jobs,),) = bench.query("select count(*) from jobs")
        memory_mib = resident_mib(daemon.process.pid)
        soak.samples.append(Sample(memory_mib=memory_mib, store_mib=store_mib(bench.store), jobs=jobs))
        for label, user in bench.unread():
            soak.unread[user].add(label)

    def samples() -> None:
        try:
            while not over.wait(1.0):
                sample()
        except Exception as error:  # noqa: BLE001 - whatever it is, what comes after would go unseen
            soak.ended = soak.ended or f"the sizes could not be measured: {error!r}"

    thread = threading.Thread(target=samples, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(10)
