"""Input and output of Gavel's policies.

Definitions
    M, T, K        number of jobs, of accelerator types, of pairs of jobs.
    throughput     steps per second of a job, of all its accelerators together, on one type.
    scale factor   how many accelerators a job needs at once.
    X              fraction of the time, until the next answer, that a job (or a pair) spends on a type.
    pair           two jobs that share the same accelerators (space sharing), each slower than alone.

Source
    Narayanan, Santhanam, Kazhamiaka, Phanishayee, Zaharia, "Heterogeneity-Aware Cluster Scheduling Policies for Deep
    Learning Workloads", OSDI 2020, sections 3 and 4.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

#: How the jobs of an entity share what the entity gets (hierarchical policies).
KINDS = ("fairness", "fifo")

#: Stands for an argument that was not given; the default depends on the number of jobs or types.
_NOT_GIVEN: NDArray[Any] = np.empty(0)


def _not_given() -> NDArray[Any]:
    return _NOT_GIVEN


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """Pairs of jobs that may share accelerators. The rows of the arrays belong together; a pair need not be listed."""

    #: Row of one job in the problem, (K,).
    first: NDArray[np.int64]
    #: Row of the other job, (K,); never the same as `first`.
    second: NDArray[np.int64]
    #: Steps per second of the first while both run, (K, T); 0 = they can't run together there.
    first_throughput: NDArray[np.float64]
    #: Steps per second of the second while both run, (K, T).
    second_throughput: NDArray[np.float64]

    def __post_init__(self) -> None:
        """Check the arrays against each other.

        Raises:
            ValueError: shapes differ, a job is paired with itself, or a speed is negative or no number.
        """
        count = len(np.atleast_1d(self.first))
        for name in ("first", "second"):
            _put(self, name, _whole(f"pairs.{name}", getattr(self, name), (count,), least=0))
        same = np.flatnonzero(self.first == self.second)
        if len(same):
            raise ValueError(f"pairs: pair {same[0]} is job {self.first[same[0]]} with itself")
        types = _columns("pairs.first_throughput", self.first_throughput)
        for name in ("first_throughput", "second_throughput"):
            _put(self, name, _numbers(f"pairs.{name}", getattr(self, name), (count, types)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """The jobs that wait or run, in order of arrival, and the accelerators, at one instant. Arrays are copied."""

    #: Steps per second of each job on each type, (M, T); 0 = it does not fit there.
    throughput: NDArray[np.float64]
    #: Accelerators that each job needs at once, (M,), at least 1.
    scale_factor: NDArray[np.int64]
    #: Accelerators of each type, (T,).
    capacity: NDArray[np.int64]
    #: Priority weights, (M,), above 0.
    weight: NDArray[np.float64]
    #: Steps that each job still has to do, (M,). Default: 1.
    steps_left: NDArray[np.float64] = field(default_factory=_not_given)
    #: Seconds since each job's arrival, (M,). Default: 0.
    age_s: NDArray[np.float64] = field(default_factory=_not_given)
    #: Seconds that the steps done so far would have taken with 1/M of the cluster, (M,). Default: 0.
    isolated_s: NDArray[np.float64] = field(default_factory=_not_given)
    #: Seconds until each job's deadline, (M,); inf = none, below 0 = passed. Default: inf.
    deadline_s: NDArray[np.float64] = field(default_factory=_not_given)
    #: Price of an hour of one accelerator of each type, (T,), above 0. Default: 1.
    price: NDArray[np.float64] = field(default_factory=_not_given)
    #: A policy that knows no types takes the speed on this type for every type.
    reference: int = 0
    #: The entity that each job belongs to, (M,), an index into `entity_weight`. Default: 0.
    entity: NDArray[np.int64] = field(default_factory=_not_given)
    #: Weight of each entity, (E,), above 0. Default: one entity of weight 1.
    entity_weight: NDArray[np.float64] = field(default_factory=_not_given)
    #: How the jobs of each entity share, (E,), of `KINDS`. Default: all "fairness".
    entity_kind: tuple[str, ...] = ()
    #: Pairs that may share accelerators; None = no space sharing.
    pairs: Pairs | None = None

    def __post_init__(self) -> None:
        """Check every array and fill in what was not given.

        Raises:
            ValueError: a wrong shape, NaN, an infinite or negative number where none may be, an index out of range.
        """
        types = _columns("throughput", self.throughput)
        jobs = len(self.throughput)
        _put(self, "throughput", _numbers("throughput", self.throughput, (jobs, types)))
        _put(self, "scale_factor", _whole("scale_factor", self.scale_factor, (jobs,), least=1))
        _put(self, "capacity", _whole("capacity", self.capacity, (types,), least=0))
        self._check_jobs(jobs)
        _put(self, "price", _positive("price", _default(self.price, types, 1.0), (types,)))
        if not 0 <= self.reference < max(types, 1):
            raise ValueError(f"reference: {self.reference} is not one of the {types} types")
        self._check_entities(jobs)
        self._check_pairs(jobs, types)

    def _check_jobs(self, jobs: int) -> None:
        _put(self, "weight", _positive("weight", self.weight, (jobs,)))
        _put(self, "steps_left", _numbers("steps_left", _default(self.steps_left, jobs, 1.0), (jobs,)))
        _put(self, "age_s", _numbers("age_s", _default(self.age_s, jobs, 0.0), (jobs,)))
        _put(self, "isolated_s", _numbers("isolated_s", _default(self.isolated_s, jobs, 0.0), (jobs,)))
        deadline_s = _array("deadline_s", _default(self.deadline_s, jobs, np.inf), (jobs,))
        _refuse("deadline_s", deadline_s, np.isnan(deadline_s), "is not a number")
        _put(self, "deadline_s", deadline_s)

    def _check_entities(self, jobs: int) -> None:
        weight = _default(self.entity_weight, 1, 1.0)
        entities = len(np.atleast_1d(weight))
        _put(self, "entity_weight", _positive("entity_weight", weight, (entities,)))
        entity = _whole("entity", _default(self.entity, jobs, 0), (jobs,), least=0)
        _refuse("entity", entity, entity >= entities, f"is not one of the {entities} entities")
        _put(self, "entity", entity)
        kind = self.entity_kind or (KINDS[0],) * entities
        if len(kind) != entities:
            raise ValueError(f"entity_kind: {len(kind)} kinds for {entities} entities")
        unknown = [name for name in kind if name not in KINDS]
        if unknown:
            raise ValueError(f"entity_kind: {unknown[0]!r} is not one of {', '.join(KINDS)}")
        _put(self, "entity_kind", tuple(kind))

    def _check_pairs(self, jobs: int, types: int) -> None:
        if self.pairs is None:
            return
        for name, row in (("first", self.pairs.first), ("second", self.pairs.second)):
            _refuse(f"pairs.{name}", row, row >= jobs, f"is not one of the {jobs} jobs")
        if self.pairs.first_throughput.shape[1] != types:
            raise ValueError(f"pairs: speeds on {self.pairs.first_throughput.shape[1]} types, of {types}")

    def fitting(self) -> NDArray[np.float64]:
        """Return the throughput with 0 where a type has fewer accelerators than the job needs at once, (M, T)."""
        return np.where(self.scale_factor[:, None] <= self.capacity, self.throughput, 0.0)

    def agnostic(self) -> NDArray[np.float64]:
        """Speeds that a policy without knowledge of types assumes, (M, T): the reference's wherever the job fits.

        A job that does not fit on the reference type has the speed of the first type on which it fits.
        """
        speed = self.fitting()
        if not speed.size:
            return speed
        fits = speed > 0
        believed = np.where(fits.any(axis=1), speed[np.arange(len(speed)), fits.argmax(axis=1)], 0.0)
        believed = np.where(fits[:, self.reference], speed[:, self.reference], believed)
        return np.where(fits, believed[:, None], 0.0)

    def speed(self, *, aware: bool) -> NDArray[np.float64]:
        """Return the throughput that a policy goes by, (M, T): `fitting`, or `agnostic` if it knows no types."""
        return self.fitting() if aware else self.agnostic()


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """A policy's answer: the fraction of the time that each job spends on each type."""

    #: Fraction of the time that each job spends alone on each type, (M, T).
    x: NDArray[np.float64]
    #: Fraction of the time that each pair spends on each type, (K, T); None = a policy without space sharing.
    pairs_x: NDArray[np.float64] | None = None
    #: What the policy optimises, in its own unit, for this allocation; NaN if the safe fall-back was used.
    objective: float
    #: Why it is not the policy's own optimum; None = it is.
    fallback: str | None = None


class Allocator(Protocol):
    """Divides the accelerators' time among the jobs."""

    @property
    def name(self) -> str:
        """The name in the configuration."""

    def allocate(self, problem: Problem) -> Allocation:
        """Return the allocation for this instant. The same problem gets the same answer; it raises nothing."""


def _put(target: object, name: str, value: object) -> None:
    object.__setattr__(target, name, value)


def _default(given: NDArray[Any], length: int, value: float) -> NDArray[Any]:
    return np.full(length, value) if given is _NOT_GIVEN else given


def _columns(name: str, given: ArrayLike) -> int:
    shape = np.shape(given)
    if len(shape) != 2:
        raise ValueError(f"{name}: two dimensions are expected (rows, types), not {len(shape)}")
    return int(shape[1])


def _array(name: str, given: ArrayLike, shape: tuple[int, ...]) -> NDArray[np.float64]:
    array = np.array(given, dtype=np.float64)
    if array.shape != shape:
        raise ValueError(f"{name}: shape {array.shape}, expected {shape}")
    array.setflags(write=False)
    return array


def _numbers(name: str, given: ArrayLike, shape: tuple[int, ...]) -> NDArray[np.float64]:
    array = _array(name, given, shape)
    _refuse(name, array, ~np.isfinite(array), "is not a finite number")
    _refuse(name, array, array < 0, "is negative")
    return array


def _positive(name: str, given: ArrayLike, shape: tuple[int, ...]) -> NDArray[np.float64]:
    array = _numbers(name, given, shape)
    _refuse(name, array, array == 0, "is not above 0")
    return array


def _whole(name: str, given: ArrayLike, shape: tuple[int, ...], *, least: int) -> NDArray[np.int64]:
    array = _array(name, given, shape)
    _refuse(name, array, ~np.isfinite(array) | (array != np.round(array)), "is not a whole number")
    _refuse(name, array, array < least, f"is below {least}")
    whole = array.astype(np.int64)
    whole.setflags(write=False)
    return whole


def _refuse(name: str, array: NDArray[Any], bad: NDArray[np.bool_], what: str) -> None:
    if bad.any():
        where = tuple(int(at) for at in np.argwhere(bad)[0])
        raise ValueError(f"{name}: {array[where]} at {', '.join(map(str, where))} {what}")
