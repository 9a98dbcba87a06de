"""The TE policies by name, with their parameters: what the configuration and the simulator choose from."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import inf

from tesched_core.levers.hold import RoundPolicy
from tesched_core.levers.throttle import SharePolicy
from tesched_core.model.limits import RoundLimits
from tesched_core.policy import BePolicy, TePolicy

from tesched_policies.baselines import AtRandom, LongestRemaining, Nobody, YoungestFirst
from tesched_policies.fill import Fill
from tesched_policies.fitgpp import FitGpp
from tesched_policies.gavel.allocators.names import ALONE, SHARING, SIMULATED
from tesched_policies.gavel.weights import Entity, JobWeights, weights
from tesched_policies.patient import Patient
from tesched_policies.pdors.workload import Workload


class TePolicyName(StrEnum):
    """Who yields to a TE job, and when."""

    FITGPP = "fitgpp"
    PATIENT = "patient"
    LRTP = "lrtp"
    RAND = "rand"
    YOUNGEST = "youngest"
    NONE = "none"


class BePolicyName(StrEnum):
    """Who of the waiting best-effort jobs is next."""

    #: Slurm's own order
    NONE = "none"
    FILL = "fill"
    #: turns on several types of GPUs
    GAVEL = "gavel"
    #: distributed jobs: when, on how many nodes and on which, planned at prices
    PDORS = "pdors"
    #: elastic job arrays share workers by what their losses are foretold to do
    SLAQ = "slaq"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyConfig:
    """Which policy, and its parameters; those of the others are not looked at."""

    te: TePolicyName = TePolicyName.FITGPP
    be: BePolicyName = BePolicyName.NONE
    #: FitGpp's weight of the grace period against the size
    fitgpp_s: float = 4.0
    #: and of the expected gain in quality of who trains, by what slaq knows; 0: none
    fitgpp_quality: float = 0.0
    #: patient: seconds that a TE job waits for room that comes free by itself, before anybody is asked
    patience_s: float = 120.0
    #: gavel: how the time is divided (gavel/policies.py); length of a round, seconds; least time
    #: between two allocations; types of GPUs, fastest first, empty for all; whether room is given away in mid-round
    gavel_policy: str = "las"
    gavel_round_s: float = 360.0
    gavel_solve_every_s: float = 0.0
    gavel_types: tuple[str, ...] = ()
    gavel_fills: bool = True
    #: gavel: weights of QOS and of entities, "NAME=WEIGHT"; the most that a job's comment may ask for; who is an
    #: entity; entities whose jobs come one after the other (gavel/standing.py)
    gavel_qos_weights: tuple[str, ...] = ()
    gavel_most_weight: float = 1.0
    gavel_entity: Entity = Entity.ACCOUNT
    gavel_entity_weights: tuple[str, ...] = ()
    gavel_in_order: tuple[str, ...] = ()
    #: gavel, pdors: what their turns may cost, beside what TE jobs may: how often one job gives way in any hour (0:
    #: once a round, or slot); seconds that it runs before it does (at most half a round); preemptions in any hour and
    #: node-hours of ended runs in any 24 hours, in all (0: no limit)
    round_max_preemptions_per_job_hour: int = 0
    round_min_run_time_s: float = 60.0
    round_max_preemptions_per_hour: int = 0
    round_max_lost_node_hours_per_day: float = 0.0
    #: slaq: seconds from one allocation to the next; workers that every elastic array gets; smallest change of a
    #: throttle, workers, and seconds for which an array is left alone after one; by which part the gain of who waits
    #: must be above the others', so that it is first in the queue, and seconds before another one takes its place
    slaq_epoch_s: float = 30.0
    slaq_least: int = 1
    slaq_throttle_step: int = 1
    slaq_throttle_cool_down_s: float = 30.0
    slaq_priority_step: float = 0.25
    slaq_priority_cool_down_s: float = 300.0
    #: pdors: length of a slot, seconds; how many are planned; least price of a resource, in parts of the highest; what
    #: features of nodes that name their rack begin with, empty for Slurm's topology; what is known of the trainings
    pdors_slot_s: float = 300.0
    pdors_slots: int = 48
    pdors_floor: float = 1e-5
    pdors_rack_feature: str = ""
    pdors_workloads: tuple[Workload, ...] = ()
    #: for `rand`
    rand_seed: int = 0

    def __post_init__(self) -> None:
        """Raise ValueError for a weight that would turn a rule round, a wait that makes no sense, or no seed."""
        if not 0 <= self.fitgpp_s <= 1000:
            raise ValueError("fitgpp_s must be between 0 and 1000")
        if not 0 <= self.patience_s <= 86_400:
            raise ValueError("patience_s must be between 0 and 86400 seconds")
        if self.gavel_policy not in (*ALONE, *SHARING):
            why = "; what a job got done beside another is not known on Slurm"
            only = why if self.gavel_policy in SIMULATED else ""
            raise ValueError(f"gavel_policy must be one of {', '.join((*ALONE, *SHARING))}{only}")
        if not 1 <= self.gavel_round_s <= 86_400:
            raise ValueError("gavel_round_s must be between 1 and 86400 seconds")
        if not 0 <= self.gavel_solve_every_s <= 86_400:
            raise ValueError("gavel_solve_every_s must be between 0 and 86400 seconds")
        if len(set(self.gavel_types)) < len(self.gavel_types):
            raise ValueError("gavel_types must name each type once")
        if not 0.001 <= self.gavel_most_weight <= 1000:
            raise ValueError("gavel_most_weight must be between 0.001 and 1000")
        self.gavel_standing()
        for key in (
            "round_max_preemptions_per_job_hour",
            "round_min_run_time_s",
            "round_max_preemptions_per_hour",
            "round_max_lost_node_hours_per_day",
        ):
            if not 0 <= getattr(self, key) < inf:
                raise ValueError(f"{key} must be a number of at least 0")
        self._check_slaq()
        self._check_pdors()
        if not 0 <= self.rand_seed < 2**63:
            raise ValueError("rand_seed must be between 0 and 9223372036854775807")

    def _check_pdors(self) -> None:
        if not 1 <= self.pdors_slot_s <= 86_400:
            raise ValueError("pdors_slot_s must be between 1 and 86400 seconds")
        if not 2 <= self.pdors_slots <= 1000:
            raise ValueError("pdors_slots must be between 2 and 1000")
        if not 1e-12 <= self.pdors_floor <= 0.1:
            raise ValueError("pdors_floor must be between 1e-12 and 0.1")
        names = [workload.name for workload in self.pdors_workloads]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"pdors_workloads: two workloads are named {twice[0]!r}; each needs a name of its own")

    def _check_slaq(self) -> None:
        if not 0 <= self.fitgpp_quality <= 1000:
            raise ValueError("fitgpp_quality must be between 0 and 1000")
        if self.fitgpp_quality and self.be is not BePolicyName.SLAQ:
            raise ValueError('fitgpp_quality must be 0 where policy.be is not "slaq"')
        if not 1 <= self.slaq_epoch_s <= 86_400:
            raise ValueError("slaq_epoch_s must be between 1 and 86400 seconds")
        for key, most in (("slaq_throttle_cool_down_s", 86_400), ("slaq_priority_cool_down_s", 86_400)):
            if not 0 <= getattr(self, key) <= most:
                raise ValueError(f"{key} must be between 0 and {most} seconds")
        for key in ("slaq_least", "slaq_throttle_step"):
            if not 1 <= getattr(self, key) <= 10_000:
                raise ValueError(f"{key} must be between 1 and 10000 workers")
        if not 0 <= self.slaq_priority_step <= 100:
            raise ValueError("slaq_priority_step must be between 0 and 100")

    def gavel_standing(self) -> JobWeights:
        """Return how much jobs count for gavel. Raises ValueError for a weight that is none."""
        return JobWeights(
            qos_weights=weights(self.gavel_qos_weights, "gavel_qos_weights"),
            most_weight=self.gavel_most_weight,
            entity=self.gavel_entity,
            entity_weights=weights(self.gavel_entity_weights, "gavel_entity_weights"),
            in_order=frozenset(self.gavel_in_order),
        )

    def round_limits(self, round_s: float) -> RoundLimits:
        """Return what turns may cost in rounds of so many seconds."""
        fitting = RoundLimits.of_round(round_s)
        return RoundLimits(
            max_preemptions_per_job_hour=self.round_max_preemptions_per_job_hour
            or fitting.max_preemptions_per_job_hour,
            min_run_time_s=min(self.round_min_run_time_s, round_s / 2),
            max_preemptions_per_hour=self.round_max_preemptions_per_hour or None,
            max_lost_node_hours_per_day=self.round_max_lost_node_hours_per_day or None,
        )

    def te_policy(self) -> TePolicy:
        """Return the policy."""
        match self.te:
            case TePolicyName.FITGPP:
                return FitGpp(s=self.fitgpp_s, quality=self.fitgpp_quality)
            case TePolicyName.PATIENT:
                return Patient(patience_s=self.patience_s)
            case TePolicyName.LRTP:
                return LongestRemaining()
            case TePolicyName.RAND:
                return AtRandom(seed=self.rand_seed)
            case TePolicyName.YOUNGEST:
                return YoungestFirst()
            case TePolicyName.NONE:
                return Nobody()

    def be_policy(self) -> BePolicy | RoundPolicy | SharePolicy | None:
        """Return the best-effort policy, if there is one."""
        match self.be:
            case BePolicyName.NONE:
                return None
            case BePolicyName.FILL:
                return Fill()
            case BePolicyName.GAVEL:
                # Here: they bring SciPy, for which `tesched status` and a daemon without them need not wait.
                from tesched_policies.gavel.allocators.registry import policy  # noqa: PLC0415
                from tesched_policies.gavel.policy import Gavel  # noqa: PLC0415

                return Gavel(
                    policy=policy(self.gavel_policy),
                    round_s=self.gavel_round_s,
                    solve_every_s=self.gavel_solve_every_s,
                    types=self.gavel_types,
                    fills=self.gavel_fills,
                    standing=self.gavel_standing(),
                    limits=self.round_limits(self.gavel_round_s),
                )
            case BePolicyName.PDORS:
                # Here, since these bring SciPy, too.
                from tesched_policies.pdors.policy import PdOrsOnSlurm  # noqa: PLC0415

                return PdOrsOnSlurm(
                    slot_s=self.pdors_slot_s,
                    horizon=self.pdors_slots,
                    floor=self.pdors_floor,
                    rack_feature=self.pdors_rack_feature,
                    workloads=self.pdors_workloads,
                    limits=self.round_limits(self.pdors_slot_s),
                )
            case BePolicyName.SLAQ:
                from tesched_policies.slaq.policy import Slaq  # noqa: PLC0415 - it brings what fits curves

                return Slaq(
                    epoch_s=self.slaq_epoch_s,
                    least=self.slaq_least,
                    throttle_step=self.slaq_throttle_step,
                    throttle_cool_down_s=self.slaq_throttle_cool_down_s,
                    priority_step=self.slaq_priority_step,
                    priority_cool_down_s=self.slaq_priority_cool_down_s,
                )
