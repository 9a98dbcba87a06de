"""Reads the jobs of a snapshot into columns; of a snapshot like one before, the changed jobs alone.

A job that has not changed is the same object as in the poll before (`slurm/tesched_slurm/queue.py`), and so are its
traits (`intake/classify.py`): the entries of such a pair are copied. An equal object that is another one is read again.
What depends on the time, on reservations and on what was learned of leaving is no entry (`columns_of.py`).

`python -m benchmarks.step` shows what it takes to read all, and the few that have changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from math import inf, nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tesched_core.intake.own_waits import eligible_since
from tesched_core.model.cluster import Job, JobState
from tesched_core.model.columns import MOST_RESTARTS, Owner
from tesched_core.model.hook import has_hook_mark
from tesched_core.model.known_jobs import KnownCluster, KnownHolders, KnownJobs, LastingSite
from tesched_core.model.snapshot import JobClass, Snapshot, Traits
from tesched_core.placement.can_return import CRON_JOB, FEDERATED, why_it_cannot_return
from tesched_core.placement.capacity_of import KnownAmounts, keeps_nodes, site_of

#: entry of any job
JOB = np.dtype(
    [
        ("job_id", np.int64),
        ("priority", np.int64),
        ("is_on_nodes", np.bool_),
        ("is_pending", np.bool_),
        ("is_te", np.bool_),
        ("is_be", np.bool_),
        ("is_doubted", np.bool_),
        ("has_hook_mark", np.bool_),
        ("is_of_array", np.bool_),
    ]
)
#: entry of a job on nodes; of those that are not best effort, what only victims need is 0
HOLDER = np.dtype(
    [
        ("job_id", np.int64),
        ("is_be", np.bool_),
        # Unix seconds; NaN: Slurm does not say
        ("started", np.float64),
        ("queued", np.float64),
        ("eligible", np.float64),
        # time limit, seconds; inf: none
        ("limit_s", np.float64),
        # how long it runs by its owner's word, seconds; NaN: its owner does not say
        ("said_s", np.float64),
        # grace period; NaN: it has declared no signal
        ("grace_s", np.float64),
        ("size", np.float64),
        ("ineligible", np.int8),
        # it is in a reservation, which may be over by now
        ("is_reserved", np.bool_),
        # its owner says how often it may be preempted
        ("has_word", np.bool_),
        # its nodes are for its user's jobs alone
        ("keeps_nodes", np.bool_),
        # number of its shares
        ("shares", np.intp),
    ]
)


def read(snapshot: Snapshot, before: KnownCluster | None = None) -> KnownCluster:
    """Read the site and the jobs of a snapshot, from `before` what has not changed since."""
    site = site_of(snapshot, before.site if before else None)
    known = before.jobs if before and before.jobs.lasting is site.lasting and len(before.jobs.ids) else None
    jobs = _objects(snapshot.jobs.values())
    traits = _objects(map(snapshot.traits.get, snapshot.jobs))
    ids, traits_ids = _ids(jobs), _ids(traits)
    if known is None:
        from_row = np.full(len(jobs), -1, dtype=np.intp)
        facts = np.empty(0, dtype=JOB)
    else:
        from_row = _rows_of(ids, traits_ids, known)
        facts = known.facts
    new = np.flatnonzero(from_row < 0)
    if known is not None and not len(new) and len(from_row) == len(facts) and _is_in_order(from_row):
        return KnownCluster(site=site, jobs=replace(known, holders=_with_expected(known.holders, snapshot)))
    pairs = [(jobs[row], traits[row]) for row in new.tolist()]
    facts = _taken(facts, np.array([_job_entry(*pair) for pair in pairs], dtype=JOB), from_row)
    fresh = _read_holders([pair for pair in pairs if pair[0].on_nodes], snapshot, site.lasting)
    if known is not None:
        # Rows of the jobs on nodes, by rows of all jobs.
        holder = np.cumsum(known.facts["is_on_nodes"]) - 1
        rows = from_row[facts["is_on_nodes"]]
        fresh = _merged(known.holders, fresh, np.where(rows < 0, -1, holder[rows]))
    return KnownCluster(
        site=site,
        jobs=KnownJobs(
            lasting=site.lasting,
            jobs=jobs,
            traits=traits,
            ids=ids,
            traits_ids=traits_ids,
            facts=facts,
            holders=_with_expected(fresh, snapshot),
        ),
    )


def ineligible(job: Job, traits: Traits, snapshot: Snapshot, nodes: Collection[str]) -> int:
    """Find why a job cannot be a victim, as a row of `INELIGIBLE`; 0: it can. `nodes` are those that Slurm shows."""
    return _ineligible(job, traits, nodes) or why_it_cannot_return(job, snapshot)


def _objects(values: Iterable[object]) -> NDArray[np.object_]:
    listed = list(values)
    return np.fromiter(listed, dtype=np.object_, count=len(listed))


def _ids(objects: NDArray[np.object_]) -> NDArray[np.intp]:
    return np.fromiter(map(id, objects.tolist()), dtype=np.intp, count=len(objects))


def _is_in_order(rows: NDArray[np.intp]) -> bool:
    return bool((rows == np.arange(len(rows))).all())


def _rows_of(ids: NDArray[np.intp], traits_ids: NDArray[np.intp], known: KnownJobs) -> NDArray[np.intp]:
    """Find the rows in which these pairs of objects are known; -1: in none."""
    if np.array_equal(ids, known.ids):
        rows = np.arange(len(ids))
    else:
        order = np.argsort(known.ids, kind="stable")
        place = np.searchsorted(known.ids, ids, sorter=order)
        rows = order[np.minimum(place, len(order) - 1)]
    is_known = (known.ids[rows] == ids) & (known.traits_ids[rows] == traits_ids)
    return np.where(is_known, rows, -1)


def _taken(old: NDArray[Any], new: NDArray[Any], from_row: NDArray[np.intp]) -> NDArray[Any]:
    """Entries of `old` from these rows, and where there is none (-1), of `new` in their order."""
    is_new = from_row < 0
    rows = from_row.copy()
    rows[is_new] = len(old) + np.arange(len(new))
    both: NDArray[Any] = np.concatenate((old, new)) if len(new) else old
    return both[rows]


def _job_entry(job: Job, traits: Traits | None) -> tuple[Any, ...]:
    job_class = traits.job_class if traits else JobClass.EXEMPT
    return (
        job.job_id,
        job.priority,
        job.on_nodes,
        job.pending,
        job_class is JobClass.TE,
        job_class is JobClass.BE,
        bool(job.doubt),
        has_hook_mark(job),
        job.array_job_id is not None,
    )


def _merged(old: KnownHolders, fresh: KnownHolders, rows: NDArray[np.intp]) -> KnownHolders:
    """Columns of `old` jobs on nodes from these rows, and where there is none (-1), of `fresh` ones in their order."""
    counts = _taken(old.facts["shares"], fresh.facts["shares"], rows)
    first = _taken(_first_shares(old), _first_shares(fresh) + len(old.share_node), rows)
    shares = np.repeat(first - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
    return KnownHolders(
        facts=_taken(old.facts, fresh.facts, rows),
        names=_taken(old.names, fresh.names, rows),
        owners=_taken(old.owners, fresh.owners, rows),
        expected=_taken(old.expected, fresh.expected, rows),
        learned=_taken(old.learned, fresh.learned, rows),
        share_node=np.concatenate((old.share_node, fresh.share_node))[shares],
        frees=np.concatenate((old.frees, fresh.frees))[shares],
    )


def _first_shares(holders: KnownHolders) -> NDArray[np.intp]:
    counts: NDArray[np.intp] = holders.facts["shares"]
    first: NDArray[np.intp] = np.cumsum(counts) - counts
    return first


def _read_holders(pairs: Iterable[tuple[Job, Traits | None]], snapshot: Snapshot, site: LastingSite) -> KnownHolders:
    pairs = list(pairs)
    amounts, keeps = KnownAmounts(site), keeps_nodes(snapshot)
    shared: dict[Owner, Owner] = {}
    entries: list[tuple[Any, ...]] = []
    nodes: list[int] = []
    frees: list[NDArray[np.int64]] = []
    owners: list[Owner] = []
    for job, traits in pairs:
        held = [share for share in job.allocation if share.node in site.index]
        nodes += [site.index[share.node] for share in held]
        frees += [amounts.freed_by(job, share) for share in held]
        owner = Owner(job.user, job.account, job.qos, job.partitions, job.reservation)
        owners.append(shared.setdefault(owner, owner))
        is_be = traits is not None and traits.job_class is JobClass.BE
        entries.append(
            (
                job.job_id,
                is_be,
                nan if job.start_time is None else job.start_time,
                job.submit_time,
                eligible_since(job),
                inf if job.time_limit_s is None else job.time_limit_s,
                nan if traits is None or traits.run_time_s is None else traits.run_time_s,
                traits.grace_period_s if traits is not None and traits.notice_signal else nan,
                amounts.size(job) if is_be else 0.0,
                ineligible(job, traits, snapshot, site.index) if traits is not None and is_be else 0,
                bool(job.reservation),
                traits is not None and not (traits.most_preemptions is None and traits.most_said is None),
                keeps(job),
                len(held),
            )
        )
    return KnownHolders(
        facts=np.array(entries, dtype=HOLDER),
        names=_objects(job.name for job, _ in pairs),
        owners=_objects(owners),
        expected=np.full(len(pairs), None, dtype=np.object_),
        learned=np.full((len(pairs), 2), (nan, inf)),
        share_node=np.array(nodes, dtype=np.intp),
        frees=np.array(frees, dtype=np.int64).reshape(len(frees), len(site.layout.names)),
    )


def _ineligible(job: Job, traits: Traits, nodes: Collection[str]) -> int:
    if job.doubt or job.partly_read or job.of_crontab is None:
        return 6
    if job.of_crontab:
        return CRON_JOB
    if job.federated:
        return FEDERATED
    if job.completing or job.finished or "CONFIGURING" in job.flags:
        return 1
    if not job.batch:
        return 2
    if not job.requeueable:
        return 3
    if job.het_job_id is not None:
        return 4
    if job.state is JobState.SUSPENDED:
        return 5
    if any(share.node not in nodes for share in job.allocation):
        return 7
    if job.restarts >= MOST_RESTARTS:
        return 9
    return 8 if traits.unread else 0


def _with_expected(holders: KnownHolders, snapshot: Snapshot) -> KnownHolders:
    """Return the same jobs with what is expected of their run times by now, read where it is another object."""
    known, job_ids = snapshot.expected, holders.facts["job_id"]
    expected = _objects(map(known.get, job_ids.tolist())) if known else np.full(len(job_ids), None, dtype=np.object_)
    changed = np.flatnonzero(_ids(expected) != _ids(holders.expected))
    if not len(changed):
        return holders
    learned = holders.learned.copy()
    for row in changed.tolist():
        one = expected[row]
        # From its start on: when it ends follows from it.
        late_s = 0.0 if one is None else one.suspended_s
        learned[row] = (
            (nan, inf) if one is None else (one.low_s + late_s if one.learned else nan, one.median_s + late_s)
        )
    return replace(holders, expected=expected, learned=learned)
