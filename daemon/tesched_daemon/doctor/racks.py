"""Findings where jobs are planned rack by rack: whether there are racks, and whether tesched is in time."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from tesched_core.model.actions import Failure
from tesched_core.model.cluster import Node, SlurmSettings
from tesched_core.model.snapshot import Snapshot
from tesched_policies.pdors.racks import racks_of
from tesched_slurm.columns import strange
from tesched_slurm.commands_observer import Settings
from tesched_slurm.run_command import Commands
from tesched_slurm.scontrol_cluster import read_nodes

from tesched_daemon.config import Config
from tesched_daemon.doctor.finding import Finding, ok, warn

#: SchedulerParameters' batch_sched_delay where it is not set, seconds (slurm.conf(5))
USUAL_DELAY_S = 3.0


def planning(config: Config, commands: Commands, values: Mapping[str, str]) -> Iterator[Finding]:
    """Yield what is to be said of the racks, and of how soon Slurm starts jobs; `values` are slurm.conf's."""
    settings = Settings(commands=commands).now()
    nodes = seen_nodes(commands)
    failed = next((one for one in (settings, nodes) if isinstance(one, Failure)), None)
    if failed is not None:
        yield warn("racks", f"they cannot be seen: {failed.message}", "ask again")
    elif not isinstance(settings, Failure) and not isinstance(nodes, Failure):
        yield racks(config, nodes, settings)
    yield in_time(config, values)


def seen_nodes(commands: Commands) -> Sequence[Node] | Failure:
    """Read all nodes, or say why they cannot be."""
    said = commands.run(("scontrol", "-o", "show", "node"))
    try:
        return said if isinstance(said, Failure) else read_nodes(said)
    except (KeyError, ValueError) as error:
        return strange("scontrol show node", error)


def racks(config: Config, nodes: Sequence[Node], settings: SlurmSettings) -> Finding:
    """Report the racks that there are."""
    prefix = config.policy.table("pdors").rack_feature
    snapshot = replace(Snapshot.of(time.time(), nodes=nodes), settings=settings)
    row, names = racks_of(snapshot, tuple(snapshot.nodes), prefix)
    sizes = Counter(row.tolist())
    if not prefix and not settings.switches:
        page = "docs/discussion/pdors-on-slurm.md"
        advice = f"write a topology.conf, or name the features in policy.pdors.rack_feature; {page}"
        return warn("racks", "Slurm has no topology: all nodes are taken for one rack", advice)
    alone = [names[rack] for rack, count in sizes.items() if count == 1]
    if len(alone) == len(names) > 1:
        where = f"a feature that begins with {prefix!r}" if prefix else "a switch of the topology"
        return warn("racks", f"no two nodes have {where} in common", "every job of several nodes counts as far apart")
    return ok("racks", f"{len(names)} racks of {min(sizes.values())} to {max(sizes.values())} nodes")


def in_time(config: Config, values: Mapping[str, str]) -> Finding:
    """Check whether a new job is seen before Slurm starts it."""
    found = re.search(r"batch_sched_delay=(\d+)", values.get("SchedulerParameters", ""))
    delay_s, poll_s = float(found[1]) if found else USUAL_DELAY_S, config.loop.poll_interval_s
    if poll_s < delay_s:
        return ok("in time", f"a new job is seen within {poll_s:g} s, and Slurm starts it after {delay_s:g} s")
    text = f"Slurm may start a new job {delay_s:g} s after it came, and tesched polls every {poll_s:g} s"
    advice = "make loop.poll_interval_s less than batch_sched_delay, or poke at submission; docs/howto/at-once.md"
    return warn("in time", text, advice)
