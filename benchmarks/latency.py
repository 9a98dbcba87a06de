"""Wait of a trial until it runs, plain Slurm beside tesched: `python -m benchmarks.latency`.

Private clusters of eight nodes take turns, so that all see the same machine:

- slurm: no tesched; Slurm's own preemption by partition, PreemptMode=REQUEUE without GraceTime
- hook: tesched, poked by systemd/job_submit.lua at each submission, with its next poll 30 s away
- poll: tesched, which polls every `--poll` seconds, without pokes
- watch: the same, and it watches slurmctld's state folder, as by default; tests: it makes 600 tests a minute instead
- hook-late, poll-late: the same, and Slurm's word on a job is awaited in any case (guard.await_first_look = true)
- plugin: Slurm preempts by preempt/tesched (`make plugin`) what tesched has marked before (guard.lever = "plugin"), for
  trials in a partition of the same tier

First each is idle, then each is full of best-effort jobs. Measured are the seconds from before sbatch to the first word
of the trial itself. The victims are ordinary scripts, which Slurm and tesched alike requeue at once: they end by
SIGTERM. With `--checkpoint` they declare a signal and take that long before they leave; Slurm then has GraceTime=10
with preempt_send_user_signal, the only way in which it gives such a notice. With `plugin` they save on SIGTERM instead,
for which KillWait is 10 s. There the marks of all victims are awaited before a trial is submitted.

Where the time goes comes from slurmctld's log, the state store and what the jobs wrote, as means.
"""

from __future__ import annotations

import json
import random
import re
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Literal, get_args

import click
import numpy as np
from sqlalchemy import select
from tesched_db.engine import open_store
from tesched_db.tables import ActionRow, CycleRow
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import Accounting, ClusterDefinition, NativePreemption, PartitionDefinition
from tesched_testcluster.harness.daemon_process import running_daemon
from tesched_testcluster.load import EventName, LoadJob, read_events, submit
from tesched_testcluster.local import LocalCluster

from benchmarks.scheduling import Scheduling, scheduling_option

Way = Literal["slurm", "hook", "poll", "watch", "tests", "hook-late", "poll-late", "plugin"]
WAYS: tuple[Way, ...] = get_args(Way)
#: the daemon is poked at each submission
POKED: tuple[Way, ...] = ("hook", "hook-late")
#: Slurm preempts for the trials of a partition
BY_SLURM: tuple[Way, ...] = ("slurm", "plugin")
NODES, GPUS = 8, 8
GRACE_S = 10
FAR_S = 30.0  # polls of a daemon that is poked
HOOK = Path(__file__).parents[1] / "systemd" / "job_submit.lua"
#: the socket's path in HOOK
INSTALLED = "/run/tesched/poke.sock"
#: With a list of variables 22.05 has slurmd ask a login shell for the rest before the start, which takes 0.2 to 1.4 s.
PLAIN = ("--export=ALL",)
#: A benchmark preempts more often than a site would let it.
UNBOUNDED = """
[guard]
max_preemptions_per_hour = 100000
max_preemptions_per_user_hour = 100000
max_preemptions_per_account_hour = 100000
max_preemptions_per_node_hour = 100000
max_lost_node_hours_per_day = 100000
"""
#: of some ways, besides
MORE: Mapping[Way, str] = {
    "plugin": 'lever = "plugin"\n[slurm]\nmarks = "{marks}"\n',
    "watch": "[loop]\nwatch_state_folder = true\n",
    "tests": "[loop]\ntests_per_minute = 600\n",
    **dict.fromkeys(("hook-late", "poll-late"), "await_first_look = true\n"),
}
#: what a trial's time is made of, in its order
STAGES = (
    "sbatch, until slurmctld has the job",
    "until slurmctld's next pass looks at it",
    "until tesched's next look begins",
    "tesched looks",
    "tesched decides and writes it down",
    "tesched raises the trial",
    "notice or requeue, until the victim leaves",
    "until slurmctld gives its resources to the trial",
    "slurmd starts the trial",
)
_ANY_LOOK = r"sched: Running job scheduler|_attempt_backfill: beginning"
_OF_ITS_OWN = "sched: Running job scheduler for full queue"  # each second; slurmctld's other passes have causes


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Settings of all clusters of a run."""

    poll_s: float
    #: seconds that a victim takes to save its work
    checkpoint_s: float
    epilog: bool
    scheduling: Scheduling
    #: with a slurmdbd, and limits of users, accounts and QOS enforced, none of which is set
    enforced: bool


@dataclass(kw_only=True)
class Stand:
    """One cluster, with what frees resources on it."""

    way: Way
    setting: Setting
    cluster: LocalCluster
    #: the daemon's state store; none without a daemon
    store: str | None
    idle_s: list[float] = field(default_factory=list)
    full_s: list[float] = field(default_factory=list)
    #: of each trial on the full cluster, seconds by STAGES
    stages_s: list[Mapping[str, float]] = field(default_factory=list)
    _trials: int = 0
    _victims: dict[int, str] = field(default_factory=dict)

    def fill(self) -> None:
        """Submit as many best-effort jobs as nodes have none."""
        while len(self._victims) < NODES:
            name = f"be-{len(self._victims)}-{self._trials}"
            checkpoint_s = self.setting.checkpoint_s
            options = PLAIN
            if self.way == "slurm":
                options += ("--partition=be", *(("--signal=B:USR1@60",) if checkpoint_s else ()))
            job = LoadJob(
                name=name,
                kind="be",
                cpus=8,
                gpus=GPUS,
                ticks=36_000,
                # Only one that shall save its work heeds anything; the others are ordinary scripts.
                on_notice="unaware" if not checkpoint_s else "term" if self.way == "plugin" else "exit",
                checkpoint_s=checkpoint_s,
                options=options,
            )
            self._victims[submit(self.cluster, job, self.cluster.shared)] = name

    def idle_trial(self, phase: float) -> None:
        """Measure one trial on the idle cluster, and clear up behind it."""
        te, began, started = self._trial(phase)
        self.idle_s.append(started - began)
        self.cluster.run("scancel", str(te))
        self.cluster.wait_idle()

    def full_trial(self, phase: float) -> None:
        """Wait until the cluster is full, measure one trial, and clear up behind it."""
        # RUNNING is not enough: a job that has not yet set its trap would not heed a notice.
        for job_id in self._victims:
            self._first_word(job_id)
        if self.way == "plugin":
            self.cluster.wait_for(self._marked, "the marks of all victims")
        te, began, started = self._trial(phase)
        gone = [job_id for job_id in self._victims if self.cluster.state(job_id) != "RUNNING"]
        if len(gone) != 1:
            raise click.ClickException(f"{self.way}: {len(gone)} victims for one trial")
        self.full_s.append(started - began)
        self.stages_s.append(self._stages(te, gone[0], began, started))
        self.cluster.run("scancel", str(te), str(gone[0]))
        del self._victims[gone[0]]
        self.fill()

    def _marked(self) -> bool:
        """Return whether the marks file names all victims, and no other job."""
        lines = self.cluster.marks.read_text().splitlines() if self.cluster.marks.exists() else []
        return {int(line.split()[0]) for line in lines[1:-1]} == set(self._victims)

    def _trial(self, phase: float) -> tuple[int, float, float]:
        """Submit a trial `phase` s (below 1) after a pass; return its id, when sbatch began, and its first word."""
        self._trials += 1
        options = (*PLAIN, *(("--partition=te",) if self.way in BY_SLURM else ()))
        job = LoadJob(name=f"te-{self._trials}", kind="te", cpus=2, gpus=2, ticks=36_000, options=options)
        # Else chance gives one cluster submissions right before its passes, and another one such right behind them.
        time.sleep((self._last_pass() + phase - time.time()) % 1.0)
        began = time.time()
        te = submit(self.cluster, job, self.cluster.shared)
        return te, began, self._first_word(te)

    def _first_word(self, job_id: int) -> float:
        """Wait until the job has said its first word, and return when that was."""

        def look() -> float | None:
            return next((event.time for event in read_events(self.cluster.shared) if event.job_id == job_id), None)

        return self.cluster.wait_for(look, f"job {job_id} to start") or 0.0

    def _last_pass(self) -> float:
        """Return when slurmctld last made a pass of its own accord; 0 if it has made none yet."""
        lines = _timed(self.cluster.folder / "log" / "slurmctld.log")
        return max((at for at, text in lines if _OF_ITS_OWN in text), default=0.0)

    def _stages(self, te: int, victim: int, began: float, started: float) -> Mapping[str, float]:
        """Return how long each stage of a trial took that has got the nodes of this victim."""
        log = [line for line in _timed(self.cluster.folder / "log" / "slurmctld.log") if line[0] > began - 1]

        def said(pattern: str, since: float = 0.0) -> float:
            found = (at for at, text in log if at >= since and re.search(pattern, text))
            if (at := next(found, None)) is None:
                raise click.ClickException(f"slurmctld's log has no {pattern!r} about trial {te} and victim {victim}")
            return at

        known = said(rf"_submit_batch_job: JobId={te}\b")
        marks = {0: known}
        if self.way in BY_SLURM:
            # tesched needs none: a job that does not fit at its submission says so from then on.
            left = said(_ANY_LOOK, known)
            marks |= {1: left}
        else:
            looked, looked_until, raised, noticed = self._acted(te)
            if self.setting.checkpoint_s:
                left = next(
                    event.time
                    for event in read_events(self.cluster.shared)
                    if event.job_id == victim and event.name is EventName.LEAVE
                )
            else:
                # An ordinary script says nothing when it is requeued; slurmctld does.
                left = said(rf"_job_requeue_op: JobId={victim} ", noticed - 1)
            marks |= {2: looked, 3: looked_until, 4: raised, 5: noticed, 6: left}
        marks |= {7: said(rf"(Allocate|Started) JobId={te}\b"), 8: started}
        stages, before = {}, began
        for number, at in marks.items():
            stages[STAGES[number]] = at - before
            before = at
        return stages

    def _acted(self, te: int) -> tuple[float, float, float, float]:
        """Return when the poll for this trial began and ended, and when raising it and the notice began."""
        if self.store is None:
            raise ValueError("there is no daemon on this cluster")
        engine = open_store(self.store)
        try:
            with engine.connect() as connection:
                query = select(ActionRow.at, ActionRow.kind, CycleRow.first_at, CycleRow.observe_s)
                query = query.join(CycleRow, CycleRow.key == ActionRow.cycle_key).where(ActionRow.preemptor == te)
                rows = connection.execute(query.order_by(ActionRow.cycle_key, ActionRow.position)).all()
        finally:
            engine.dispose()
        first = rows[0]
        notice = next(row for row in rows if row.kind in {"notify", "requeue"})
        return first.first_at, first.first_at + first.observe_s, first.at, notice.at


def _timed(log: Path) -> Iterator[tuple[float, str]]:
    """Give slurmctld's lines with their times, seconds since 1970."""
    for line in log.read_text().splitlines():
        found = re.match(r"\[([^]]+)\] (.*)", line)
        if found:
            yield datetime.fromisoformat(found[1]).astimezone().timestamp(), found[2]


@contextmanager
def stand(way: Way, setting: Setting) -> Iterator[Stand]:
    """Give an idle cluster."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="latency-")))
        socket = f"{folder}/poke.sock" if way in POKED else ""
        cluster = stack.enter_context(LocalCluster(_definition(way, setting, socket)))
        store = None
        if way != "slurm":
            store = f"sqlite:///{folder}/tesched.sqlite"
            drop_in = folder / "conf.d" / "unbounded.toml"
            drop_in.parent.mkdir()
            drop_in.write_text(UNBOUNDED + MORE.get(way, "").format(marks=cluster.marks))
            poll_s = FAR_S if way in POKED else setting.poll_s
            stack.enter_context(
                running_daemon(cluster, folder, ClientChoice.AUTO, poll_interval_s=poll_s, socket=socket)
            )
        yield Stand(way=way, setting=setting, cluster=cluster, store=store)


def _definition(way: Way, setting: Setting, socket: str) -> ClusterDefinition:
    accounting = Accounting() if setting.enforced else None
    # At this level slurmctld's log names its passes.
    settings = {"SlurmctldDebug": "debug"}
    if setting.epilog:
        # Without one slurmctld leaves the nodes of a job that ended by itself to its next pass (docs/howto/at-once.md).
        settings["Epilog"] = "/bin/true"
    if way == "slurm":
        grace_s = GRACE_S if setting.checkpoint_s else 0
        return ClusterDefinition(
            scheduling=setting.scheduling,
            accounting=accounting,
            settings=settings,
            partitions=(
                PartitionDefinition(
                    name="be", default=True, priority_tier=1, preempt_mode="REQUEUE", grace_time_s=grace_s
                ),
                PartitionDefinition(name="te", priority_tier=10, preempt_mode="OFF"),
            ),
            preemption=NativePreemption(send_user_signal=setting.checkpoint_s > 0),
        )
    if way == "plugin":
        return ClusterDefinition(
            scheduling=setting.scheduling,
            accounting=accounting,
            settings=settings,
            partitions=(PartitionDefinition(name="main", default=True), PartitionDefinition(name="te")),
            preemption=NativePreemption(kind="tesched", parameters=("tesched_te_partition=te",)),
            kill_wait_s=GRACE_S,
        )
    if way not in POKED:
        return ClusterDefinition(scheduling=setting.scheduling, accounting=accounting, settings=settings)
    return ClusterDefinition(
        scheduling=setting.scheduling,
        accounting=accounting,
        settings=settings | {"JobSubmitPlugins": "lua"},
        files={"job_submit.lua": HOOK.read_text().replace(INSTALLED, socket)},
    )


@click.command()
@click.option("--trials", type=click.IntRange(2), default=20, show_default=True, help="Of each way, idle and full.")
@click.option("--poll", "poll_s", type=click.FloatRange(0.1), default=1.0, show_default=True, help="Seconds.")
@click.option(
    "--checkpoint", "checkpoint_s", type=click.FloatRange(0, 8), default=0, show_default=True, help="Seconds."
)
@click.option("--epilog/--no-epilog", default=True, show_default=True, help="Whether slurm.conf has an Epilog.")
@click.option("--way", "ways", type=click.Choice(WAYS), multiple=True, help="Only these, beside slurm.")
@click.option("--enforced", is_flag=True, help="Limits of users, accounts and QOS are enforced; none is set.")
@scheduling_option
@click.option("--seed", type=int, default=0, show_default=True, help="Of the moments of submission.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def main(
    *,
    trials: int,
    poll_s: float,
    checkpoint_s: float,
    epilog: bool,
    enforced: bool,
    scheduling: Scheduling,
    ways: Sequence[Way],
    seed: int,
    as_json: bool,
) -> None:
    """Run it and print the tables."""
    rng = random.Random(seed)  # noqa: S311 - when to submit
    setting = Setting(poll_s=poll_s, checkpoint_s=checkpoint_s, epilog=epilog, scheduling=scheduling, enforced=enforced)
    with ExitStack() as stack:
        chosen = [way for way in WAYS if not ways or way in ("slurm", *ways)]
        stands = [stack.enter_context(stand(way, setting)) for way in chosen]
        for trial in (Stand.idle_trial, Stand.full_trial):
            for each in stands if trial is Stand.full_trial else ():
                each.fill()
            phases = [(number + rng.random()) / trials for number in range(trials)]
            rng.shuffle(phases)
            for phase in phases:
                for each in stands:
                    trial(each, phase)
        release = "{}.{:02}".format(*stands[0].cluster.release)
    if as_json:
        measured = {
            "slurm": release,
            "setting": vars(setting),
            "idle": {each.way: _figures(each.idle_s, stands[0].idle_s) for each in stands},
            "full": {
                each.way: _figures(each.full_s, stands[0].full_s) | {"stages_mean_s": _means(each)} for each in stands
            },
        }
        print(json.dumps(measured, indent=2))
        return
    print(f"Slurm {release}: seconds from sbatch to the trial's first word")
    for what, taken in (("idle", [each.idle_s for each in stands]), ("full", [each.full_s for each in stands])):
        print(f"\n{what:>10}{'n':>5}{'p50':>8}{'p95':>8}{'max':>8}{'mean':>8}{'p50 / slurm':>14}")
        for way, took_s in zip(chosen, taken, strict=True):
            figures = _figures(took_s, taken[0])
            values = "".join(f"{figures[name]:>8.2f}" for name in ("p50_s", "p95_s", "max_s", "mean_s"))
            print(f"{way:>10}{len(took_s):>5}{values}{figures['p50_ratio']:>14.2f}")
    means = [_means(each) for each in stands]
    print(f"\n{'full, mean seconds':<44}" + "".join(f"{way:>12}" for way in chosen))
    for name in STAGES:
        print(f"{name:<44}" + "".join(f"{one[name]:>12.3f}" if name in one else f"{'':>12}" for one in means))


def _figures(took_s: Sequence[float], slurm_s: Sequence[float]) -> dict[str, object]:
    """Return median and so on of one way, and its median by Slurm's."""
    p50, p95, most = np.percentile(took_s, (50, 95, 100)).tolist()
    return {
        "p50_s": p50,
        "p95_s": p95,
        "max_s": most,
        "mean_s": float(np.mean(took_s)),
        "p50_ratio": p50 / float(np.median(slurm_s)),
        "took_s": list(took_s),
    }


def _means(each: Stand) -> dict[str, float]:
    """Return the mean of each stage, seconds."""
    return {name: float(np.mean([one[name] for one in each.stages_s])) for name in each.stages_s[0]}


if __name__ == "__main__":
    main()
