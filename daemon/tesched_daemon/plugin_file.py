"""The file of the plugin preempt/tesched on this host: of which release it is, and whether slurmctld can load it.

slurmctld does not start where it can't load the file. One of another release it loads, and no job is preempted.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from tesched_slurm.bounded_process import run_bounded

FILE = "preempt_tesched.so"
#: the release that the plugin carries
_BUILT_FOR = re.compile(rb"tesched-built-for=(\d+\.\d+\.\d+)")
#: Slurm's own preempt plugin of all releases: what slurmctld asks it for, it asks ours for
_SLURMS_OWN = "preempt_partition_prio.so"
_FUNCTION = re.compile(rb"\bpreempt_p_\w+")
_TIMEOUT_S = 20.0
_MOST_COMPLAINTS = 300
# In a process of its own: a file that is cut short ends by a signal whatever loads it.
_LOAD = """
import ctypes, sys
plugin = ctypes.CDLL(sys.argv[1])
for name in sys.argv[2:]:
    getattr(plugin, name)
"""


def find_file(folders: Iterable[str]) -> Path | None:
    """Return the first such file, as slurmctld looks for it; None where this host has none."""
    return next((path for path in (Path(folder) / FILE for folder in folders) if path.is_file()), None)


def built_for(folders: Iterable[str]) -> str:
    """Return the release that the file was built for, as "22.05.8"; empty where that can't be read here."""
    path = find_file(folders)
    with suppress(OSError):
        found = _BUILT_FOR.search(path.read_bytes()) if path is not None else None
        return found[1].decode() if found else ""
    return ""


def damage(folders: Sequence[str]) -> str:
    """Return why slurmctld's loader would refuse the file, in words; empty if it would not, or it can't be read here.

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
    ended = run_bounded(command, timeout_s=_TIMEOUT_S, most_out=None, environment={})
    if ended.status == 0:
        return ""
    lines = ended.err.decode(errors="replace").strip().splitlines()
    if ended.stopped or not lines:
        return ended.stopped or f"whatever loads it ends by signal {-ended.status}"
    return lines[-1].removeprefix("OSError: ").removeprefix("AttributeError: ")[:_MOST_COMPLAINTS]
