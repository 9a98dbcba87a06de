"""Made-up values for what a trace lacks: job classes, grace periods, time limits, memory, and the cluster itself.

Every number is a parameter, drawn with the caller's seed, and stated in the workload's notes. What the trace
says stands, except that amounts which no node of the cluster has are spread over several.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tesched_sim.traces.recorded import NotRun, Recorded
from tesched_sim.workload import SimulatedNodes, Workload, WorkloadError, fitting
from tesched_sim.workloads.arrivals import poisson_arrivals
from tesched_sim.workloads.beyond import MOST_JOBS, MOST_NODES, Beyond
from tesched_sim.workloads.fitgpp import MIB_PER_GIB, MINUTE_S, drawn_grace
from tesched_sim.workloads.shards import part_of, wanted_shards, with_shards

#: Time limits that people type, minutes; a limit is rounded up to one of them.
LIMITS_MIN = (5, 10, 15, 30, 60, 120, 240, 480, 720, 1440, 2880, 4320, 7200, 10080)
#: kinds of nodes that a note names
_KINDS_SHOWN = 4
#: parameters, and what they may be: a cluster as large as Slurm allows, nodes larger than there are, and a year
_RANGES = (
    ("jobs", 0, MOST_JOBS),
    ("nodes", 0, MOST_NODES),
    ("cpus", 1, 2**20),
    ("mem_gib", 1, 2**20),
    ("gpus", 0, 2**16),
    ("te_run_max", 0, 525_600),
    ("te_gpus_max", 0, 2**32),
    ("te_cpus_max", 0, 2**32),
    ("grace_mean", 0, 525_600),
    ("grace_max", 0, 525_600),
    ("cpus_per_gpu", 0, 2**20),
    ("mem_gib_per_gpu", 0, 2**20),
    ("mem_gib_per_cpu", 0, 2**20),
    ("restart_s", 0, 525_600),
)
#: jobs beside a long time without any, as a part of all, that are too few to be a part of the others' load
_FEW = 0.05
#: such a time is long, as a part of all
_LONG = 1 / 3
_DAY_S = 86_400.0
#: MiB beyond which no job's memory is counted
_MOST = 2.0**53


@dataclass(frozen=True, slots=True, kw_only=True)
class FillModel(Beyond):
    """The model's parameters."""

    #: only the first so many jobs of the trace; 0: all
    jobs: int = 0
    #: the cluster: so many nodes, or with 0 as many as give the load
    nodes: int = 0
    cpus: int = 32
    mem_gib: int = 256
    gpus: int = 8
    #: offered load: what the jobs take over the time in which they come, as a part of the cluster's tightest resource
    load: float = 0.9
    #: a job is TE if it runs at most so long (minutes), on at most so many GPUs (or, without any, CPUs), …
    te_run_max: float = 30.0
    te_gpus_max: int = 2
    te_cpus_max: int = 8
    #: … and it is drawn; where the trace says which jobs are TE, that counts, …
    te_share: float = 1.0
    #: … unless its word is not to be taken
    te_by_size: bool = False
    #: minutes
    grace_mean: float = 3.0
    grace_spread: float = 3.0
    grace_max: float = 20.0
    #: time limit by run time: median and spread of a lognormal factor, at least 1; then rounded up
    limit_factor: float = 2.0
    limit_spread: float = 0.7
    #: for jobs of which the trace does not record CPUs or memory
    cpus_per_gpu: int = 4
    mem_gib_per_gpu: float = 32.0
    mem_gib_per_cpu: float = 4.0
    #: seconds that a restart takes before work goes on
    restart_s: float = 0.0

    def __post_init__(self) -> None:
        """Raise WorkloadError for what makes no sense."""
        self.check()
        for name, least, most in _RANGES:
            if not least <= getattr(self, name) <= most:
                raise WorkloadError(f"workload.{name} must be from {least} to {most}")
        if not self.load > 0:
            raise WorkloadError("workload.load must be above 0")
        if not 0 <= self.te_share <= 1:
            raise WorkloadError("workload.te_share must be between 0 and 1")
        if not (self.grace_spread > 0 and self.limit_factor > 0 and self.limit_spread >= 0 and self.restart_s >= 0):
            text = "grace_spread and limit_factor must be above 0, limit_spread and restart_s not below"
            raise WorkloadError(f"workload: {text}")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Filled:
    """A trace as a workload."""

    workload: Workload
    #: [jobs] the trace's row of each of its jobs
    rows: NDArray[np.intp]
    #: of each of the trace's jobs that have not run, whether it is TE; None: its run time would say
    not_run_te: tuple[bool | None, ...]


def fill(recorded: Recorded, parameters: FillModel, seed: int, machines: SimulatedNodes | None = None) -> Filled:
    """Make a trace a workload, on the nodes that are given or else on those of the parameters.

    Jobs that do not fit on the nodes, even on empty ones, are left out and counted. Raises WorkloadError for a trace
    without a job, and where none of its jobs fits.
    """
    p = parameters
    rng = np.random.default_rng(seed)
    drawn = _chosen(recorded, p, rng)
    # On nodes that are given a job without recorded memory takes no more than its CPUs' part of a node.
    of_cpu = None if machines is None else machines.total[:, 1] // np.maximum(machines.total[:, 0], 1)
    shards = wanted_shards(
        np.where(recorded.nodes[drawn] > 1, 0, recorded.gpus[drawn]),
        recorded.gpu_milli[drawn],
        each=p.shards,
        share=p.shard_share,
        seed=seed,
    )
    asked = _asked(recorded, drawn, p, _MOST if of_cpu is None else int(of_cpu.min()), part_of(shards, p.shards))
    given = machines or SimulatedNodes.alike(max(p.nodes, 1), cpus=p.cpus, mem_mib=_mem(p), gpus=p.gpus)
    wants, nodes = _per_node(asked, recorded.nodes[drawn], given.total.max(axis=0))
    # A cluster that is made for a load has as many nodes as its largest job needs.
    fits = fitting(given, wants, nodes if machines or p.nodes else np.ones_like(nodes)) & (nodes <= MOST_NODES)
    if not fits.any():
        kinds = _kinds(given)
        raise WorkloadError(f"{recorded.name}: none of its {len(drawn)} jobs fits on the nodes, which are {kinds}")
    rows, wants, nodes, asked = drawn[fits], wants[fits], nodes[fits], asked[fits]
    shards = np.where(nodes == 1, shards[fits], 0)
    # Of a GPU that it shares it uses a part.
    used = wants.astype(np.float64)
    used[:, 2] *= part_of(shards, p.shards)
    run_s = recorded.run_s[rows]
    te = _te(recorded, rows, asked, p, rng)
    if recorded.has_times:
        submit_s = recorded.submit_s[rows] - recorded.submit_s[rows].min()
    else:
        submit_s = poisson_arrivals(rng, len(rows), float(_offered(used, nodes, run_s, p).max()) / (p.nodes * p.load))
    of_time: tuple[str, ...] = ()
    if machines is None and not p.nodes:
        together = _together(submit_s)
        of_time = _notes_of_time(submit_s, together) if recorded.has_times else ()
        for_load = _node_count(used[together], nodes[together], run_s[together], submit_s[together], p)
        count = max(for_load, int(nodes.max()))
        if count > MOST_NODES:
            text = f"a load of {p.load} takes more than {MOST_NODES} nodes; workload.nodes says how many there are"
            raise WorkloadError(f"{recorded.name}: {text}")
        given = SimulatedNodes.alike(count, cpus=p.cpus, mem_mib=_mem(p), gpus=p.gpus)
    told = recorded.limit_s[rows]
    grace_min = np.rint(drawn_grace(rng, p, len(rows)))
    names = [recorded.users[row] for row in rows.tolist()]
    known = {name: row for row, name in enumerate(dict.fromkeys(names))}
    sized = "as given" if machines else "as requested" if p.nodes else f"for an offered load of {p.load}"
    left_out = int((~fits).sum())
    workload = Workload.of(
        recorded.name,
        given,
        submit_s=submit_s,
        run_s=run_s,
        limit_s=np.where(
            np.isnan(told), typed_limits(run_s, p.limit_factor, p.limit_spread, rng), np.maximum(told, run_s)
        ),
        nodes=nodes,
        demand=wants,
        te=te,
        grace_s=grace_min * MINUTE_S,
        restart_s=p.restart_s,
        user=[known[name] for name in names],
        user_names=tuple(known),
        left_out=left_out,
        notes=(*_notes(recorded, p, te, left_out, f"{_kinds(given)} ({sized})"), *of_time),
    )
    order = np.argsort(submit_s, kind="stable")
    if p.shards:
        workload = with_shards(workload, shards[order], p.shards)
    not_run_te = tuple(_te_of_not_run(one, p) for one in recorded.not_run)
    return Filled(workload=workload, rows=rows[order], not_run_te=not_run_te)


def _asked(
    recorded: Recorded, rows: NDArray[np.intp], p: FillModel, mib_per_cpu: float, part: NDArray[np.float64]
) -> NDArray[np.int64]:
    """CPUs, MiB and GPUs of each job, over all its nodes [jobs, 3]; what the trace lacks is in proportion.

    Memory that is made up is at most `mib_per_cpu`. Of each of its GPUs a job uses that `part` [jobs].
    """
    gpus = np.maximum(recorded.gpus[rows], 0)
    cpus, mem_mib = recorded.cpus[rows], recorded.mem_mib[rows]
    cpus = np.where(cpus > 0, cpus, np.maximum(np.ceil(gpus * part * p.cpus_per_gpu).astype(np.int64), 1))
    made_mib = np.where(gpus > 0, gpus * part * p.mem_gib_per_gpu, cpus * p.mem_gib_per_cpu) * MIB_PER_GIB
    made_mib = np.minimum(np.minimum(made_mib, cpus * mib_per_cpu), _MOST)
    return np.column_stack([cpus, np.where(mem_mib > 0, mem_mib, made_mib.astype(np.int64)), gpus])


def _te(
    recorded: Recorded, rows: NDArray[np.intp], asked: NDArray[np.int64], p: FillModel, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Jobs that are TE: as the trace says, or short and small ones, drawn."""
    cpus, gpus = asked[:, 0], asked[:, 2]
    small = np.where(gpus > 0, gpus <= p.te_gpus_max, cpus <= p.te_cpus_max)
    drawn = small & (recorded.run_s[rows] <= p.te_run_max * MINUTE_S) & (rng.random(len(rows)) < p.te_share)
    return drawn if p.te_by_size else np.where(recorded.te[rows] >= 0, recorded.te[rows] == 1, drawn)


def _te_of_not_run(one: NotRun, p: FillModel) -> bool | None:
    """Check by size and time limit whether a job that has not run is TE; None: they do not say."""
    wanted, most = (one.gpus, p.te_gpus_max) if one.gpus else (one.cpus, p.te_cpus_max)
    if wanted > most:
        return False
    return True if one.limit_s <= p.te_run_max * MINUTE_S and p.te_share == 1 else None


def _chosen(recorded: Recorded, p: FillModel, rng: np.random.Generator) -> NDArray[np.intp]:
    """Choose the rows of the trace that are taken: the first ones or, where no times are recorded, as many draws.

    Raises WorkloadError for an empty trace, and for one without times if the cluster is not given.
    """
    there = len(recorded.run_s)
    if there == 0:
        raise WorkloadError(f"{recorded.name}: there is no job that ran in it")
    if recorded.has_times:
        return np.argsort(recorded.submit_s, kind="stable")[: p.jobs or there]
    if not p.nodes:
        text = "it has no submission times, so workload.nodes must be set; they come at random, at workload.load"
        raise WorkloadError(f"{recorded.name}: {text}")
    return rng.integers(0, there, p.jobs or there)


def _mem(p: FillModel) -> int:
    return p.mem_gib * MIB_PER_GIB


def _per_node(
    wants: NDArray[np.int64], told: NDArray[np.int64], most: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Resources that each job takes of each of its nodes, and how many: as recorded, and at least as many as it needs.

    `most` is what a node has of each resource at most. Of a resource that no node has it keeps asking.
    """
    needed = np.ceil(wants / np.maximum(most, 1)).max(axis=1).astype(np.int64)
    nodes = np.maximum(np.maximum(told, 1), needed)
    return np.ceil(wants / nodes[:, np.newaxis]).astype(np.int64), nodes


def _node_count(
    used: NDArray[np.float64],
    nodes: NDArray[np.int64],
    run_s: NDArray[np.float64],
    submit_s: NDArray[np.float64],
    p: FillModel,
) -> int:
    """Count the nodes that make the load."""
    span_s = max(float(np.ptp(submit_s)), float(run_s.mean()))
    offered = _offered(used, nodes, run_s, p) / span_s
    return int(np.ceil(offered.max() / p.load))


def _together(submit_s: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Jobs [jobs] that came in one time, without the few before or after a long gap.

    One job of a year ago, which ended among those of a day, would make that day's load a year's.
    """
    together = np.ones(len(submit_s), dtype=np.bool_)
    while True:
        at, gap_s, span_s = _longest_gap(submit_s[together])
        early = together & (submit_s <= at)
        fewer = early if 2 * early.sum() < together.sum() else together & ~early
        left = together & ~fewer
        if gap_s <= _LONG * span_s or (~left).sum() > _FEW * len(submit_s):
            return together
        together = left


def _longest_gap(submit_s: NDArray[np.float64]) -> tuple[float, float, float]:
    """When the longest time without a job began, how long it was, and from the first job to the last one; seconds."""
    times = np.sort(submit_s)
    gaps = np.diff(times, append=times[-1])
    at = int(gaps.argmax())
    return float(times[at]), float(gaps[at]), float(times[-1] - times[0])


def _notes_of_time(submit_s: NDArray[np.float64], together: NDArray[np.bool_]) -> tuple[str, ...]:
    """What a reader must know of when the jobs came, where nodes are made for their load."""
    notes = []
    if others := int((~together).sum()):
        notes.append(f"{others} job(s) came long before or after the others: the load is that of these")
    _, gap_s, span_s = _longest_gap(submit_s[together])
    if gap_s > max(_LONG * span_s, _DAY_S):
        days = f"{gap_s / _DAY_S:.0f} of the {span_s / _DAY_S:.0f} days"
        notes.append(f"no job came for {days}: the load is that of all of them; workload.nodes sets another cluster")
    return tuple(notes)


def _offered(
    used: NDArray[np.float64],
    nodes: NDArray[np.int64],
    run_s: NDArray[np.float64],
    p: FillModel,
) -> NDArray[np.float64]:
    """Resource use of all jobs, in seconds of one whole node, by resource."""
    capacity = np.maximum(np.array([p.cpus, _mem(p), p.gpus], dtype=np.float64), 1)
    taken: NDArray[np.float64] = (used * (nodes * run_s)[:, np.newaxis]).sum(axis=0) / capacity
    return taken


def typed_limits(
    run_s: NDArray[np.float64], median: float, spread: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return time limits such as people type: run times times a lognormal factor, at least 1, rounded up. Seconds."""
    factor = np.maximum(rng.lognormal(np.log(median), spread, len(run_s)), 1.0)
    typed_s = np.array(LIMITS_MIN, dtype=np.float64) * MINUTE_S
    place = np.searchsorted(typed_s, run_s * factor)
    return np.where(place < len(typed_s), typed_s[np.minimum(place, len(typed_s) - 1)], run_s * factor)


def _kinds(machines: SimulatedNodes) -> str:
    """The nodes in words, most of a kind first."""
    kinds = Counter(map(tuple, machines.total[:, :3].tolist())).most_common()
    words = [
        f"{count} nodes of {cpus} CPUs, {mem_mib / MIB_PER_GIB:.4g} GiB, {gpus} GPUs"
        for (cpus, mem_mib, gpus), count in kinds[:_KINDS_SHOWN]
    ]
    if others := sum(count for _, count in kinds[_KINDS_SHOWN:]):
        words.append(f"{others} others")
    return "; ".join(words)


def _notes(recorded: Recorded, p: FillModel, te: NDArray[np.bool_], left_out: int, nodes: str) -> tuple[str, ...]:
    why_out = recorded.left_out + Counter({"never ran": len(recorded.not_run)})
    why_out += Counter({"they do not fit on the nodes": left_out})
    left = ", ".join(f"{count} ({why})" for why, count in why_out.items())
    told = (recorded.te >= 0).any() and not p.te_by_size
    who = "as the trace says" if told else f"those of at most {p.te_run_max:g} min and few GPUs"
    return (
        f"{recorded.name}: {len(te)} jobs; left out: {left or 'none'}",
        nodes,
        f"{te.mean():.1%} TE ({who}); grace periods, and limits where the trace has none, are drawn",
    )
