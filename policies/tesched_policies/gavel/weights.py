"""Weights of jobs on Slurm for Gavel's policies: its weight, its deadline, and the entity that it shares with.

Definitions
    weight      a job with twice the weight gets twice the throughput (las, hierarchical).
    deadline    when the job's work should have been done (cost-slo, cost-sum-slo).
    entity      a group that has one weight together (hierarchical).

Principle
    What a site decides comes from Slurm: the QOS has a weight, the entity is the job's account (or user, QOS,
    partition) and has a weight. What its owner knows comes from the comment: `weight=0.5`, up to `most_weight`, so that
    no user helps himself; it multiplies the QOS's. And `slo=7200`: seconds from submission, over all its runs.

Worked example
    QOS high has weight 4, most_weight is 1. A job of QOS high with `weight=0.5` counts 2; one of QOS normal with
    `weight=9` counts 1. A job that came 3600 s ago with `slo=7200` has 3600 s left.

Parameters
    qos_weights       by QOS; others have 1
    most_weight       that a comment may ask for, 1
    entity            account, user, qos or partition
    entity_weights    by entity; others have 1
    in_order          entities with jobs one after the other, by arrival, instead of sharing

Source
    OSDI 2020, sections 4.1 (weights), 4.2 (deadlines), 4.3 (entities). That Slurm's QOS and accounts say them is ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf

from tesched_core.model.arrays import NDArray, np
from tesched_core.model.cluster import Job
from tesched_core.model.resources import JobId, UnixSeconds
from tesched_core.model.snapshot import Traits


class Entity(StrEnum):
    """The attribute that the jobs of an entity have in common."""

    ACCOUNT = "account"
    USER = "user"
    QOS = "qos"
    PARTITION = "partition"

    def of(self, job: Job) -> str:
        """Return the job's; empty if it has none."""
        match self:
            case Entity.ACCOUNT:
                return job.account
            case Entity.USER:
                return job.user
            case Entity.QOS:
                return job.qos
            case Entity.PARTITION:
                return ",".join(job.partitions)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Terms:
    """Of M jobs and E entities, as `Problem` has them."""

    weight: NDArray[np.float64]
    deadline_s: NDArray[np.float64]
    entity: NDArray[np.int64]
    entity_weight: NDArray[np.float64]
    entity_kind: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobWeights:
    """The parameters; see the head of this file."""

    qos_weights: Mapping[str, float] = field(default_factory=dict)
    most_weight: float = 1.0
    entity: Entity = Entity.ACCOUNT
    entity_weights: Mapping[str, float] = field(default_factory=dict)
    in_order: frozenset[str] = frozenset()

    def weight(self, job: Job, traits: Traits) -> float:
        """Weight of the job: its QOS's times its own."""
        return self.qos_weights.get(job.qos, 1.0) * min(traits.weight or 1.0, self.most_weight)

    def terms(
        self, jobs: Sequence[Job], traits: Mapping[JobId, Traits], since: Sequence[UnixSeconds], now: UnixSeconds
    ) -> Terms:
        """Return the jobs' terms; `since` is when each came."""
        mine = [traits[job.job_id] for job in jobs]
        entities = [self.entity.of(job) for job in jobs]
        names = sorted(set(entities)) or [""]
        place = {name: at for at, name in enumerate(names)}
        left_s = [inf if one.slo_s is None else came + one.slo_s - now for one, came in zip(mine, since, strict=True)]
        return Terms(
            weight=np.array([self.weight(job, one) for job, one in zip(jobs, mine, strict=True)], dtype=np.float64),
            deadline_s=np.array(left_s, dtype=np.float64),
            entity=np.array([place[name] for name in entities], dtype=np.int64),
            entity_weight=np.array([self.entity_weights.get(name, 1.0) for name in names]),
            entity_kind=tuple("fifo" if name in self.in_order else "fairness" for name in names),
        )

    def said(self, job: Job, traits: Traits, *, of_entities: bool) -> str:
        """Return in words what of it is not the ordinary, empty if all is."""
        weight = self.weight(job, traits)
        parts = [f"its weight is {weight:g}"] if weight != 1 else []
        if traits.slo_s is not None:
            parts.append(f"it should end within {traits.slo_s:g} s of its submission")
        if of_entities:
            name = self.entity.of(job)
            parts.append(f"it counts to the {self.entity.value} {name}" if name else f"it has no {self.entity.value}")
        return ", ".join(parts)


def weights(values: Sequence[str], key: str, form: str = "NAME=WEIGHT") -> dict[str, float]:
    """Return `["high=4", "low=0.5"]` as a table. Raises ValueError, which names the key."""
    found: dict[str, float] = {}
    for value in values:
        name, equals, text = value.rpartition("=")
        try:
            weight = float(text)
        except ValueError:
            weight = 0.0
        if not equals or not name or not 0.001 <= weight <= 1000:
            raise ValueError(f'{key} must hold "{form}" with numbers from 0.001 to 1000, not {value!r}')
        if name in found:
            raise ValueError(f"{key} must name {name} once")
        found[name] = weight
    return found
