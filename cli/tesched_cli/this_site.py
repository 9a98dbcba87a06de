"""This site as the simulated Slurm has it: what its slurm.conf says, and the configuration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from tesched_core.model.cluster import Node, SlurmSettings
from tesched_daemon.config import Config
from tesched_sim.experiment import ExperimentSetting
from tesched_sim.slurm_settings import Behaviour, RequeuedTo

#: a job that is requeued goes to the end of the queue from this release on
_TO_THE_END = (26, 5)


def setting_of(config: Config) -> ExperimentSetting:
    """Setting of the daemon that is configured, which polls as often as that one."""
    behaviour = Behaviour.slurm(poll_s=config.loop.poll_interval_s)
    return replace(ExperimentSetting(), site=behaviour, policy=config.policy, guard=config.guard)


def on_this_site(setting: ExperimentSetting, slurm: SlurmSettings) -> ExperimentSetting:
    """The setting, with what this site's slurm.conf says."""
    release = tuple(int(part) for part in slurm.release.split(".")[:2] if part.isdecimal())
    site = replace(
        setting.site,
        kill_wait_s=float(slurm.kill_wait_s),
        requeue_delay_s=float(slurm.requeue_delay_s),
        requeued_to=RequeuedTo.TAIL if release >= _TO_THE_END else RequeuedTo.PLACE,
    )
    return replace(setting, site=site)


def alike(nodes: Sequence[Node]) -> dict[str, str]:
    """Settings of a workload for as many equal nodes, each like most of these."""
    totals = Counter((node.total.cpus, node.total.mem_mib, node.total.gpus) for node in nodes)
    ((cpus, mem_mib, gpus), _) = totals.most_common(1)[0]
    ours = {"nodes": len(nodes), "cpus": cpus, "mem_gib": max(mem_mib // 1024, 1), "gpus": gpus}
    return {key: str(value) for key, value in ours.items()}
