"""Findings on Slurm's plugin preempt/tesched: whether slurmctld has it, can load it again, and obeys the marks."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tesched_core.model.cluster import PluginSettings, SlurmSettings
from tesched_core.model.limits import YieldBy
from tesched_core.model.visible import visible
from tesched_slurm.bounded_process import ours, run_bounded

from tesched_daemon.config import Config
from tesched_daemon.doctor.finding import Finding, fail, ok, warn
from tesched_daemon.new_jobs import runs_here
from tesched_daemon.plugin_file import FILE, built_for, find_file
from tesched_daemon.plugin_fit import PAGE, misfits, remarks

CHECK = "preempt/tesched"
_ANEW = f"install it anew before slurmctld is restarted, or set PreemptType as before ({PAGE})"
#: Slurm's own preempt plugin of all releases: what slurmctld asks it for, it asks ours for
_SLURMS_OWN = "preempt_partition_prio.so"
_FUNCTION = re.compile(rb"\bpreempt_p_\w+")
_TIMEOUT_S = 20.0
_MOST_COMPLAINTS = 300
#: where this Python itself may be found
_ENVIRONMENT = frozenset({"LD_LIBRARY_PATH"})
# In a process of its own: a file that is cut short ends by a signal whatever loads it.
_LOAD = """
import ctypes, sys
print("begins", flush=True)
plugin = ctypes.CDLL(sys.argv[1])
for name in sys.argv[2:]:
    getattr(plugin, name)
"""


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
        if plugin is not None:
            yield from _file(settings, plugin, values)
        return
    wrong = list(misfits(settings, config.slurm.marks, user))
    yield from (fail(CHECK, text, advice) for text, advice in wrong)
    if plugin is None:
        return
    yield from _file(settings, plugin, values)
    if not wrong:
        yield ok(CHECK, f"slurmctld obeys the marks in {plugin.marks}")
        te = [*(f"QOS {name}" for name in sorted(plugin.te_qos))]
        te += [f"partition {name}" for name in sorted(plugin.te_partitions)]
        if te:
            yield ok(CHECK, f"TE jobs to slurmctld are those of {', '.join(te)}")
    yield from (warn(CHECK, text, advice) for text, advice in remarks(settings))
    if "gpu" in values.get("GresTypes", "").split(",") and "gres/gpu" not in values.get("AccountingStorageTRES", ""):
        text = "AccountingStorageTRES has no gres/gpu: Slurm judges by CPUs and memory only whether one job is enough"
        yield warn(
            CHECK, text, "set AccountingStorageTRES=gres/gpu in slurm.conf (it needs slurmdbd), then restart slurmctld"
        )
    exempt = values.get("PreemptExemptTime", "NONE")
    if exempt not in {"NONE", "(null)", "00:00:00", ""}:
        text = (
            f"PreemptExemptTime is {exempt}: a marked job is not preempted before, whatever guard.min_run_time_s says"
        )
        yield warn(CHECK, text, "take it out of slurm.conf, or lower it to guard.min_run_time_s")


def _file(settings: SlurmSettings, plugin: PluginSettings, values: Mapping[str, str]) -> Iterator[Finding]:
    """Yield whether slurmctld can load the file at its next start, where this host has its folder of plugins."""
    found = find_file(plugin.folders)
    if found is None:
        if _is_here(values):
            text = f"{FILE} is in no folder of PluginDir ({':'.join(plugin.folders)}): slurmctld will not start again"
            yield fail(CHECK, text, _ANEW)
        return  # slurmctld's host is another one; its log has what this would find
    if wrong := _damage(plugin.folders):
        yield fail(CHECK, f"{found} is damaged: slurmctld will not start again ({visible(wrong)})", _ANEW)
    elif built_for(plugin.folders) == settings.release:
        yield ok(CHECK, f"{found} is of Slurm {settings.release}, as slurmctld is")


def _is_here(values: Mapping[str, str]) -> bool:
    """Check whether slurmctld, or its backup, runs on this host."""
    return runs_here(value.partition("(")[0] for key, value in values.items() if key.startswith("SlurmctldHost"))


def _damage(folders: Sequence[str]) -> str:
    """Reason that slurmctld's loader would refuse the file, in words; empty: it would not, or it can't be tried here.

    What the file must have is seen from Slurm's own preempt plugin.
    """
    path = find_file(folders)
    if path is None or not os.access(path, os.R_OK):
        return ""
    wanted: set[str] = set()
    for own in (Path(folder) / _SLURMS_OWN for folder in folders):
        with suppress(OSError):
            wanted.update(found.decode() for found in _FUNCTION.findall(own.read_bytes()))
    names = ("plugin_name", "plugin_type", "plugin_version", "tesched_built_for", *sorted(wanted))
    command = (sys.executable, "-I", "-c", _LOAD, str(path), *names)
    ended = run_bounded(command, timeout_s=_TIMEOUT_S, most_out=_MOST_COMPLAINTS, environment=ours(_ENVIRONMENT))
    if ended.status == 0 or not ended.out.startswith(b"begins"):
        return ""
    lines = ended.err.decode(errors="replace").strip().splitlines()
    if ended.stopped or not lines:
        return ended.stopped or f"whatever loads it ends by signal {-ended.status}"
    return lines[-1].removeprefix("OSError: ").removeprefix("AttributeError: ")[:_MOST_COMPLAINTS]
