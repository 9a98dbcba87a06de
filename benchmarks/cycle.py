"""Cost of one turn of the daemon on large clusters: `python -m benchmarks.cycle`.

A real slurmctld that knows as many nodes and jobs: eight nodes run, the others are down; eight best-effort jobs fill
the eight, one trial waits for these nodes, all other jobs wait for tomorrow, each with its own record. The daemon's
own loop, in shadow mode, in a process of its own: seconds to observe, decide and write (SQLite), of its first turn
and of a later one (medians of `TURNS`), and the most memory that the process and its largest child ever had. RATIO is
what a whole, unchanged poll takes to what Slurm's own code takes for the same reads in the same run (`raw_reads.py`):
the bare `scontrol show job` for the commands client, libslurm's two calls for pyslurm. Goals stand below the table. In
the test image (`python -m tesched_testcluster docker run -- python3 -m benchmarks.cycle`) also with pyslurm.
"""

from __future__ import annotations

import json
import math
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click
from tesched_core.model.actions import Failure, Outcome
from tesched_core.model.decision import Decision
from tesched_core.model.memory import Memory
from tesched_core.model.order import Transition
from tesched_core.model.snapshot import Snapshot
from tesched_core.ports import CycleReport, Observer
from tesched_daemon.config import load
from tesched_daemon.garbage import never_search_this, no_search_for_garbage
from tesched_daemon.wiring import opened_loop
from tesched_db import migrate
from tesched_db.engine import open_store
from tesched_db.journal import SqlJournal
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import ClusterDefinition
from tesched_testcluster.harness.slurm_clients import CLIENTS
from tesched_testcluster.local import LocalCluster

from benchmarks.raw_reads import bare_scontrol_s, libslurm_s

#: jobs and nodes
SIZES = ((1_000, 100), (10_000, 1_000), (100_000, 10_000))
TURNS = 5
#: tasks of an array that are changed by one call: Slurm answers for each of them
AT_ONCE = 5_000
#: seconds that one call of Slurm may take
PATIENCE_S = 120
CONFIG = """
mode = "shadow"
[store]
url = "{store}"
[slurm]
client = "{client}"
conf = "{slurm_conf}"
timeout_s = {patience}
[loop]
socket = ""
[guard]
min_run_time_s = 0
[[classes.rules]]
name = "trials"
job_class = "te"
match = {{ names = ["te"] }}
"""


@dataclass(kw_only=True)
class TimedLook:
    """An observer that counts the seconds that its polls take, and the jobs that it has seen."""

    observer: Observer
    looked_s: float = field(default=0.0)
    jobs: int = field(default=0)

    def observe(self, *, whole: bool = True, ends: bool = False) -> Snapshot | Failure:  # noqa: ARG002 - always whole
        """Return all that Slurm says now."""
        began = time.perf_counter()
        seen = self.observer.observe()
        self.looked_s += time.perf_counter() - began
        self.jobs = len(seen.jobs) if isinstance(seen, Snapshot) else 0
        return seen


@dataclass(kw_only=True)
class Timed:
    """A journal that counts the seconds that its writing takes."""

    journal: SqlJournal
    wrote_s: float = field(default=0.0)

    def __post_init__(self) -> None:
        """Take the calls over that only read."""
        self.lead, self.load, self.lost = self.journal.lead, self.journal.load, self.journal.lost
        self.questions = self.journal.questions
        self.resign, self.unseen, self.rehearse = self.journal.resign, self.journal.unseen, self.journal.rehearse

    def intend(self, snapshot: Snapshot, memory: Memory, decision: Decision, report: CycleReport) -> None:
        """Write what was seen and decided."""
        began = time.perf_counter()
        self.journal.intend(snapshot, memory, decision, report)
        self.wrote_s += time.perf_counter() - began

    def conclude(
        self, memory: Memory, decision: Decision, outcomes: Sequence[Outcome], transitions: Sequence[Transition]
    ) -> None:
        """Write what became of it."""
        began = time.perf_counter()
        self.journal.conclude(memory, decision, outcomes, transitions)
        self.wrote_s += time.perf_counter() - began


#: most that a poll may take, as a multiple of Slurm's own code, and most memory, MiB
GOALS = {"commands": (2.0, 600.0), "pyslurm": (1.5, 600.0)}


def measure(config: Path) -> dict[str, float]:
    """Return what the turns of a daemon cost: seconds and MiB."""
    settings = load(config)
    migrate.upgrade(settings.store.url)
    engine = open_store(settings.store.url)
    parts: list[tuple[float, float, float]] = []
    with opened_loop(settings) as loop:
        loop.observer = eyes = TimedLook(observer=loop.observer)
        loop.journal = journal = Timed(journal=SqlJournal(engine))
        for _ in range(1 + TURNS):
            eyes.looked_s = journal.wrote_s = 0.0
            began = time.perf_counter()
            with no_search_for_garbage():
                turn = loop.turn(asked=True)
            took_s = time.perf_counter() - began
            if turn.trouble:
                raise click.ClickException(turn.trouble)
            if not parts:
                never_search_this()
            parts.append((eyes.looked_s, took_s - eyes.looked_s - journal.wrote_s, journal.wrote_s))
    engine.dispose()
    later = [statistics.median(column) for column in zip(*parts[1:], strict=True)]
    names = ("observe_s", "step_s", "journal_s")
    most = [resource.getrusage(who).ru_maxrss / 1024 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return {
        "jobs": eyes.jobs,
        **{f"first_{name}": value for name, value in zip(names, parts[0], strict=True)},
        **dict(zip(names, later, strict=True)),
        "peak_mib": most[0],
        "largest_child_mib": most[1],
    }


def fill(cluster: LocalCluster, jobs: int, nodes: int, *, trial: bool = True) -> None:
    """Give the cluster as many nodes and jobs, of which one is the trial that waits."""
    cluster.stop_slurmctld()
    line = f"NodeName=x[1-{nodes - 8}] CPUs=32 RealMemory=256000 Gres=gpu:8 NodeAddr=127.0.0.1 Port=1 State=DOWN\n"
    with cluster.slurm_conf.open("a") as conf:
        conf.write(line)
    cluster.start_slurmctld(timeout_s=PATIENCE_S)
    for _ in range(8):
        cluster.wait_state(cluster.sbatch("--exclusive", "--job-name=be", wrap="exec sleep 100000"), "RUNNING")
    if trial:
        cluster.sbatch("--gpus=2", "--job-name=te", wrap="exec sleep 100000")
    waiting = jobs - 8 - trial
    array = cluster.sbatch(f"--array=0-{waiting - 1}", "--begin=now+1day", "--job-name=be", "--gpus=2", wrap="true")
    # A change of some tasks alone gives each of them a record.
    for first in range(1, waiting - 1, AT_ONCE):
        tasks = f"{first}-{min(first + AT_ONCE, waiting - 1) - 1}"
        cluster.run("scontrol", "update", f"jobid={array}_[{tasks}]", "nice=1", timeout_s=PATIENCE_S)


@click.command()
@click.option("--config", type=click.Path(path_type=Path), hidden=True, help="Measure a daemon of this configuration.")
@click.option("--smallest", type=int, default=0, show_default=True, help="Jobs; smaller sizes are left out.")
@click.option("--largest", type=int, default=SIZES[-1][0], show_default=True, help="Jobs; larger sizes are left out.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def main(*, config: Path | None, smallest: int, largest: int, as_json: bool) -> None:
    """Print the table."""
    if config is not None:
        print(json.dumps(measure(config)))
        return
    rows = []
    if not as_json:
        print(
            f"{'JOBS':>8}{'NODES':>8}  {'CLIENT':<10}{'OBSERVE S':>11}{'SLURM S':>9}{'RATIO':>7}{'STEP S':>8}"
            f"{'JOURNAL S':>11}{'FIRST S':>9}{'PEAK MIB':>10}{'CHILD MIB':>11}"
        )
    for jobs, nodes in SIZES:
        if not smallest <= jobs <= largest:
            continue
        definition = ClusterDefinition(settings={"MaxJobCount": "200000", "MaxArraySize": "200000"})
        with LocalCluster(definition) as cluster, tempfile.TemporaryDirectory() as folder:
            fill(cluster, jobs, nodes)
            raw_s = slurms_own_s(cluster)
            for client in CLIENTS:
                path = Path(folder) / f"{client}.toml"
                text = CONFIG.format(
                    store=f"sqlite:///{folder}/{client}.sqlite",
                    client=client,
                    slurm_conf=cluster.slurm_conf,
                    patience=PATIENCE_S,
                )
                path.write_text(text)
                command = [sys.executable, "-m", "benchmarks.cycle", "--config", str(path)]
                said = subprocess.run(command, env=cluster.env, check=True, stdout=subprocess.PIPE, text=True).stdout
                row = {"nodes": nodes, "client": str(client), **json.loads(said), "slurm_s": raw_s[str(client)]}
                rows.append(row)
                if not as_json:
                    print(_line(row), flush=True)
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    for name, (ratio, mib) in GOALS.items():
        print(f"goals, {name}: RATIO at most {ratio}, PEAK MIB at most {mib:.0f} with {SIZES[-1][0]:,} jobs")


def slurms_own_s(cluster: LocalCluster) -> dict[str, float]:
    """Return the seconds that Slurm's own code takes for what each client reads, by client; NaN: it is not here."""
    raw = libslurm_s(cluster)
    both_s = math.nan if raw is None else raw["jobs_s"] + raw["nodes_s"]
    return {str(ClientChoice.COMMANDS): bare_scontrol_s(cluster), str(ClientChoice.PYSLURM): both_s}


def _line(row: dict[str, float | str]) -> str:
    first = sum(float(row[f"first_{name}"]) for name in ("observe_s", "step_s", "journal_s"))
    return (
        f"{row['jobs']:>8,}{row['nodes']:>8,}  {row['client']:<10}{row['observe_s']:>11.2f}"
        f"{row['slurm_s']:>9.2f}{float(row['observe_s']) / float(row['slurm_s']):>7.1f}{row['step_s']:>8.3f}"
        f"{row['journal_s']:>11.3f}{first:>9.2f}{row['peak_mib']:>10.0f}{row['largest_child_mib']:>11.0f}"
    )


if __name__ == "__main__":
    main()
