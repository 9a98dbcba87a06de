"""A Slurm job as PD-ORS sees it: its speed on so many nodes, in one rack or in several, and what its end is worth.

Definitions
    workload       what a site says of a kind of training: a line of the table `policy.pdors.workloads`. A job names its
                   own in its comment (`workload=resnet50`), and may say how many samples it does (`samples=2e6`) and
                   how much time matters (`utility=critical`).
    node           Slurm gives whole shares of nodes, each the same. Each node of a job is a worker, and its servers, or
                   its part of an all-reduce, run beside; or each node is a worker or a server (`servers = "apart"`).
    rack           where the exchange is fast: the paper's one machine. A job in one rack is internal.

Principle
    The paper's speed (model.py) with nodes for workers. Of a job without a workload nothing is known but its expected
    run time (comment, else time limit): that is taken for the time on its fewest nodes, anywhere; twice the nodes do it
    in half the time.
    What time is worth has three classes, as in the paper's settings: insensitive (it is always worth half), sensitive
    and critical. In between it falls around `patience_s`, by default three times the job's shortest run.

Worked example
    1,000 samples of 0.1 s in batches of 10, 100 MB of gradients; 1,000 MB/s in a rack, 100 MB/s beyond. A batch takes W
    workers 10 * 0.1 / W s and the exchange 2 * 100 / 1000 = 0.2 s or 2 s. All 100 batches: with 2 nodes 70 s in a rack
    and 250 s beyond, with 4 nodes 45 s and 225 s.

Source
    PD-ORS (model.py). The steepness is in the paper's ranges: 0, 0.01 to 1 and 4 to 6 a slot, with a patience of 1 to
    15 slots.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf
from typing import Annotated

from tesched_core.model.arrays import NDArray, np
from tesched_core.model.cluster import Job
from tesched_core.model.job_report import LONGEST_NAME
from tesched_core.model.ranges import LONGEST_S, Amount, AtLeastOne, Form, Positive, Range, Seconds, check_ranges
from tesched_core.model.snapshot import Traits

from tesched_policies.pdors.model import Sigmoid, Speed, TrainingJob

#: What a job's comment can name.
NAME = Form(
    pattern=rf"[^ \t\n,;=]{{1,{LONGEST_NAME}}}",
    said=f" must be one word of at most {LONGEST_NAME} letters, as in a job's comment",
)
#: Expected run time of a job of which nothing is known, seconds.
UNKNOWN_RUN_S = 3600.0
#: Height of the utility of a job that is in no table.
USUAL_WORTH = 100.0
#: No run is longer, whatever a job says of itself: its end is worth nothing long before.
LONGEST_SLOTS = 1e6
#: Without a patience, so many times the shortest run.
PATIENT_FOR = 3.0


class Urgency(StrEnum):
    """Classes by how much time matters."""

    INSENSITIVE = "insensitive"
    SENSITIVE = "sensitive"
    CRITICAL = "critical"


#: Steepness times patience: how sharply the worth falls where the patience ends.
STEEPNESS = {Urgency.INSENSITIVE: 0.0, Urgency.SENSITIVE: 4.0, Urgency.CRITICAL: 40.0}


class Servers(StrEnum):
    """Placement of a job's parameter servers."""

    #: on the workers' nodes; also for an all-reduce, which has none
    BESIDE = "beside"
    #: on nodes of their own, out of those that the job gets
    APART = "apart"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingKind:
    """One kind of training."""

    #: what a job's comment says: workload=NAME
    name: Annotated[str, NAME]
    #: samples to process, all epochs together; a job's own `samples=` comes first
    samples: Annotated[float, Range(is_above=True, most=1e200)]
    #: seconds that one worker needs for a sample
    sample_s: Annotated[float, Range(is_above=True, most=LONGEST_S, words=", a hundred years")]
    #: samples of a batch, over all workers
    batch: AtLeastOne
    #: MB that a worker sends and receives for each batch
    gradient_mb: Amount = 0.0
    #: MB/s between two nodes of a rack, and of different racks
    rack_mb_per_s: Positive = 1000.0
    far_mb_per_s: Positive = 1000.0
    servers: Servers = Servers.BESIDE
    #: workers that one server serves
    workers_per_server: AtLeastOne = 1
    speed: Speed = Speed.BATCH
    utility: Urgency = Urgency.SENSITIVE
    #: what a timely end is worth, beside the others
    worth: Positive = USUAL_WORTH
    #: seconds after its submission at which its end is worth half; 0: three times its shortest run
    patience_s: Seconds = 0.0

    def __post_init__(self) -> None:
        """Raise ValueError for what is no training."""
        check_ranges(self)
        if self.far_mb_per_s > self.rack_mb_per_s:
            raise ValueError("far_mb_per_s must not be above rack_mb_per_s")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Training:
    """One job, in slots."""

    model: TrainingJob
    #: nodes that it may have
    fewest: int
    most: int
    servers: Servers
    #: Slurm ends it after so many slots
    limit_slots: float

    def workers(self, nodes: int) -> int:
        """Number of workers among so many nodes, or in what runs there."""
        if self.servers is Servers.BESIDE:
            return min(nodes, self.model.batch)
        each = self.model.workers_per_server
        return max(min(nodes * each // (each + 1), self.model.batch), 1)

    def run_slots(self, nodes: int, *, one_rack: bool, rest: float = 1.0) -> float:
        """Number of slots, not rounded, that the `rest` of its samples (a part of all) take on so many nodes."""
        speed = self.model.samples_per_slot(self.workers(nodes), internal=one_rack)
        return min(rest * self.model.samples / speed, self.limit_slots, LONGEST_SLOTS)


def training_of(
    job: Job, traits: Traits, workload: TrainingKind | None, share: NDArray[np.float64], slot_s: float
) -> Training:
    """Training model of the job; its `share` of a node is (R,), `slot_s` is the length of a slot."""
    request = job.request
    fewest = max(request.min_nodes, 1)
    most = max(request.max_nodes, fewest)
    if workload is None:
        run_s = traits.run_time_s or job.time_limit_s or UNKNOWN_RUN_S
        # A sample is what one node does in a second.
        workload = TrainingKind(name="unknown", samples=run_s * fewest, sample_s=1.0, batch=most)
    # A worker and a server take what their node gives: one node each, or half of one.
    each = share if workload.servers is Servers.APART else share / 2
    model = TrainingJob(
        job_id=job.job_id,
        arrival=0,
        samples=traits.samples or workload.samples,
        batch=workload.batch,
        sample_slots=workload.sample_s / slot_s,
        model_mb=workload.gradient_mb,
        workers_per_server=workload.workers_per_server,
        internal_mb_per_slot=workload.rack_mb_per_s * slot_s,
        external_mb_per_slot=workload.far_mb_per_s * slot_s,
        worker=each,
        server=each,
        utility=Sigmoid(height=workload.worth, steepness=0.0, patience=1.0),
        speed=workload.speed,
    )
    training = Training(
        model=model,
        fewest=fewest,
        most=most,
        servers=workload.servers,
        limit_slots=inf if job.time_limit_s is None else job.time_limit_s / slot_s,
    )
    shortest = min(training.run_slots(nodes, one_rack=True) for nodes in (fewest, most))
    patience = workload.patience_s / slot_s or PATIENT_FOR * shortest
    steepness = STEEPNESS[Urgency(traits.utility) if traits.utility else workload.utility] / max(patience, 1.0)
    utility = replace(model.utility, steepness=steepness, patience=patience)
    return replace(training, model=replace(model, utility=utility))
