"""Words for a limit: as sacctmgr sets it, and the reason that Slurm gives to a job that waits for it.

Source
    sacctmgr(1); squeue(1), JOB REASON CODES; `src/common/slurm_protocol_defs.c` of 22.05.8.
"""

from __future__ import annotations

from tesched_slurm.limits_in_use import LimitInUse

#: sacctmgr's names, where they are not those of scontrol
_NAMES = {
    "MaxJobsPU": "MaxJobsPerUser",
    "MaxJobsPA": "MaxJobsPerAccount",
    "MaxSubmitJobsPU": "MaxSubmitJobsPerUser",
    "MaxSubmitJobsPA": "MaxSubmitJobsPerAccount",
    "MaxTRESPU": "MaxTRESPerUser",
    "MaxTRESPA": "MaxTRESPerAccount",
    "MaxTRESRunMinsPU": "MaxTRESRunMinsPerUser",
    "MaxTRESRunMinsPA": "MaxTRESRunMinsPerAccount",
    "MaxTRESPJ": "MaxTRESPerJob",
    "MaxTRESPN": "MaxTRESPerNode",
    "MaxTRESMinsPJ": "MaxTRESMinsPerJob",
    "MinTRESPJ": "MinTRESPerJob",
    "MaxWallPJ": "MaxWall",
}
#: the reason for a limit of no TRES: of an association, of a QOS
_PLAIN = {
    "GrpJobs": ("AssocGrpJobsLimit", "QOSGrpJobsLimit"),
    "GrpSubmitJobs": ("AssocGrpSubmitJobsLimit", "QOSGrpSubmitJobsLimit"),
    "GrpWall": ("AssocGrpWallLimit", "QOSGrpWallLimit"),
    "MaxJobs": ("AssocMaxJobsLimit", ""),
    "MaxJobsPU": ("", "QOSMaxJobsPerUserLimit"),
    "MaxJobsPA": ("", "MaxJobsPerAccount"),
    "MaxSubmitJobs": ("AssocMaxSubmitJobLimit", ""),
    "MaxSubmitJobsPU": ("", "QOSMaxSubmitJobPerUserLimit"),
    "MaxSubmitJobsPA": ("", "MaxSubmitJobsPerAccount"),
    "MaxWallPJ": ("AssocMaxWallDurationPerJobLimit", "QOSMaxWallDurationPerJobLimit"),
}
#: what stands around the TRES' word in a reason: with {} for it
_AROUND = {
    "GrpTRES": "Grp{}",
    "GrpTRESMins": "Grp{}Minutes",
    "GrpTRESRunMins": "Grp{}RunMinutes",
    "MaxTRESPJ": "Max{}PerJob",
    "MaxTRESPN": "Max{}PerNode",
    "MaxTRESMinsPJ": "Max{}MinutesPerJob",
    "MinTRESPJ": "Min{}",
    "MaxTRESPU": "Max{}PerUser",
    "MaxTRESPA": "Max{}PerAccount",
    "MaxTRESRunMinsPU": "Max{}RunMinsPerUser",
    "MaxTRESRunMinsPA": "Max{}RunMinsPerAccount",
}
_OF_TRES = {"cpu": "Cpu", "mem": "Mem", "node": "Node", "energy": "Energy", "billing": "Billing"}
_OF_KIND = {"gres": "GRES", "license": "License", "bb": "BB"}
#: reasons that end in a word of their own
_LIMIT = frozenset(
    {
        *("GrpCpu", "GrpMem", "GrpNode", "GrpCPUMinutes", "GrpCPURunMinutes", "MaxCpuPerJob", "MaxNodePerJob"),
        *("MaxCpuMinutesPerJob", "MaxCpuPerUser", "MaxNodePerUser"),
    }
)


def limit_name(one: LimitInUse) -> str:
    """Return the limit as sacctmgr sets it."""
    unit = "M" if one.tres == "mem" and "Mins" not in one.kind else ""
    minutes = " min" if one.kind in {"GrpWall", "MaxWallPJ"} else ""
    return f"{_NAMES.get(one.kind, one.kind)}={f'{one.tres}=' if one.tres else ''}{one.most}{unit}{minutes}"


def reason_of(one: LimitInUse, *, is_qos: bool) -> str:
    """Return the reason that Slurm gives to a job that waits for this limit."""
    if not one.tres:
        return _PLAIN[one.kind][is_qos]
    word = _OF_TRES.get(one.tres) or _OF_KIND.get(one.tres.partition("/")[0], "Unknown")
    if word == "Mem" and is_qos and one.kind != "GrpTRES":
        word = "Memory"
    if word == "Cpu" and one.kind in {"GrpTRESMins", "GrpTRESRunMins"}:
        word = "CPU"
    found = _AROUND[one.kind].format(word)
    if one.kind == "MinTRESPJ" and word == "Cpu":
        return "QOSMinCpuNotSatisfied"
    if one.kind in {"MaxTRESPA", "MaxTRESRunMinsPU", "MaxTRESRunMinsPA"}:
        return found
    return f"{'QOS' if is_qos else 'Assoc'}{found}{'Limit' if found in _LIMIT else ''}"
