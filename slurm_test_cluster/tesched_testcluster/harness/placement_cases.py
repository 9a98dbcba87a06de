"""Random clusters and random requests for `placement.py`, each drawn from a seed.

Requests are those of a mixed site: mostly CPUs, memory and GPUs in Slurm's many ways to ask for them, at times several
nodes, partitions and features, and rarely what placement does not model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from tesched_testcluster.definition import ClusterDefinition, NodeGroup, PartitionDefinition

_SHAPES = ((4, 1, 1), (8, 1, 1), (8, 2, 1), (8, 2, 2), (16, 2, 2), (12, 1, 2))
_GRES: tuple[dict[str, int], ...] = ({}, {"gpu": 4}, {"gpu:a": 4}, {"gpu:a": 2, "gpu:b": 2}, {"gpu": 2, "shard": 8})
#: GRES without files, of each node of a kind
_COUNTED: tuple[dict[str, str], ...] = ({}, {"tmp": "400G"}, {"tmp": "3T"}, {"tmp": "400G", "lic:u": "2K"})
_SELECT = ("CR_Core_Memory",) * 6 + ("CR_CPU_Memory", "CR_Core")
_FAST = "sched_interval=1,sched_min_interval=0,batch_sched_delay=0,bf_interval=1,default_queue_depth=1000"
#: settings of the second partition; the first has none
_PARTITION: tuple[dict[str, str], ...] = (
    {},
    {"MaxCPUsPerNode": "4"},
    {"MaxMemPerNode": "2000"},
    {"DefMemPerGPU": "700"},
    {"DefCpuPerGPU": "2"},
    {"DefCpuPerGPU": "2", "DefMemPerGPU": "500"},
    {"ExclusiveUser": "YES"},
    {"OverSubscribe": "EXCLUSIVE"},
    {"OverSubscribe": "YES:2"},
    {"MaxNodes": "2"},
)


def cluster_of(rng: Random) -> ClusterDefinition:
    """Return a small cluster: two or three kinds of nodes, two partitions, sometimes racks and defaults for GPUs."""
    groups = []
    for prefix in ("a", "b", "c")[: rng.choice((2, 2, 3))]:
        cpus, sockets, threads = rng.choice(_SHAPES)
        groups.append(
            NodeGroup(
                prefix=prefix,
                count=rng.choice((1, 2, 2)),
                cpus=cpus,
                sockets=sockets,
                threads_per_core=threads,
                mem_mib=rng.choice((4000, 8000, 16000)),
                gres=rng.choice(_GRES),
                features=tuple(rng.sample(("x", "y", "z"), rng.choice((0, 1, 2)))),
            )
        )
    some = [group.hostlist for group in rng.sample(groups, rng.choice((1, len(groups))))]
    partitions = (
        PartitionDefinition(name="main", default=True),
        PartitionDefinition(
            name="other",
            nodes=",".join(some),
            priority_tier=rng.choice((None, 5)),
            settings=rng.choice(_PARTITION),
        ),
    )
    settings = {"SelectTypeParameters": rng.choice(_SELECT), "SchedulerParameters": _FAST}
    has_gpus = any("gpu" in name for group in groups for name in group.gres)
    if has_gpus and rng.random() < 0.15:
        settings["DefMemPerGPU"] = "900"
    if has_gpus and rng.random() < 0.15:
        settings["DefCpuPerGPU"] = "2"
    names = [name for group in groups for name in group.names]
    racks = {}
    if rng.random() < 0.2 and len(names) > 2:
        half = len(names) // 2
        racks = {"s1": ",".join(names[:half]), "s2": ",".join(names[half:])}
    by_cpu = rng.choice((100, 100, 300, None))
    # Drawn last, so that the rest of a cluster is the same as before there was this.
    if rng.random() < 0.4:
        groups = [replace(group, counted=rng.choice(_COUNTED)) for group in groups]
    if has_gpus and rng.random() < 0.2:
        main = replace(partitions[0], settings={"DefMemPerGPU": "600"})
        partitions, by_cpu = (main, partitions[1]), rng.choice((by_cpu, None))
    if rng.random() < 0.1:
        groups = [replace(group, cores_are_cpus=group.threads_per_core > 1) for group in groups]
    return ClusterDefinition(
        groups=tuple(groups),
        partitions=partitions,
        settings=settings,
        def_mem_per_cpu_mib=by_cpu,
        kill_wait_s=2,
        min_job_age_s=10,
        racks=racks,
    )


#: requests, or clusters, that are drawn at most until one has what is wanted of it
_DRAWS = 20_000


def cluster_with(rng: Random, words: Sequence[str] = ()) -> ClusterDefinition:
    """Return such a cluster whose description (`plain`) has all of these words; the last one drawn if none has."""
    for _ in range(_DRAWS):
        drawn = cluster_of(rng)
        if all(word in plain(drawn) for word in words):
            break
    return drawn


def request_with(rng: Random, definition: ClusterDefinition, words: Sequence[str] = ()) -> list[str]:
    """Return sbatch's options of a TE job that have all of these words; the last one drawn if none has."""
    for _ in range(_DRAWS):
        drawn = request(rng, definition)
        if all(word in " ".join(drawn) for word in words):
            break
    return drawn


def plain(definition: ClusterDefinition) -> str:
    """Return the cluster in one line."""
    nodes = "; ".join(
        f"{group.hostlist}: {group.cpus} CPUs, {group.sockets} sockets, "
        f"{group.threads_per_core} threads a core{', one CPU' if group.cores_are_cpus else ''}, "
        f"{group.mem_mib} MiB, {dict(group.gres)} {dict(group.counted)}, features {','.join(group.features) or '-'}"
        for group in definition.groups
    )
    parts = "; ".join(
        f"{part.name} on {part.nodes} tier {part.priority_tier} {dict(part.settings)}" for part in definition.partitions
    )
    own = {name: value for name, value in definition.settings.items() if name != "SchedulerParameters"}
    return f"{nodes} | {parts} | {own}, DefMemPerCPU={definition.def_mem_per_cpu_mib}, racks {dict(definition.racks)}"


def running_request(rng: Random, definition: ClusterDefinition) -> list[str]:
    """Return sbatch's options of a job that fills the cluster: small, and rarely strange."""
    options = [f"-n{rng.choice((1, 1, 2, 3, 4))}"]
    if rng.random() < 0.2:
        options.append(f"-c{rng.choice((2, 3))}")
    if rng.random() < 0.15:
        options.append("-N2")
        options[0] = f"-n{rng.choice((2, 3, 4))}"
    else:
        options.append("-N1")
    options += _memory(rng)
    if rng.random() < 0.4:
        options += _devices(rng, definition)
    if rng.random() < 0.05:
        options.append("--exclusive")
    if rng.random() < 0.3:
        options.append("-pother")
    if rng.random() < 0.06:
        options.append("--hint=nomultithread")
    return _with_counted(options, rng, definition, ("tmp:100G", "tmp:130g", "tmp:90gb", "lic:500", "lic:u:1k"))


def request(rng: Random, definition: ClusterDefinition) -> list[str]:
    """Return sbatch's options of a TE job."""
    options: list[str] = []
    tasks = rng.choice((1, 1, 1, 2, 2, 3, 4, 6, 8))
    if rng.random() < 0.25:
        options.append(rng.choice(("-N1", "-N2", "-N2", "-N1-2", "-N2-3", "-N3")))
    if rng.random() < 0.06:
        options = [f"-N{rng.choice((1, 2, 2, 3))}", f"--ntasks-per-node={rng.choice((1, 2, 3))}"]
    elif tasks > 1 or rng.random() < 0.5:
        options.append(f"-n{tasks}")
    if rng.random() < 0.3:
        options.append(f"-c{rng.choice((2, 3, 4))}")
    options += _memory(rng)
    if rng.random() < 0.45:
        options += _devices(rng, definition)
    drawn = rng.random()
    if drawn < 0.12:
        options.append("-pother")
    elif drawn < 0.3:
        options.append(rng.choice(("-pmain,other", "-pother,main")))
    several = any(option.startswith("-N") and option != "-N1" for option in options)
    for chance, option in (
        (0.05, "--exclusive"),
        (0.06, rng.choice(("--hint=nomultithread", "--threads-per-core=1"))),
        (0.0 if several else 0.05, f"--mincpus={rng.choice((2, 3, 5))}"),
        (0.04, "--ntasks-per-core=1"),
        (0.005, "--ntasks-per-core=2"),
        (0.08, f"--constraint={rng.choice(('x', 'y', 'x|y', 'x&y', 'z'))}"),
        (0.04, f"--exclude={rng.choice(definition.node_names)}"),
        (0.05, f"--nodelist={rng.choice(definition.node_names)}"),
        (0.03, "--switches=1"),
        (0.005, "--contiguous"),
        (0.005, "--oversubscribe"),
        (0.01, "--exclusive=user"),
        (0.002, "--ntasks-per-socket=1"),
        (0.002, "--gres-flags=enforce-binding"),
        (0.002, "--sockets-per-node=2"),
    ):
        if rng.random() < chance:
            options.append(option)
    amounts = ("tmp:199G", "tmp:250g", "tmp:1t", "tmp:300GB", "lic:u:1500", "lic:1k")
    return _with_counted(options, rng, definition, amounts)


def _with_counted(
    options: list[str], rng: Random, definition: ClusterDefinition, amounts: tuple[str, ...]
) -> list[str]:
    """Return the options with GRES without files, at times, where the cluster has such."""
    kinds = {name.partition(":")[0] for group in definition.groups for name in group.counted}
    some = [amount for amount in amounts if amount.partition(":")[0] in kinds]
    if not some or rng.random() < 0.5:
        return options
    amount = rng.choice(some)
    # Of two --gres sbatch takes the last.
    asked = [option.removeprefix("--gres=") for option in options if option.startswith("--gres=")]
    rest = [option for option in options if not option.startswith("--gres=")]
    return [*rest, f"--gres={','.join((*asked, amount))}"]


def _memory(rng: Random) -> list[str]:
    drawn = rng.random()
    if drawn < 0.35:
        return []
    if drawn < 0.65:
        return [f"--mem={rng.choice((100, 500, 1000, 3000))}"]
    if drawn < 0.95:
        return [f"--mem-per-cpu={rng.choice((50, 200, 400, 900))}"]
    return ["--mem=0"]


def _devices(rng: Random, definition: ClusterDefinition) -> list[str]:
    kinds = sorted({name for group in definition.groups for name in group.gres})
    if not kinds:
        return []
    kind = rng.choice(kinds)
    if kind == "shard":
        return [f"--gres=shard:{rng.choice((1, 2, 3))}"]
    named = kind.partition(":")[2] + ":" if ":" in kind and rng.random() < 0.6 else ""
    count = rng.choice((1, 1, 2, 2, 3, 4))
    drawn = rng.random()
    if drawn < 0.4:
        options = [f"--gres=gpu:{named}{count}"]
    elif drawn < 0.6:
        options = [f"--gpus={named}{count}"]
    elif drawn < 0.75:
        options = [f"--gpus-per-node={named}{count}"]
    elif drawn < 0.9:
        options = [f"--gpus-per-task={named}{rng.choice((1, 1, 2))}"]
    elif drawn < 0.95:
        options = [f"--gpus={count}", f"--gpus-per-node={max(count // 2, 1)}"]
    else:
        options = ["--gres=gpu:a:1,gpu:b:1"]
    if rng.random() < 0.15:
        options.append(f"--mem-per-gpu={rng.choice((200, 600))}")
    if rng.random() < 0.15:
        options.append(f"--cpus-per-gpu={rng.choice((1, 2, 3))}")
    return options
