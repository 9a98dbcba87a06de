"""Jobs as a trace records them, as columns; -1 (or nan, or "") where it does not say."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: No cluster has more: as many nodes as Slurm allows, with a million CPUs or 65,536 GPUs each; more MiB are no memory.
_MOST_CPUS, _MOST_GPUS, _MOST_MIB = 2**36, 2**32, 2.0**40
#: ten years
LONGEST_S = 315_360_000
#: reason for which lines are left out that are no jobs
STEPS = "steps"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotRun:
    """A job that has not run: it waits, or it was cancelled first."""

    waits: bool
    #: since it became eligible, until the trace was made or it was cancelled, seconds; nan: it never was eligible
    waited_s: float
    #: as of `Recorded`
    limit_s: float
    cpus: int
    gpus: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Recorded:
    """Jobs in the order of the trace. Amounts are over all nodes of a job."""

    name: str
    #: seconds, from any beginning; nan throughout where no times are recorded (`has_times`)
    submit_s: NDArray[np.float64]
    run_s: NDArray[np.float64]
    #: from submission to start, as it was; nan: not recorded
    waited_s: NDArray[np.float64]
    #: nan: not recorded; inf: none
    limit_s: NDArray[np.float64]
    #: at once; -1: not recorded
    nodes: NDArray[np.int64]
    cpus: NDArray[np.int64]
    mem_mib: NDArray[np.int64]
    gpus: NDArray[np.int64]
    #: thousandths of each of its GPUs that it uses; -1: not recorded
    gpu_milli: NDArray[np.int64]
    users: tuple[str, ...]
    #: 1 TE, 0 BE, -1 not recorded
    te: NDArray[np.int8]
    #: "" where not recorded
    job_names: tuple[str, ...]
    accounts: tuple[str, ...]
    partitions: tuple[str, ...]
    #: as Slurm writes them: 123, 120_4, and COMPLETED; "" where the trace has none
    job_ids: tuple[str, ...]
    states: tuple[str, ...]
    #: Slurm's name of the cluster; "" where the trace has none
    clusters: tuple[str, ...]
    #: what the job requested, where that may be less than it held; -1: not recorded
    requested_cpus: NDArray[np.int64]
    requested_gpus: NDArray[np.int64]
    #: column in which a user can have typed a whole record, with a separator that anybody knows; "": there is none
    open_to_users: str = ""
    #: how many lines were left out, by reason; jobs that have not run, where the trace says why, are beside them
    left_out: Counter[str] = field(default_factory=Counter)
    not_run: list[NotRun] = field(default_factory=list)

    @property
    def has_times(self) -> bool:
        """Check whether submit times are recorded; else it is a distribution to draw jobs from."""
        return not np.isnan(self.submit_s).any()

    def part(self, rows: NDArray[np.intp]) -> Recorded:
        """Return these jobs of it."""
        columns: dict[str, Any] = {}
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(value, np.ndarray):
                columns[one.name] = value[rows]
            elif isinstance(value, tuple):
                columns[one.name] = tuple(value[row] for row in rows.tolist())
        return replace(self, **columns)


@dataclass(slots=True)
class Rows:
    """Jobs that are being read, one after the other."""

    name: str
    submit_s: list[float] = field(default_factory=list)
    run_s: list[float] = field(default_factory=list)
    waited_s: list[float] = field(default_factory=list)
    limit_s: list[float] = field(default_factory=list)
    nodes: list[int] = field(default_factory=list)
    cpus: list[int] = field(default_factory=list)
    mem_mib: list[int] = field(default_factory=list)
    gpus: list[int] = field(default_factory=list)
    gpu_milli: list[int] = field(default_factory=list)
    users: list[str] = field(default_factory=list)
    te: list[int] = field(default_factory=list)
    job_names: list[str] = field(default_factory=list)
    accounts: list[str] = field(default_factory=list)
    partitions: list[str] = field(default_factory=list)
    job_ids: list[str] = field(default_factory=list)
    states: list[str] = field(default_factory=list)
    clusters: list[str] = field(default_factory=list)
    requested_cpus: list[int] = field(default_factory=list)
    requested_gpus: list[int] = field(default_factory=list)
    open_to_users: str = ""
    left_out: Counter[str] = field(default_factory=Counter)
    not_run: list[NotRun] = field(default_factory=list)

    def add(
        self,
        *,
        submit_s: float,
        run_s: float,
        waited_s: float = np.nan,
        limit_s: float = np.nan,
        nodes: int = -1,
        cpus: int = -1,
        mem_mib: float = -1,
        gpus: int = -1,
        gpu_milli: int = -1,
        user: str = "",
        te: int = -1,
        job_name: str = "",
        account: str = "",
        partition: str = "",
        job_id: str = "",
        state: str = "",
        cluster: str = "",
        requested_cpus: int = -1,
        requested_gpus: int = -1,
    ) -> None:
        """Take a job; one that never ran, or of an amount that no cluster has, is left out and counted."""
        if run_s <= 0:
            self.left_out["never ran"] += 1
            return
        if run_s > LONGEST_S:
            self.left_out["it ran for more than ten years"] += 1
            return
        if cpus > _MOST_CPUS or gpus > _MOST_GPUS:
            self.left_out["no cluster has as many CPUs or GPUs"] += 1
            return
        self.submit_s.append(submit_s)
        self.run_s.append(run_s)
        self.waited_s.append(waited_s)
        self.limit_s.append(limit_s)
        self.nodes.append(nodes)
        self.cpus.append(cpus)
        # A user may request any amount of memory.
        self.mem_mib.append(int(mem_mib) if 0 < mem_mib < _MOST_MIB else -1)
        self.gpus.append(gpus)
        self.gpu_milli.append(gpu_milli)
        self.users.append(user)
        self.te.append(te)
        self.job_names.append(job_name)
        self.accounts.append(account)
        self.partitions.append(partition)
        self.job_ids.append(job_id)
        self.states.append(state)
        self.clusters.append(cluster)
        self.requested_cpus.append(requested_cpus)
        self.requested_gpus.append(requested_gpus)

    def recorded(self) -> Recorded:
        """Return them."""
        return Recorded(
            name=self.name,
            submit_s=np.array(self.submit_s, dtype=np.float64),
            run_s=np.array(self.run_s, dtype=np.float64),
            waited_s=np.array(self.waited_s, dtype=np.float64),
            limit_s=np.array(self.limit_s, dtype=np.float64),
            nodes=np.array(self.nodes, dtype=np.int64),
            cpus=np.array(self.cpus, dtype=np.int64),
            mem_mib=np.array(self.mem_mib, dtype=np.int64),
            gpus=np.array(self.gpus, dtype=np.int64),
            gpu_milli=np.array(self.gpu_milli, dtype=np.int64),
            users=tuple(self.users),
            te=np.array(self.te, dtype=np.int8),
            job_names=tuple(self.job_names),
            accounts=tuple(self.accounts),
            partitions=tuple(self.partitions),
            job_ids=tuple(self.job_ids),
            states=tuple(self.states),
            clusters=tuple(self.clusters),
            requested_cpus=np.array(self.requested_cpus, dtype=np.int64),
            requested_gpus=np.array(self.requested_gpus, dtype=np.int64),
            open_to_users=self.open_to_users,
            left_out=self.left_out,
            not_run=self.not_run,
        )
