"""sbatch's options from its environment variables (SBATCH_PARTITION, …).

They go before those in the script, and after those on the command line.

Source: sbatch(1), INPUT ENVIRONMENT VARIABLES, and the variables that 22.05.8 and 26.05.5 read.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tesched_slurm.sbatch_options import STAND_ALONE, SbatchOption

#: by variable: the option that it says
VARIABLES: Mapping[str, str] = MappingProxyType(
    {
        "SBATCH_ACCOUNT": "account",
        "SBATCH_ARRAY_INX": "array",
        "SBATCH_CLUSTERS": "clusters",
        "SBATCH_COMMENT": "comment",
        "SBATCH_CONSTRAINT": "constraint",
        "SBATCH_CORE_SPEC": "core-spec",
        "SBATCH_CPUS_PER_GPU": "cpus-per-gpu",
        "SBATCH_EXCLUSIVE": "exclusive",
        "SBATCH_GPUS": "gpus",
        "SBATCH_GPUS_PER_NODE": "gpus-per-node",
        "SBATCH_GPUS_PER_SOCKET": "gpus-per-socket",
        "SBATCH_GPUS_PER_TASK": "gpus-per-task",
        "SBATCH_GRES": "gres",
        "SBATCH_GRES_FLAGS": "gres-flags",
        "SBATCH_HINT": "hint",
        "SBATCH_IGNORE_PBS": "ignore-pbs",
        "SBATCH_JOB_NAME": "job-name",
        "SBATCH_MEM_PER_CPU": "mem-per-cpu",
        "SBATCH_MEM_PER_GPU": "mem-per-gpu",
        "SBATCH_MEM_PER_NODE": "mem",
        "SBATCH_NO_REQUEUE": "no-requeue",
        "SBATCH_OPEN_MODE": "open-mode",
        "SBATCH_OVERCOMMIT": "overcommit",
        "SBATCH_PARTITION": "partition",
        "SBATCH_QOS": "qos",
        "SBATCH_REQUEUE": "requeue",
        "SBATCH_REQ_SWITCH": "switches",
        "SBATCH_RESERVATION": "reservation",
        "SBATCH_SPREAD_JOB": "spread-job",
        "SBATCH_THREADS_PER_CORE": "threads-per-core",
        "SBATCH_THREAD_SPEC": "thread-spec",
        "SBATCH_TIMELIMIT": "time",
        "SBATCH_USE_MIN_NODES": "use-min-nodes",
        "SLURM_CLUSTERS": "clusters",
        "SLURM_HINT": "hint",
        "SLURM_NTASKS_PER_GPU": "ntasks-per-gpu",
    }
)


def options_of_environment(environment: Mapping[str, str]) -> tuple[SbatchOption, ...]:
    """Return the options that the environment says, without a value those that take none."""
    return tuple(
        SbatchOption(name=name, value=(environment[variable] or None) if _takes(name) else None, variable=variable)
        for variable, name in VARIABLES.items()
        if variable in environment
    )


def _takes(name: str) -> bool:
    return name not in STAND_ALONE or name == "exclusive"
