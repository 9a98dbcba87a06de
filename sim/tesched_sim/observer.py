"""Snapshots of the simulated cluster for the daemon's core, through the same ports as of a real one.

A snapshot here is a view: a job's record is written out when it is first read, and stays so in it. It is valid until
the clock moves on.

Over 400 lines: one view of the cluster, whose parts read the same columns.
"""

from __future__ import annotations

from collections.abc import Collection, Container, ItemsView, Iterable, Iterator, Mapping, Sequence, ValuesView
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray
from tesched_core.fields.nice import BASIC
from tesched_core.model.actions import Failure
from tesched_core.model.capacity import Capacity
from tesched_core.model.cluster import (
    HELD_BY_ITS_USER,
    HELD_BY_US,
    Job,
    JobState,
    Node,
    NodeShare,
    Partition,
    PluginSettings,
    Request,
    SlurmSettings,
)
from tesched_core.model.column_layout import ColumnLayout, of_one_gpu
from tesched_core.model.columns import MOST_WAITING, ClusterColumns, Ends, Owner, Running, Waiting, size_of
from tesched_core.model.hook import HOOK_MARK
from tesched_core.model.job_report import Reported
from tesched_core.model.notice import ExitZero
from tesched_core.model.resources import JobId, Tres, with_bare_names
from tesched_core.model.snapshot import ExpectedRun, JobClass, Snapshot, Traits
from tesched_core.placement.can_return import LICENSES, loses_licenses

from tesched_sim.shared_gpus import as_seen
from tesched_sim.slurm import JobPhase, Slurm


class SimulatedObserver:
    """The observer."""

    def __init__(self, slurm: Slurm, *, users_differ: bool = False, has_plugin: bool = False) -> None:
        """Observe this cluster; if `users_differ`, each job whose user is not known has a user of its own."""
        self.slurm = slurm
        self.users_differ = users_differ
        self.has_plugin = has_plugin
        workload, machines = slurm.workload, slurm.workload.machines
        self.resources = machines.resources
        self._tres: dict[bytes, Tres] = {}
        self._requests: dict[tuple[bytes, int, int], Request] = {}
        #: by row: what of its record may change, and the record as it was then
        #: [nodes] shards of each GPU, as the core counts them: of nodes with several GPUs; None: no jobs share any
        self.shards_each: NDArray[np.int64] | None = None
        self.layout: ColumnLayout | None = None
        if slurm.shared is not None:
            several = machines.total[:, machines.resources.index("gpu")] > 1
            self.shards_each = np.where(several, machines.shards_each, 0)
            self.layout = ColumnLayout(names=machines.resources, limited={}, sharing={})
        self._records: dict[int, tuple[tuple[object, ...], Job]] = {}
        sizes, which = np.unique(workload.demand, axis=0, return_inverse=True)
        largest = machines.total.max(axis=0)
        of_kind = np.array([size_of(kind, largest, self.resources) for kind in sizes], dtype=np.float64)
        #: [jobs] FitGpp's Size, in nodes like the largest
        self.size: NDArray[np.float64] = of_kind[which.reshape(-1)] * workload.nodes
        #: [jobs] how long it is expected to run in all: the low quantile, the median, the high one. inf: not known
        self.low_s, self.run_time_s, self.high_s = _foreseen(slurm)
        #: [jobs] how much longer each runs on its fewest nodes than on its most
        self.stretch = np.ones(len(workload)) if workload.most_nodes is None else workload.most_nodes / workload.nodes
        self._expected = {
            JobId(row + 1): ExpectedRun(
                low_s=float(self.low_s[row] * self.stretch[row]),
                median_s=float(self.run_time_s[row] * self.stretch[row]),
                high_s=float(self.high_s[row] * self.stretch[row]),
            )
            for row in np.flatnonzero(np.isfinite(self.low_s)).tolist()
        }
        types = workload.machines.types
        self._speeds: Mapping[JobId, Mapping[str, float]] = (
            {}
            if workload.speed is None
            else {
                JobId(row + 1): dict(zip(types, each, strict=True)) for row, each in enumerate(workload.speed.tolist())
            }
        )
        self._reports: dict[int, Reported] = {}
        #: by all that they depend on: class, grace period, whether it is a part of a training
        self.traits: dict[tuple[JobClass, float, bool], Traits] = {}
        names = [f"c{row}" for row in range(len(workload.allowed))]
        self._partition_of: list[tuple[str, ...]] = [(names[row],) for row in workload.constraint.tolist()]
        self.index: Mapping[str, int] = {name: row for row, name in enumerate(machines.names)}
        #: [nodes] by partition: the simulated cluster has one for each row of the workload's `allowed`
        self.masks = dict(zip(names, workload.allowed, strict=True))
        self.owners = tuple(Owner(user=name) for name in workload.user_names)
        self._partitions = MappingProxyType(
            {
                name: Partition(
                    name=name, nodes=frozenset(machines.names[row] for row in np.flatnonzero(mask).tolist())
                )
                for name, mask in self.masks.items()
            }
        )
        self._nodes = {
            name: Node(name=name, state="MIXED", total=self.tres(total))
            for name, total in zip(machines.names, machines.total, strict=True)
        }
        self.settings = SlurmSettings(
            kill_wait_s=round(slurm.behaviour.kill_wait_s),
            requeue_delay_s=round(slurm.behaviour.requeue_delay_s),
            memory_is_shared_out=False,
            priority_type=BASIC,
            plugin=PluginSettings(te_partitions=frozenset(names)) if has_plugin else None,
        )

    def partitions_of(self, row: int) -> tuple[str, ...]:
        """Partitions in which the job may run."""
        return self._partition_of[row]

    def observe(self) -> Snapshot:
        """Take a snapshot of the cluster as it is now."""
        slurm = self.slurm
        slurm.forget()
        nodes = self._nodes
        if not slurm.up.all():
            names = slurm.workload.machines.names
            down = {
                names[row]: "UNKNOWN" if row in slurm.unreported else "DOWN"
                for row in np.flatnonzero(~slurm.up).tolist()
            }
            nodes = {
                name: Node(name=name, state=down[name], total=node.total) if name in down else node
                for name, node in nodes.items()
            }
        jobs = _Jobs(self)
        return Snapshot(
            taken_at=slurm.now,
            jobs=jobs,
            nodes=nodes,
            partitions=self._partitions,
            settings=self.settings,
            traits=_AllTraits(slurm, jobs, declare=not self.has_plugin),
            columns=_Columns(self),
            expected=self._expected,
            speeds=self._speeds,
            reported_by_array=self._reported(),
        )

    def without(self, left_out: Container[int]) -> ClusterColumns:
        """Columns of the cluster as it is now in which these rows are no waiting TE jobs."""
        return _Columns(self, left_out)

    def see(self) -> Snapshot | Failure:
        """Poll; this Slurm always answers."""
        return self.observe()

    def _reported(self) -> Mapping[JobId, Reported]:
        """Reports of the trainings that have begun, by their arrays' ids."""
        slurm, arrays = self.slurm, self.slurm.arrays
        if arrays is None:
            return {}
        for array, training in enumerate(slurm.trainings):
            training.count(slurm.now, arrays.running[array])
            known = self._reports.get(array)
            if training.newest != (0 if known is None else known.curve.iteration[-1]):
                self._reports[array] = training.reported()
        return {JobId(arrays.rows[array][-1] + 1): one for array, one in self._reports.items()}

    def tres(self, amounts: Sequence[int]) -> Tres:
        """Return these amounts [resources] in the core's words."""
        key = np.asarray(amounts, dtype=np.int64).tobytes()
        if key not in self._tres:
            named = dict(zip(self.resources, (int(amount) for amount in amounts), strict=True))
            gres = tuple(
                sorted((name, count) for name, count in named.items() if name not in {"cpu", "mem_mib"} and count)
            )
            self._tres[key] = Tres(cpus=named.get("cpu", 0), mem_mib=named.get("mem_mib", 0), gres=gres)
        return self._tres[key]

    def request(self, row: int) -> Request:
        """Request of the job, in Slurm's terms."""
        slurm = self.slurm
        demand, nodes, most = slurm.workload.demand[row], slurm.nodes_wanted[row], slurm.nodes_most[row]
        key = (demand.tobytes(), nodes, most)
        if key not in self._requests:
            tres = self.tres(demand)
            typed = tuple((name, count) for name, count in tres.gres if ":" in name)
            counted = dict(with_bare_names(typed))
            bare = tuple((name, count - counted.get(name, 0)) for name, count in tres.gres if ":" not in name)
            self._requests[key] = Request(
                min_nodes=nodes,
                max_nodes=most,
                cpus=nodes * tres.cpus,
                min_cpus_per_node=0,
                mem_per_node_mib=tres.mem_mib,
                gres_per_node=(*typed, *(pair for pair in bare if pair[1])),
            )
        return self._requests[key]

    def _request_of(self, row: int) -> Request:
        request = self.request(row)
        if row not in self.slurm.bound:
            return request
        names = self.slurm.workload.machines.names
        return replace(request, required_nodes=tuple(names[node] for node in self.slurm.bound[row]))

    def _reason(self, row: int) -> str:
        slurm = self.slurm
        if slurm.state[row] is not JobPhase.PENDING:
            return ""
        if row in slurm.held:
            return HELD_BY_ITS_USER if row in slurm.held_by_user else HELD_BY_US
        if slurm.now < slurm.unexamined_until:
            return "None"
        if row in slurm.dependent:
            return "Dependency"
        if row in slurm.ineligible:
            return "BeginTime"
        return "JobArrayTaskLimit" if row in slurm.throttled else "Resources"

    def _user(self, row: int) -> str:
        slurm = self.slurm
        name = slurm.workload.user_names[slurm.workload.user[row]]
        return name or (f"unknown-{row + 1}" if self.users_differ else "")

    def _eligible_s(self, row: int) -> float:
        """Return since when, or from when, it may start: its submission, or its requeue and the delay after it."""
        slurm = self.slurm
        if row in slurm.ineligible:
            return slurm.eligible_s[row]
        delay_s = slurm.behaviour.requeue_delay_s if slurm.restarts[row] else 0.0
        return float(slurm.queued_s[row]) + delay_s

    def job(self, row: int) -> Job:
        """Return the job's record; the same object as long as nothing of it changes."""
        slurm = self.slurm
        changing = (
            slurm.state[row],
            slurm.leaving[row],
            slurm.priority[row],
            slurm.nice[row],
            slurm.restarts[row],
            slurm.where[row],
            float(slurm.started_s[row]) if slurm.where[row] else None,
            self._reason(row),
            slurm.eligible_s.get(row),
            slurm.bound.get(row),
            (slurm.nodes_wanted[row], slurm.nodes_most[row]),
            row in slurm.held_by_hook,
            slurm.notes.get(row),
            slurm.dependency.get(row),
            row in slurm.left_held,
            slurm.licenses.get(row),
            row in slurm.failed,
            self._array_of(row),
        )
        kept = self._records.get(row)
        if kept is None or kept[0] != changing:
            self._records[row] = kept = changing, self._record(row)
        return kept[1]

    def _array_of(self, row: int) -> tuple[JobId | None, int | None, str, int]:
        """Return the array's id, the task's index, the tasks that wait together, and the throttle, as in a record."""
        arrays = self.slurm.arrays
        if arrays is None or arrays.of[row] < 0:
            return None, None, "", 0
        throttle, array_id = arrays.throttle[arrays.of[row]], JobId(arrays.record_of(row) + 1)
        if row in arrays.started:
            return array_id, arrays.index_of(row), "", throttle
        together = arrays.together(row)
        tasks = f"{arrays.index_of(together[0])}-{arrays.index_of(together[-1])}"
        return array_id, None, f"{tasks}%{throttle}" if throttle else tasks, throttle

    def _record(self, row: int) -> Job:
        slurm = self.slurm
        state, flags = slurm.state[row], frozenset[str]()
        started = float(slurm.started_s[row])
        if slurm.leaving[row]:
            flags = frozenset({"COMPLETING"})
        elif row in slurm.left_held and row in slurm.held:
            flags = frozenset({"REQUEUE_HOLD"})
        where = slurm.where[row]
        tres = self.tres_on(row, where)
        names = slurm.workload.machines.names
        limit_s = float(slurm.workload.limit_s[row])
        array_id, task, tasks, throttle = self._array_of(row)
        return Job(
            job_id=JobId(row + 1),
            array_job_id=array_id,
            array_task_id=task,
            array_tasks=tasks,
            array_throttle=throttle,
            user=self._user(row),
            partitions=self._partition_of[row],
            state=self._state_of(row),
            flags=flags,
            reason=self._reason(row),
            priority=slurm.priority[row],
            nice=slurm.nice[row],
            restarts=slurm.restarts[row],
            submit_time=float(slurm.queued_s[row]),  # Slurm sets it anew with each requeue
            eligible_time=self._eligible_s(row),
            start_time=None if started != started else started,  # noqa: PLR0124 - nan
            end_time=float(slurm.end_s[row]) if state is JobPhase.DONE else None,
            time_limit_s=None if limit_s == np.inf else round(limit_s),
            request=self._request_of(row),
            dependency=slurm.dependency.get(row, ""),
            licenses=slurm.licenses.get(row, ""),
            comment="elastic" if array_id is not None else "",
            admin_comment=HOOK_MARK if row in slurm.held_by_hook else slurm.notes.get(row, ""),
            allocation=tuple(NodeShare(node=names[node], tres=one) for node, one in zip(where, tres, strict=True)),
            ran_on=tuple(names[node] for node in slurm.ran_on[row]),
        )

    def _state_of(self, row: int) -> JobState:
        slurm = self.slurm
        if slurm.state[row] is not JobPhase.DONE:
            return _STATES[slurm.state[row]]
        return (
            JobState.CANCELLED
            if row in slurm.cancelled
            else JobState.FAILED
            if row in slurm.failed
            else _STATES[JobPhase.DONE]
        )

    def tres_on(self, row: int, nodes: Sequence[int]) -> list[Tres]:
        """Resources that the job holds on each of these nodes: of accelerators, those of the node's type."""
        return [self.tres(self.slurm.held_on(row, node).tolist()) for node in nodes]


_STATES = {
    JobPhase.PENDING: JobState.PENDING,
    JobPhase.RUNNING: JobState.RUNNING,
    JobPhase.SUSPENDED: JobState.SUSPENDED,
    JobPhase.DONE: JobState.COMPLETED,
}


def _foreseen(slurm: Slurm) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return [jobs] the run times that the daemon expects, low, median and high.

    They are the true ones, times a factor that depends on the seed, all three alike; or what was learned.
    """
    workload, behaviour = slurm.workload, slurm.behaviour
    if behaviour.true_run_times:
        factor = np.random.default_rng(behaviour.seed).lognormal(0.0, behaviour.run_time_sigma, len(workload))
        said = workload.run_s * factor if behaviour.run_time_sigma > 0 else workload.run_s
    elif workload.expected_s is not None:
        return workload.expected_s[:, 0], workload.expected_s[:, 1], workload.expected_s[:, 2]
    else:
        said = np.full(len(workload), np.inf)
    return said, said, said


class _Jobs(Mapping[JobId, Job]):
    """The jobs that slurmctld knows: submitted, and not finished for long. Tasks that wait together are one."""

    def __init__(self, eyes: SimulatedObserver) -> None:
        self.eyes = eyes
        self._known = eyes.slurm.known
        self._arrays = eyes.slurm.arrays
        #: records that were read
        self._read: dict[JobId, Job] = {}

    def __getitem__(self, job_id: JobId) -> Job:
        found = self._read.get(job_id)
        if found is None:
            if job_id not in self:
                raise KeyError(job_id)
            found = self._read[job_id] = self.eyes.job(job_id - 1)
        return found

    def __contains__(self, job_id: object) -> bool:
        if not isinstance(job_id, int) or job_id - 1 not in self._known:
            return False
        return self._arrays is None or not self._arrays.is_hidden(job_id - 1)

    def __iter__(self) -> Iterator[JobId]:
        if self._arrays is None:
            return (JobId(row + 1) for row in self._known)
        return (JobId(row + 1) for row in self._known if not self._arrays.is_hidden(row))

    def __len__(self) -> int:
        return len(self._known) if self._arrays is None else sum(1 for _ in self)

    def values(self) -> ValuesView[Job]:
        return _JobValues(self)

    def items(self) -> ItemsView[JobId, Job]:
        return _JobItems(self)


class _JobValues(ValuesView[Job]):
    """Records of `_Jobs`, without asking of each whether it is there."""

    _mapping: _Jobs

    def __iter__(self) -> Iterator[Job]:
        return (self._mapping[job_id] for job_id in self._mapping)


class _JobItems(ItemsView[JobId, Job]):
    """Ids and records of `_Jobs`, as `_JobValues`."""

    _mapping: _Jobs

    def __iter__(self) -> Iterator[tuple[JobId, Job]]:
        return ((job_id, self._mapping[job_id]) for job_id in self._mapping)


def _traits(job_class: JobClass, grace_s: float, elastic: bool) -> Traits:
    return Traits(
        job_class=job_class,
        rule="workload",
        grace_period_s=grace_s,
        grace_source="workload",
        notice_signal="USR1" if grace_s > 0 else "",
        notice_source="workload",
        exit0=ExitZero.FINISHED,  # it has no other end
        elastic=elastic,
    )


class _AllTraits(Mapping[JobId, Traits]):
    """Values of the workload for each job that Slurm knows."""

    def __init__(self, slurm: Slurm, jobs: _Jobs, *, declare: bool) -> None:
        self._slurm = slurm
        self._jobs = jobs
        #: jobs declare a signal and have a grace period; one that does is not marked for the plugin
        self._declare = declare

    def __getitem__(self, job_id: JobId) -> Traits:
        if not 1 <= job_id <= len(self._slurm.te):
            raise KeyError(job_id)
        row, slurm = job_id - 1, self._slurm
        elastic = slurm.arrays is not None and slurm.arrays.of[row] >= 0
        job_class = JobClass.TE if slurm.te[row] else JobClass.BE if slurm.be[row] else JobClass.EXEMPT
        alike = job_class, slurm.grace_s[row] if self._declare else 0.0, elastic
        found = self._jobs.eyes.traits.get(alike)
        if found is None:
            found = self._jobs.eyes.traits[alike] = _traits(*alike)
        return found

    def __iter__(self) -> Iterator[JobId]:
        return iter(self._jobs)

    def __len__(self) -> int:
        return len(self._jobs)


class _Columns:
    """The hot questions, answered from the simulated cluster's own columns."""

    def __init__(self, eyes: SimulatedObserver, left_out: Container[int] = ()) -> None:
        self._eyes = eyes
        self._left_out = left_out

    @cached_property
    def capacity(self) -> Capacity:
        eyes, slurm = self._eyes, self._eyes.slurm
        free = self._free_as_seen()
        free.setflags(write=False)
        each = eyes.shards_each
        return Capacity(
            names=slurm.workload.machines.names,
            index=eyes.index,
            resources=eyes.resources,
            total=slurm.total,
            free=free,
            available=slurm.up.copy(),
            partitions=eyes.masks,
            layout=eyes.layout,
            shards_each=None if each is None or not each.any() else each,
        )

    def _free_as_seen(self) -> NDArray[np.int64]:
        """Return [nodes, resources] what is free, as the jobs' records say it: not of which GPU a shard is."""
        slurm = self._eyes.slurm
        free = slurm.free.copy()
        if slurm.shared is not None:
            columns = slurm.shared.all_columns
            taken = np.zeros_like(free)
            ends = self.ends
            np.add.at(taken, ends.node, ends.frees)
            free[:, columns] = slurm.total[:, columns] - taken[:, columns]
            of_one_gpu(self._eyes.resources, slurm.total, free)
        return free

    @cached_property
    def running(self) -> Running:
        eyes, slurm, workload = self._eyes, self._eyes.slurm, self._eyes.slurm.workload
        jobs = list(slurm.running_be)
        rows = np.array(jobs, dtype=np.int64)
        places = [slurm.where[row] for row in jobs]
        suspended = np.array([slurm.state[row] is JobPhase.SUSPENDED for row in jobs], dtype=np.bool_)
        share_job = np.repeat(np.arange(len(rows), dtype=np.intp), [len(nodes) for nodes in places])
        share_node = np.array([node for nodes in places for node in nodes], dtype=np.intp)
        job_id = rows + 1
        gets_notice = (workload.grace_s[rows] > 0) & (not eyes.has_plugin)
        frees = self._frees(rows[share_job], share_node)
        frees[suspended[share_job], 0] = 0  # their CPUs are free already
        return Running(
            job_id=job_id,
            started=slurm.started_s[rows],
            queued=slurm.queued_s[rows],
            eligible=slurm.queued_s[rows],  # no simulated user holds a job, or lets it wait for another one
            ends_at=self._ends_at(rows),
            may_end_at=self._may_end_at(rows),
            grace_s=np.where(gets_notice, workload.grace_s[rows], float(eyes.settings.kill_wait_s)),
            gets_notice=gets_notice,
            size=eyes.size[rows],
            ineligible=np.array([self._ineligible(row) for row in jobs], dtype=np.int8),
            owner=workload.user[rows].astype(np.intp),
            owners=eyes.owners,
            names=(),
            row_of={JobId(job): row for row, job in enumerate(job_id.tolist())},
            share_job=share_job,
            share_node=share_node,
            frees=frees,
        )

    def _ineligible(self, row: int) -> int:
        """Reason why a job that holds nodes can be no victim: a row of core's `INELIGIBLE`."""
        eyes, slurm = self._eyes, self._eyes.slurm
        if slurm.state[row] is JobPhase.SUSPENDED:
            return 5
        if slurm.leaving[row]:
            return 1
        return LICENSES if row in slurm.licenses and loses_licenses(eyes.settings) else 0

    @cached_property
    def trials(self) -> tuple[Job, ...]:
        return tuple(self._eyes.job(row) for row in sorted(self._eyes.slurm.te_pending) if row not in self._left_out)

    def _ends_at(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Expected end of each of these running jobs, [rows]; seconds."""
        eyes, slurm = self._eyes, self._eyes.slurm
        started = slurm.started_s[rows]
        saved = np.array([slurm.saved_s[row] for row in rows.tolist()], dtype=np.float64)
        limit_at = started + slurm.workload.limit_s[rows]
        expected = started + (eyes.run_time_s[rows] - saved) / self._speed(rows)
        return np.where(expected > slurm.now, np.minimum(expected, limit_at), limit_at)

    def _speed(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return [rows] the seconds of work that each does in a second."""
        return np.array([self._eyes.slurm.speed[row] for row in rows.tolist()], dtype=np.float64)

    def _frees(self, rows: NDArray[np.int64], nodes: NDArray[np.intp]) -> NDArray[np.int64]:
        """Return [shares, resources] what each of these jobs holds on the node beside it."""
        slurm = self._eyes.slurm
        held = slurm.workload.demand[rows]
        if slurm.is_typed and len(rows):
            held = np.array([slurm.held_on(row, node) for row, node in zip(rows.tolist(), nodes.tolist(), strict=True)])
        if self._eyes.shards_each is not None:
            held = as_seen(held, nodes, slurm.workload.machines, self._eyes.shards_each)
        return held

    def _may_end_at(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Earliest likely end of each of these running jobs, [rows]; seconds. If learned, by the low quantile."""
        eyes, slurm = self._eyes, self._eyes.slurm
        if slurm.workload.expected_s is None or slurm.behaviour.true_run_times:
            return self._ends_at(rows)
        started = slurm.started_s[rows]
        saved = np.array([slurm.saved_s[row] for row in rows.tolist()], dtype=np.float64)
        return np.minimum(
            np.maximum(started + (eyes.low_s[rows] - saved) / self._speed(rows), slurm.now),
            started + slurm.workload.limit_s[rows],
        )

    @cached_property
    def waiting(self) -> Waiting:
        eyes, slurm, workload = self._eyes, self._eyes.slurm, self._eyes.slurm.workload
        arrays = slurm.arrays
        found: list[int] = []
        others: dict[JobId, int] = {}
        for row in (row for row in slurm.lines[-1] if slurm.be[row]):
            if arrays is None or arrays.of[row] < 0:
                found.append(row)
            else:
                others.setdefault(JobId((row if row in arrays.started else arrays.record_of(row)) + 1), len(found))
            if len(found) + len(others) == MOST_WAITING:
                break
        rows = np.array(found, dtype=np.int64)
        saved = np.array([slurm.saved_s[row] for row in rows.tolist()], dtype=np.float64)
        return Waiting(
            job_id=rows + 1,
            since=workload.submit_s[rows],
            run_s=np.minimum((eyes.run_time_s[rows] - saved) * eyes.stretch[rows], workload.limit_s[rows]),
            may_run_s=np.minimum((eyes.high_s[rows] - saved) * eyes.stretch[rows], workload.limit_s[rows]),
            nodes=workload.nodes[rows].astype(np.intp),
            demand=workload.demand[rows],
            kind=workload.constraint[rows].astype(np.intp),
            allowed=workload.allowed & slurm.up,
            others=tuple((at, job_id) for job_id, at in others.items()),
        )

    @cached_property
    def ends(self) -> Ends:
        slurm = self._eyes.slurm
        rows = np.fromiter(slurm.running, dtype=np.int64)
        places = [slurm.where[row] for row in rows.tolist()]
        share = np.repeat(np.arange(len(rows), dtype=np.intp), [len(nodes) for nodes in places])
        node = np.array([node for nodes in places for node in nodes], dtype=np.intp)
        frees = self._frees(rows[share], node)
        suspended = np.array([slurm.state[row] is JobPhase.SUSPENDED for row in rows.tolist()], dtype=np.bool_)
        frees[suspended[share], 0] = 0
        return Ends(
            node=node,
            at=self._ends_at(rows)[share],
            frees=frees,
        )

    @property
    def doubted(self) -> Collection[JobId]:
        return ()  # its records are true

    @property
    def hook_marked(self) -> Sequence[JobId]:
        marked = self._eyes.slurm.held_by_hook
        return [job_id for job_id in _Jobs(self._eyes) if job_id - 1 in marked] if marked else ()

    @cached_property
    def tasks(self) -> Mapping[JobId, Sequence[Job]]:
        found: dict[JobId, list[Job]] = {}
        for job in () if self._eyes.slurm.arrays is None else _Jobs(self._eyes).values():
            if job.array_job_id is not None:
                found.setdefault(job.array_job_id, []).append(job)
        return found

    def first_in_queue(
        self, partitions: Iterable[str], excluded: Container[JobId], *, best_effort: bool = False
    ) -> int:
        slurm = self._eyes.slurm
        mine = frozenset(partitions)
        lines = slurm.lines[-1:] if best_effort else slurm.lines
        return max(
            (
                next(
                    (
                        slurm.priority[row]
                        for row in line
                        if JobId(row + 1) not in excluded
                        and not mine.isdisjoint(self._eyes.partitions_of(row))
                        and (not best_effort or slurm.be[row])
                    ),
                    0,
                )
                for line in lines
            ),
            default=0,
        )

    def somebody_fits(self, row: int, free: NDArray[np.int64]) -> bool:
        slurm, workload = self._eyes.slurm, self._eyes.slurm.workload
        waiting = np.fromiter((one for line in slurm.lines for one in line if not slurm.te[one]), dtype=np.int64)
        here = workload.allowed[workload.constraint[waiting], row]
        return bool((here & (workload.demand[waiting] <= free).all(axis=1)).any())
