"""Whether a running job, back in the queue, would wait for the end of a reservation: such a job is no victim.

Definitions
    in its way    a reservation of whole nodes for others that begins before the job could have left, been requeued and
                  reached its time limit (without one, a year), and is not over yet. One that floats (TIME_FLOAT)
                  is as far ahead by then, so that the limit alone counts
    its nodes     those of its partition that are large enough for its least share, have the features that it asks for,
                  and that it does not exclude

Principle
    Slurm starts no job on nodes that are reserved before it would end. A job that runs there now was started before
    the reservation was made, or the reservation ignores it. Requeued, it waits until the reservation is over, which may
    be days, unless enough of its nodes are in no such reservation. A job with a shorter limit is no worse for the TE
    job, and starts again at once.

    Where all jobs are without a time limit, and a maintenance is within a year, no job is a victim until it is over:
    Slurm would not start any of them again before. In doubt a job is one: in a reservation of its own, where a
    reservation keeps some cores alone, or takes in any job that may use it (MAGNETIC), and where a poll has weighed as
    many shapes of jobs as it may already, as that takes a moment for each on a large cluster.

Worked example
    A maintenance of all nodes begins in a day. Job 1 has no time limit, job 2 one of an hour, and both are as good as
    victims. Job 2 leaves, and starts again after two minutes; job 1 would have waited until the maintenance is over.

Source
    Tried on 22.05: with a maintenance of all nodes in 100 days a requeued job without a time limit waits
    (ReqNodeNotAvail, Reserved for maintenance), one of an hour starts; in 400 days both do. With one in 30 minutes
    neither does. One of MAGNETIC takes the requeued job in.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from itertools import islice

from tesched_core.model.cluster import Job, Node, Reservation
from tesched_core.model.resources import Tres
from tesched_core.model.snapshot import Snapshot
from tesched_core.placement.constraint import UnsupportedConstraintError, has_features
from tesched_core.placement.latest_start import floats_clear_of, planned_run_s

#: so many shapes of jobs are weighed in a poll: their nodes, partitions, and what is in their way
MOST_SHAPES = 200


@dataclass(frozen=True, kw_only=True, eq=False)
class ReservationsAhead:
    """Reservations of one snapshot that may be in the way of requeued jobs."""

    snapshot: Snapshot
    reservations: tuple[Reservation, ...]
    #: by partition and what is in the way: the nodes that are left
    _left: dict[Hashable, tuple[str, ...]] = field(default_factory=dict, init=False)
    #: by what counts of a job
    _enough: dict[Hashable, bool] = field(default_factory=dict, init=False)

    @staticmethod
    def of(snapshot: Snapshot) -> ReservationsAhead:
        """Return those of this snapshot."""
        found = (
            one
            for one in snapshot.reservations.values()
            if one.end_time > snapshot.taken_at and not one.cores and "MAGNETIC" not in one.flags
        )
        return ReservationsAhead(
            snapshot=snapshot, reservations=tuple(sorted(found, key=lambda one: (one.start_time, one.name)))
        )

    def awaited_by(self, job: Job, leaves_within_s: float) -> str:
        """Name of the reservation whose end a running job would await, if it were requeued; empty: none."""
        if job.reservation:
            return ""
        delay_s = leaves_within_s + self.snapshot.settings.requeue_delay_s
        at, run_s = self.snapshot.taken_at, planned_run_s(job)
        in_its_way = tuple(
            one
            for one in self.reservations
            if one.start_time < at + delay_s + run_s and not floats_clear_of(one, run_s, at)
        )
        here = next((one.name for one in in_its_way if not one.nodes.isdisjoint(job.nodes)), "")
        return here if here and not self._has_others(job, in_its_way) else ""

    def _has_others(self, job: Job, in_its_way: tuple[Reservation, ...]) -> bool:
        """Check whether enough of its nodes are in none of these. A partition that is not read whole says nothing."""
        request = job.request
        if any(not one.nodes.isdisjoint(request.required_nodes) for one in in_its_way):
            return False
        least = min((share.tres for share in job.allocation), key=lambda tres: tres.cpus)
        of_request = request.min_nodes, request.features, request.excluded_nodes, least
        key = job.partitions, tuple(one.name for one in in_its_way), of_request
        if key not in self._enough:
            if len(self._enough) >= MOST_SHAPES:
                return True
            self._enough[key] = any(self._enough_in(name, job, in_its_way, least) for name in job.partitions)
        return self._enough[key]

    def _enough_in(self, name: str, job: Job, in_its_way: tuple[Reservation, ...], least: Tres) -> bool:
        partition = self.snapshot.partitions.get(name)
        if partition is None or partition.doubt or not partition.nodes:
            return True
        key = name, tuple(one.name for one in in_its_way)
        if key not in self._left:
            self._left[key] = tuple(partition.nodes.difference(*(one.nodes for one in in_its_way)))
        nodes, excluded = self.snapshot.nodes, frozenset(job.request.excluded_nodes)
        enough = (
            one
            for one in self._left[key]
            if one not in excluded and (node := nodes.get(one)) is not None and _is_enough(node, job, least)
        )
        wanted = max(job.request.min_nodes, 1)
        return sum(1 for _ in islice(enough, wanted)) == wanted


def _has_gres(total: Tres, least: Tres) -> bool:
    counts = dict(total.gres)
    return all(counts.get(name, 0) >= count for name, count in least.gres)


def _is_enough(node: Node, job: Job, least: Tres) -> bool:
    """Check whether an empty node is large enough, and has what the job asks for. One not read is."""
    if node.doubt:
        return True
    total = node.total
    if total.cpus < least.cpus or total.mem_mib < least.mem_mib:
        return False
    if least.gres and not _has_gres(total, least):
        return False
    try:
        return not job.request.features or has_features(job.request.features, node.features)
    except UnsupportedConstraintError:
        return True
