"""Victims that finish in the moment of their requeue, and how many of them run twice.

A victim's script ends on its node; slurmctld hears of it some milliseconds later. A requeue that comes between the two
puts a job back in the queue that has done its work, and it runs a second time. Here short jobs, each alone on a node of
a real Slurm, end at a moment drawn evenly from ±50 ms around their requeue:

    commands   the actuator's own requeue: a query, a check, `scontrol requeue incomplete`
    pyslurm    the same, where pyslurm is installed
    plain      `scontrol requeue`, which does not ask whether the job has ended
    slurm      Slurm's own preemption (partition_prio, REQUEUE, GraceTime 0) by a job of a higher tier
    plugin     Slurm's preemption of marked jobs by preempt/tesched, where `make plugin` has been run; the marks are
               there before, as tesched writes them

The moment of a requeue is slurmctld's, from its log; of one that found the job ended, that of the call, or of the pass
that gave its node away. How long a call takes to get there, and when slurmctld makes its passes, is taken from the
batches before. Which jobs ran twice is known by the lines that they wrote themselves: `done` by the first run, `begin`
by a second one.
"""

from __future__ import annotations

import cmath
import math
import os
import random
import re
import statistics
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from tesched_core.model.actions import Reason, ReasonCode, Requeue
from tesched_core.model.resources import JobId
from tesched_slurm.client_choice import ClientChoice
from tesched_slurm.clients import Client, choose
from tesched_slurm.run_command import Commands

from tesched_testcluster.definition import ClusterDefinition, NativePreemption, NodeGroup, PartitionDefinition
from tesched_testcluster.harness.plugin_marks import Mark, put_marks
from tesched_testcluster.local import LocalCluster

Way = Literal["commands", "pyslurm", "plain", "slurm", "plugin"]
#: Slurm preempts, for a job that is submitted
BY_SLURM: tuple[Way, ...] = ("slurm", "plugin")

NODES = 40
#: seconds around its requeue in which a victim ends
WINDOW_S = 0.05
#: by how much, and in how many parts, ways are compared
BIN_S, BINS = 0.01, 10
#: seconds between two requeues, at least
STEP_S = 0.08
#: victims of one pass of slurmctld's, and seconds before it in which their preemptors are submitted
GROUP, AHEAD_S = 5, 0.7
WHY = Reason(code=ReasonCode.ADMIN, text="a benchmark")

#: The second argument is the moment of its end, in µs after the one in the file of its batch. bash's `read -t` waits
#: without a process.
SCRIPT = """#!/bin/bash
LC_ALL=C
say() { echo "$SLURM_JOB_ID $1 ${SLURM_RESTART_COUNT:-0} $EPOCHREALTIME" >>events; }
say begin
if [[ -z ${SLURM_RESTART_COUNT:-} ]]; then
    exec 3<> <(:)
    while [[ ! -e go.$1 ]]; do read -rt 0.25 -u 3; done
    read -r base <"go.$1"
    left=$((${base/./} + $2 - ${EPOCHREALTIME/./}))
    ((left > 0)) && read -rt "$((left / 1000000)).$(printf %06d $((left % 1000000)))" -u 3
fi
say done
"""

#: What slurmctld logs, on both releases, when it puts a running job back in the queue for whatever reason; when it is
#: notified to; and when it gives a job its nodes.
_REQUEUED = re.compile(r"^\[(\S+)\] .*_job_requeue_op: JobId=(\d+) state")
_ASKED = re.compile(r"^\[(\S+)\] .*Processing RPC: REQUEST_JOB_REQUEUE")
#: when it hears that a job's script has ended, by itself
_HEARD = re.compile(r"^\[(\S+)\] .*_job_complete: JobId=(\d+) WEXITSTATUS 0")
_GIVEN = re.compile(r"^\[(\S+)\] .*(?:Allocate|Started) JobId=(\d+)\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """One job that may run twice."""

    job_id: int
    node: str
    #: seconds after its batch's begin: its requeue, as planned, and the end of its script
    at_s: float
    ends_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request to requeue a victim: when it began and was answered, and the preemptor, if that is a job."""

    began: float
    answered: float
    preemptor: int | None


@dataclass(kw_only=True)
class Logged:
    """Log entries of slurmctld for one batch, each the first time for a job: seconds since 1970 by job id."""

    #: it put the job back in the queue
    requeued: dict[int, float] = field(default_factory=dict)
    #: it heard that the job's script had ended
    heard: dict[int, float] = field(default_factory=dict)
    #: it gave the job its nodes
    given: dict[int, float] = field(default_factory=dict)
    #: it was to requeue some job
    asked: list[float] = field(default_factory=list)


@dataclass(kw_only=True)
class Counts:
    """Outcomes of one way's victims."""

    way: Way
    #: of each victim in the window: seconds from its end to its requeue (below 0: requeued first); whether it ran twice
    seen: list[tuple[float, bool]] = field(default_factory=list)
    #: victims that ended outside the window
    outside: int = 0
    #: victims that ran twice though slurmctld had logged the end of the first run before the requeue: none may
    known_ended: int = 0
    #: loads of the machine, one a batch
    loads: list[float] = field(default_factory=list)

    @property
    def twice(self) -> int:
        """Return how many ran twice."""
        return sum(doubled for _, doubled in self.seen)

    def bins(self) -> tuple[tuple[int, int], ...]:
        """Return how many victims there are, and how many of them ran twice, in each of 10 ms from -50 ms on."""
        numbers = [(min(int((gap + WINDOW_S) / BIN_S), BINS - 1), doubled) for gap, doubled in self.seen]
        found, twice = Counter(number for number, _ in numbers), Counter(number for number, two in numbers if two)
        return tuple((found[number], twice[number]) for number in range(BINS))

    @property
    def share(self) -> float:
        """Return the even share: how large a part ran twice, were they evenly spread over the window."""
        shares = [twice / found for found, twice in self.bins() if found]
        return statistics.mean(shares) if shares else 0.0

    @property
    def error(self) -> float:
        """Return the standard error of the even share. A bin in which all are alike counts as if one were not."""
        parts = [((twice + 0.5) / (found + 1), found) for found, twice in self.bins() if found]
        return math.sqrt(sum(share * (1 - share) / found for share, found in parts)) / max(len(parts), 1)

    def __str__(self) -> str:
        """Return the line to print."""
        load = statistics.mean(self.loads) if self.loads else 0.0
        even = f"{100 * self.share:5.1f} ±{100 * self.error:4.1f} %"
        shares = " ".join(f"{100 * twice / found:3.0f}" if found else "  -" for found, twice in self.bins())
        return f"{self.way:9} {len(self.seen):6} {self.twice:6} {even:>13}  {shares} {self.outside:8} {load:6.1f}"


def definition_of(way: Way) -> ClusterDefinition:
    """Return a cluster of small nodes; for Slurm's own preemption with a partition of a higher tier."""
    main = PartitionDefinition(name="main", default=True)
    above: tuple[PartitionDefinition, ...] = ()
    preemption: NativePreemption | None = None
    if way == "plugin":
        above = (PartitionDefinition(name="trials"),)
        preemption = NativePreemption(kind="tesched", parameters=("tesched_te_partition=trials",))
    elif way == "slurm":
        main = PartitionDefinition(name="main", default=True, priority_tier=1, preempt_mode="REQUEUE", grace_time_s=0)
        above = (PartitionDefinition(name="trials", priority_tier=2, preempt_mode="OFF"),)
        preemption = NativePreemption()
    return ClusterDefinition(
        groups=(NodeGroup(count=NODES, cpus=2, sockets=1, gres={}, mem_mib=1000),),
        partitions=(main, *above),
        preemption=preemption,
        def_mem_per_cpu_mib=1,
        settings={"SlurmctldDebug": "debug2"},
    )


@dataclass(kw_only=True)
class Bench:
    """One way's cluster, and what is known of it."""

    cluster: LocalCluster
    client: Client | None
    rng: random.Random
    counts: Counts
    #: seconds that a call took until slurmctld had requeued, and when in its second that was, of the last batches
    _takes_s: list[float] = field(default_factory=list)
    _phases: list[float] = field(default_factory=list)
    _step_s: float = STEP_S
    _batch: int = 0
    _read: int = 0

    def __post_init__(self) -> None:
        """Write the victims' script."""
        (self.cluster.shared / "victim.sh").write_text(SCRIPT)

    def batch(self, count: int = NODES) -> None:
        """Run one batch of at most NODES victims, and count it."""
        self._batch += 1
        victims = [self._submit(number) for number in range(count)]
        wanted = {victim.job_id for victim in victims}
        self.cluster.wait_for(lambda: wanted <= {job for job, *_ in self._events()}, "a batch to begin")
        if self.counts.way == "plugin":
            put_marks(self.cluster, *(Mark(job_id=victim.job_id, max_restarts=1) for victim in victims))
        base = time.time()
        if self.counts.way in BY_SLURM:
            base = math.ceil(base) + self._phase()
        go = self.cluster.shared / f"go.{self._batch}"
        new = go.with_suffix(".new")
        new.write_text(f"{base:.6f}\n")
        new.rename(go)
        called: dict[int, Call] = {}
        lead_s = AHEAD_S if self.counts.way in BY_SLURM else self._lead_s()
        for victim in victims:
            # The moment is what is measured; there is no condition to await.
            time.sleep(max(0.0, base + victim.at_s - lead_s - time.time()))
            began = time.time()
            preemptor = self._requeue(victim)
            called[victim.job_id] = Call(began=began, answered=time.time(), preemptor=preemptor)
        took_s = (time.time() - base - victims[0].at_s) / count
        # A machine that is too slow for the pace would requeue ever later than planned.
        self._step_s = max(STEP_S, 1.5 * took_s if took_s > self._step_s else self._step_s)
        self.cluster.wait_for(self._over, "the batch to end")
        self.counts.loads.append(os.getloadavg()[0])
        self._count(victims, called, base)

    def _submit(self, number: int) -> Victim:
        at_s = 2.0 + (number // GROUP if self.counts.way in BY_SLURM else number * self._step_s)
        ends_s = at_s + self.rng.uniform(-WINDOW_S, WINDOW_S)
        node = f"n{number + 1}"
        job_id = self.cluster.sbatch(
            *("--job-name=be", "--exclusive", "-N1", f"--nodelist={node}", "--requeue", "--output=/dev/null"),
            script=self.cluster.shared / "victim.sh",
            arguments=(str(self._batch), str(round(1e6 * ends_s))),
        )
        return Victim(job_id=job_id, node=node, at_s=at_s, ends_s=ends_s)

    def _requeue(self, victim: Victim) -> int | None:
        """Requeue the victim in the way that is measured; return the job for which it leaves, if there is one."""
        if self.client is not None:
            self.client.actuator.act(Requeue(job_id=JobId(victim.job_id), reason=WHY, restarts=0))
        elif self.counts.way == "plain":
            self.cluster.run("scontrol", "requeue", str(victim.job_id), check=False)
        else:
            where = ("--partition=trials", "--exclusive", "-N1", f"--nodelist={victim.node}")
            return self.cluster.sbatch(*where, "--job-name=te", "--output=/dev/null", wrap=":")
        return None

    def _over(self) -> bool:
        """Return whether no job is left: those that were requeued have run again."""
        return not self.cluster.run("squeue", "-h", "-t", "PD,R,CG,S", "-o", "%i").stdout.strip()

    def _lead_s(self) -> float:
        return statistics.median(self._takes_s[-200:]) if self._takes_s else 0.03

    def _phase(self) -> float:
        """Return when in a second slurmctld makes its pass, by the last batch: the mean on the circle."""
        where = sum(cmath.exp(2j * math.pi * phase) for phase in self._phases[-NODES:])
        return cmath.phase(where) / (2 * math.pi) % 1 if where else 0.0

    def _events(self) -> Iterator[tuple[int, str, int, float]]:
        path = self.cluster.shared / "events"
        for line in path.read_text().splitlines(keepends=True) if path.exists() else ():
            if line.endswith("\n"):
                job_id, what, run, at = line.split()
                yield int(job_id), what, int(run), float(at)

    def _count(self, victims: Sequence[Victim], called: Mapping[int, Call], base: float) -> None:
        """Count a batch that is over."""
        logged = self._logged()
        requeued_at, asked_at, given_at = logged.requeued, logged.asked, logged.given
        events = list(self._events())
        begun = Counter(job_id for job_id, what, _, _ in events if what == "begin")
        ended_at = {job_id: at for job_id, what, run, at in events if what == "done" and run == 0}
        lead_s = self._lead_s()
        for victim in victims:
            call = called[victim.job_id]
            requeued = requeued_at.get(victim.job_id)
            if requeued is not None:
                self._takes_s.append(requeued - call.began)
                self._phases.append(requeued % 1)
            elif call.preemptor is not None:
                requeued = given_at.get(call.preemptor, math.inf)
            else:
                # The command found it ended; or the query before it did, and then there was no command.
                asked = (at for at in asked_at if call.began <= at <= call.answered)
                requeued = next(asked, call.began + lead_s)
            ended = ended_at.get(victim.job_id)
            twice = ended is not None and begun[victim.job_id] > 1
            self.counts.known_ended += twice and logged.heard.get(victim.job_id, math.inf) < requeued
            # One that was requeued first would have ended as planned.
            gap = requeued - (base + victim.ends_s if ended is None else ended)
            if abs(gap) > WINDOW_S:
                self.counts.outside += 1
            else:
                self.counts.seen.append((gap, twice))
        (self.cluster.shared / "events").unlink()

    def _logged(self) -> Logged:
        """Return what slurmctld has logged since the last batch."""
        found = Logged()
        with (self.cluster.folder / "log" / "slurmctld.log").open(errors="replace") as log:
            log.seek(self._read)
            for line in iter(log.readline, ""):
                if match := _REQUEUED.match(line):
                    found.requeued.setdefault(int(match[2]), _time(match[1]))
                elif match := _HEARD.match(line):
                    found.heard.setdefault(int(match[2]), _time(match[1]))
                elif match := _GIVEN.match(line):
                    found.given.setdefault(int(match[2]), _time(match[1]))
                elif match := _ASKED.match(line):
                    found.asked.append(_time(match[1]))
            self._read = log.tell()
        return found


def _time(stamp: str) -> float:
    """Return seconds since 1970 of a time in slurmctld's log, which is this host's."""
    return datetime.fromisoformat(stamp).astimezone().timestamp()


@contextmanager
def bench_of(way: Way, seed: int) -> Iterator[Bench]:
    """Give a cluster of this way."""
    with LocalCluster(definition_of(way)) as cluster:
        client = None
        if way in {"commands", "pyslurm"}:
            client = choose(ClientChoice(way), Commands(slurm_conf=str(cluster.slurm_conf)))
        rng = random.Random(seed)  # noqa: S311 - a workload
        yield Bench(cluster=cluster, client=client, rng=rng, counts=Counts(way=way))
