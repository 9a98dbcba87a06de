"""Attacks by what the daemon runs, and by what it is run in."""

from __future__ import annotations

import json
import sys
import time

from tesched_testcluster.harness.attacks.bench import BE_OF_A_NODE, LONGEST_POLL_S, LONGEST_WAIT_S, Bench
from tesched_testcluster.harness.attacks.registry import Result, attack
from tesched_testcluster.harness.attacks.requests import script_file
from tesched_testcluster.harness.attacks.usage import peak_of, resident_mib

#: MiB that a flood may add to the daemon and to what it runs, beside the program that floods
MOST_MORE_MIB = 64.0
_TIMEOUT_S = 3.0
_FLOOD = "import os\nblock = b'x' * 65536\nwhile True:\n    os.write(2, block)\n"
#: what would have scancel ask, or send notices to waiting jobs alone; and what would turn other commands round
VARIABLES = {
    "SCANCEL_INTERACTIVE": "1",
    "SCANCEL_STATE": "PENDING",
    "SCANCEL_USER": "nobody",
    "SQUEUE_FORMAT": "%i",
    "SQUEUE_STATES": "PENDING",
    "SINFO_FORMAT": "%N",
    "SCONTROL_ALL": "0",
    "SLURM_CLUSTERS": "elsewhere",
    "SLURM_BITSTR_LEN": "1",
    "SLURM_TIME_FORMAT": "relative",
}


@attack("telling-floods", "the site's `tell` command writes to standard error without end")
def telling_floods(bench: Bench) -> Result:
    """A command that floods is ended at once, far below its time-out's worth of memory."""
    script = script_file(bench.cluster, "flood.py", _FLOOD)
    command = json.dumps([sys.executable, str(script)])
    with bench.daemon(toml=f"[tell]\ncommand = {command}\ntimeout_s = {_TIMEOUT_S}\n") as running:
        bench.fill_up()
        before = resident_mib(running.process.pid)
        with peak_of(lambda: resident_mib(running.process.pid), every_s=0.01) as memory:
            first_s = bench.serve()
            began = time.monotonic()
            bench.cluster.wait_for(lambda: running.json("status")["daemon"]["told"].get("failed"), "the flood's end")
            ended_s = time.monotonic() - began
            bench.fill_up()
            second_s = bench.serve()
        polls = bench.polls()
    figure = (
        f"ended {ended_s:.1f} s after the TE job ran, {memory.value - before:+.0f} MiB at most,"
        f" honest TE jobs served after {first_s:.1f} and {second_s:.1f} s, longest poll {polls.longest_s:.2f} s"
    )
    held = memory.value - before <= MOST_MORE_MIB and max(first_s, second_s) <= LONGEST_WAIT_S
    return Result(figure=figure, held=held and polls.longest_s <= LONGEST_POLL_S)


@attack("variables", f"SCANCEL_INTERACTIVE and {len(VARIABLES) - 1} more of Slurm's variables where the daemon runs")
def variables(bench: Bench) -> Result:
    """The notice is delivered, and the polls see the queue as it is."""
    told = bench.cluster.shared / "told"
    trap = f"trap 'touch {told}; exit 0' USR1; sleep 3000 & wait"
    declared = "--comment=signal=B:USR1 grace=60"
    nodes = bench.cluster.definition.node_names
    bench.fill = [bench.cluster.sbatch(*BE_OF_A_NODE, declared, wrap=trap) for _ in nodes]
    with bench.daemon(**VARIABLES) as running:
        bench.fill_up()
        waited_s = bench.serve()
        delivered = told.exists()
        polls, memory = bench.polls(), resident_mib(running.process.pid)
    figure = (
        f"notice {'delivered' if delivered else 'NOT delivered'}, honest TE job served after {waited_s:.1f} s,"
        f" longest poll {polls.longest_s:.2f} s, {memory:.0f} MiB"
    )
    held = delivered and waited_s <= LONGEST_WAIT_S and polls.longest_s <= LONGEST_POLL_S
    return Result(figure=figure, held=held)
