"""Request of a job that is not submitted: what its record would say, from sbatch's options.

What Slurm works out of options is taken over where that is certain (tried on 22.05.8 beside the records of the same
jobs: tests/cluster/test_ask_requests.py); each other option that says what the job asks for is named, and nothing is
guessed of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tesched_core.model.cluster import Partition, Request, SlurmSettings
from tesched_slurm import slurm_formats as formats
from tesched_slurm.sbatch_options import STAND_ALONE, TAKE_A_WORD, SbatchOption


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: options that say what the job asks for, and are taken over
_READ = _names(
    """
    nodes ntasks cpus-per-task ntasks-per-node tasks-per-node mincpus mem mem-per-cpu mem-per-gpu gres gpus
    gpus-per-node gpus-per-task cpus-per-gpu exclusive oversubscribe constraint nodelist exclude tmp
    """
)
#: those that say nothing of that, or are taken over elsewhere
_NO_REQUEST = _names(
    """
    account array autocomplete begin chdir clusters cluster comment context deadline delay-boot dependency error
    export export-file external extra get-user-env help hold ignore-pbs input job-name kill-on-invalid-dep
    licenses mail-type mail-user nice no-kill no-requeue open-mode output parsable partition priority profile
    propagate qos quiet reboot requeue reservation signal test-only time usage verbose version wait
    wait-all-nodes wckey wrap acctg-freq bb bbf cpu-freq gpu-bind gpu-freq mem-bind tres-bind distribution container
    container-id mcs-label network power
    """
)
_COUNT = re.compile(r"(\d{1,9})([kKmM]?)")
_TIMES = {"": 1, "k": 1024, "m": 1_048_576}


class _Unread(Exception):  # noqa: N818 - it ends the reading of one option
    """An option's value has a form that is not taken over."""


def request_of(
    options: Mapping[str, SbatchOption], partition: Partition | None, settings: SlurmSettings
) -> tuple[Request, tuple[str, ...]]:
    """Return the request of a job in this partition, and the options that were not understood, each as it was said."""
    unread = [_said(one) for name, one in options.items() if name not in _READ | _NO_REQUEST and _is_sbatchs(name)]
    unread += [f"--{name}, an option of a site's plugin" for name in options if not _is_sbatchs(name)]
    try:
        return _request(options, partition, settings), tuple(unread)
    except _Unread as error:
        return Request(), (*unread, str(error))


def _is_sbatchs(name: str) -> bool:
    return name in TAKE_A_WORD | STAND_ALONE


def _said(option: SbatchOption) -> str:
    return f"--{option.name}" if option.value is None else f"--{option.name}={option.value}"


def _request(options: Mapping[str, SbatchOption], partition: Partition | None, settings: SlurmSettings) -> Request:
    low, high = _nodes(options)
    per_node = _number(options, "ntasks-per-node") or _number(options, "tasks-per-node")
    tasks = _number(options, "ntasks") or (low or 1) * (per_node or 1)
    if low is not None and high is not None and "ntasks" in options:
        # sbatch takes no more nodes than there are tasks.
        low, high = min(low, tasks), max(min(high, tasks), 1)
    each = _number(options, "cpus-per-task") or 1
    per_job, on_node, per_task = (_gres(options, name) for name in ("gpus", "gpus-per-node", "gpus-per-task"))
    if sum(map(bool, (per_job, on_node, per_task))) > 1:
        raise _Unread("several of --gpus, --gpus-per-node and --gpus-per-task")
    cpus_per_gpu, mem_per_gpu = _number(options, "cpus-per-gpu"), _size(options, "mem-per-gpu")
    shares = options.get("exclusive")
    if shares is not None and shares.value not in {None, "user"}:
        raise _Unread(_said(shares))
    exclusive = shares is not None and shares.value is None
    sharing = "NODE" if exclusive else "USER" if shares is not None else "YES" if "oversubscribe" in options else "OK"
    gpus = bool(per_job or on_node or per_task or any(name.startswith("gpu") for name, _ in _gres(options, "gres")))
    memory = _memory(options, partition, settings, mem_per_gpu, gpus=gpus)
    return Request(
        min_nodes=low or 1,
        max_nodes=high if high is not None else max(low or 1, tasks),
        cpus=tasks * each,
        tasks=tasks,
        cpus_per_task=each,
        min_cpus_per_node=max(_number(options, "mincpus") or 1, each * (per_node or 1)),
        tasks_per_node=per_node or 0,
        gres_per_node=(*_gres(options, "gres"), *on_node),
        gres_per_job=per_job,
        gres_per_task=per_task,
        cpus_per_gres=(("gpu", cpus_per_gpu),) if cpus_per_gpu else (),
        exclusive=exclusive,
        sharing=sharing,
        features=_text(options, "constraint"),
        required_nodes=_hosts(options, "nodelist"),
        excluded_nodes=_hosts(options, "exclude"),
        tmp_mib=_size(options, "tmp") or 0,
        **memory,  # type: ignore[arg-type]
    )


def _memory(
    options: Mapping[str, SbatchOption],
    partition: Partition | None,
    settings: SlurmSettings,
    mem_per_gpu: int | None,
    *,
    gpus: bool,
) -> dict[str, object]:
    """Return the fields of the request that say how much memory: the job's own word, else the partition's or site's."""
    named = [name for name in ("mem", "mem-per-cpu", "mem-per-gpu") if name in options]
    if len(named) > 1:
        raise _Unread(" and ".join(f"--{name}" for name in named))
    if mem_per_gpu:
        return {"mem_per_gres": (("gpu", mem_per_gpu),)}
    if "mem" in options:
        return {"mem_per_node_mib": _size(options, "mem")}
    if "mem-per-cpu" in options:
        return {"mem_per_cpu_mib": _size(options, "mem-per-cpu")}
    by_gpu = (partition.def_mem_per_gpu_mib if partition else 0) or settings.def_mem_per_gpu_mib
    if gpus and by_gpu:
        return {"mem_per_gres": (("gpu", by_gpu),)}
    for source in (partition, settings):
        if source is not None and source.def_mem_per_cpu_mib:
            return {"mem_per_cpu_mib": source.def_mem_per_cpu_mib}
        if source is not None and source.def_mem_per_node_mib:
            return {"mem_per_node_mib": source.def_mem_per_node_mib}
    return {"mem_per_node_mib": 0}


def _text(options: Mapping[str, SbatchOption], name: str) -> str:
    option = options.get(name)
    return (option.value or "") if option is not None else ""


def _nodes(options: Mapping[str, SbatchOption]) -> tuple[int | None, int | None]:
    """Return fewest and most nodes; None where nothing was said."""
    option = options.get("nodes")
    if option is None:
        required = len(_hosts(options, "nodelist"))
        return (required, None) if required > 1 else (None, None)
    parts = (option.value or "").split("-")
    found = [_COUNT.fullmatch(part) for part in parts]
    if not 1 <= len(found) <= 2 or None in found:
        raise _Unread(_said(option))
    counts = [int(one[1]) * _TIMES[one[2].lower()] for one in found if one is not None]
    return counts[0], counts[-1]


def _number(options: Mapping[str, SbatchOption], name: str) -> int | None:
    option = options.get(name)
    if option is None:
        return None
    if option.value is None or not re.fullmatch(r"\d{1,9}", option.value):
        raise _Unread(_said(option))
    return int(option.value)


def _size(options: Mapping[str, SbatchOption], name: str) -> int | None:
    """Return MiB of `2G`, `500` (MiB), `1T`."""
    option = options.get(name)
    if option is None:
        return None
    found = re.fullmatch(r"(\d{1,12})([KMGT]?)B?", (option.value or "").upper())
    if found is None:
        raise _Unread(_said(option))
    mib = formats.mebibytes(f"{found[1]}{found[2]}")
    return max(mib or 0, 1) if int(found[1]) else 0


def _gres(options: Mapping[str, SbatchOption], name: str) -> tuple[tuple[str, int], ...]:
    """Return the devices of --gres, or of --gpus and its like, in which the name gpu is left out."""
    option = options.get(name)
    if option is None or (option.value or "").lower() == "none":
        return ()
    text = option.value or ""
    if name != "gres":
        text = ",".join(f"gpu:{part}" for part in text.split(","))
    try:
        found = formats.asked_gres(text)
    except ValueError:
        found = ()
    if not found:
        raise _Unread(_said(option))
    return found


def _hosts(options: Mapping[str, SbatchOption], name: str) -> tuple[str, ...]:
    option = options.get(name)
    if option is None:
        return ()
    try:
        return formats.hosts(option.value or "")
    except ValueError as error:
        raise _Unread(_said(option)) from error
