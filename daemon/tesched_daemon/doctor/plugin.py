"""Findings on Slurm's plugin preempt/tesched: whether slurmctld has it, of which release, and obeys the marks."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from tesched_core.model.cluster import SlurmSettings
from tesched_core.model.limits import YieldBy

from tesched_daemon.config import Config
from tesched_daemon.doctor.finding import Finding, fail, ok, warn
from tesched_daemon.plugin_fit import PAGE, misfits, remarks

CHECK = "preempt/tesched"
FILE = "preempt_tesched.so"
#: what the plugin carries, for which release it was built
_BUILT_FOR = re.compile(rb"tesched-built-for=(\d+\.\d+\.\d+)")


def examine(config: Config, settings: SlurmSettings, values: Mapping[str, str], user: str) -> Iterator[Finding]:
    """Yield what is found; nothing where neither slurm.conf nor the configuration has to do with the plugin.

    `values` are slurm.conf's as `scontrol show config` writes them; `user` is the one whose marks are meant.
    """
    wanted, plugin = config.guard.lever is YieldBy.PLUGIN, settings.plugin
    if not wanted and plugin is None:
        return
    if not wanted:
        text = f"slurmctld has it, and guard.lever is {config.guard.lever}: nothing is marked, so Slurm preempts no job"
        yield ok(CHECK, text)
        return
    wrong = list(misfits(settings, config.slurm.marks, user))
    yield from (fail(CHECK, text, advice) for text, advice in wrong)
    if plugin is None:
        return
    yield from _release(settings.release, values)
    if not wrong:
        yield ok(CHECK, f"slurmctld obeys the marks in {plugin.marks}")
        te = [*(f"QOS {name}" for name in sorted(plugin.te_qos))]
        te += [f"partition {name}" for name in sorted(plugin.te_partitions)]
        if te:
            yield ok(CHECK, f"TE jobs to slurmctld are those of {', '.join(te)}")
    yield from (warn(CHECK, text, advice) for text, advice in remarks(settings))
    if "gpu" in values.get("GresTypes", "").split(",") and "gres/gpu" not in values.get("AccountingStorageTRES", ""):
        text = "AccountingStorageTRES has no gres/gpu: which job alone is enough, Slurm tells by CPUs and memory only"
        yield warn(
            CHECK, text, "set AccountingStorageTRES=gres/gpu in slurm.conf (it needs slurmdbd), then restart slurmctld"
        )
    exempt = values.get("PreemptExemptTime", "NONE")
    if exempt not in {"NONE", "(null)", "00:00:00", ""}:
        text = (
            f"PreemptExemptTime is {exempt}: a marked job is not preempted before, whatever guard.min_run_time_s says"
        )
        yield warn(CHECK, text, "take it out of slurm.conf, or lower it to guard.min_run_time_s")


def _release(release: str, values: Mapping[str, str]) -> Iterator[Finding]:
    """Yield for which release the file was built, where this host has slurmctld's folder of plugins."""
    folders = [Path(folder) for folder in values.get("PluginDir", "").split(":") if folder]
    found = next((folder / FILE for folder in folders if os.access(folder / FILE, os.R_OK)), None)
    if found is None:
        return  # slurmctld's host is another one; its log has what this would tell
    told = _BUILT_FOR.search(found.read_bytes())
    built = told[1].decode() if told else "an unknown release"
    if built == release:
        yield ok(CHECK, f"{found} is of Slurm {built}, as slurmctld is")
    else:
        text = f"{found} was built for {built}, and slurmctld is {release}: it lets no job be preempted"
        yield fail(CHECK, text, f"build it from the source of Slurm {release} ({PAGE}), install it, restart slurmctld")
