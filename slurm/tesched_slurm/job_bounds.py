"""The door through which every job comes in: what one user may write into a job, the rest of tesched can hold.

slurmctld takes numbers of 64 bits from any user (`sbatch --mem-per-gpu=9223372036854775807 --gpus=2`), and multiplies
nothing: the product is a number that no column of the store, of NumPy or of the plugin's file can hold. A job
with such a number is unreadable, as one with a record of an unknown form is: it is left alone, and the others are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

from tesched_core.model.cluster import Job, Request
from tesched_core.model.request import demand_per_node, requested_gpus

#: The largest number of a job, and of what follows from its request over all its nodes: as large as a float holds
#: whole, and a thousand of them fit into 64 bits.
MOST = 2**53
#: The same of a GRES: local disks are counted in bytes. Sums of what runs are bounded by what the nodes have.
MOST_GRES = 2**56
#: The same of CPUs, tasks and GPUs: the site's memory and CPUs for each (DefMemPerGPU) are multiplied by them later.
MOST_COUNT = 2**32
#: The latest time, Unix seconds: the end of the year 9999, the last that can be written as a date.
LATEST = 253_402_300_799
#: Characters of all texts of one job together; slurmctld itself takes 1,024 bytes of most of them.
MOST_TEXT = 1 << 20


#: Requests that are kept with what is wrong of each: many jobs ask for the same.
_KEPT_REQUESTS = 4096


def within_bounds(job: Job) -> Job:
    """Return the job. Raises ValueError for one with a number, a time or a text that is too large, and names it."""
    fault = _excess(_numbers(job)) or _excess_of_request(job.request)
    if fault:
        raise ValueError(fault)
    for name, moment in (
        ("its submit time", job.submit_time),
        ("its eligible time", job.eligible_time),
        ("its start time", job.start_time),
        ("its end time", job.end_time),
        ("its deadline", job.deadline),
    ):
        if moment is not None and not 0 <= moment <= LATEST:
            raise ValueError(f"{name} is out of all bounds: {moment:.0f}")
    texts = job.name, job.comment, job.admin_comment, job.account, job.dependency, job.licenses, job.request.features
    length = sum(map(len, (*texts, *job.partitions)))
    if length > MOST_TEXT:
        raise ValueError(f"its texts have {length} characters")
    return job


def _excess(numbers: Iterable[tuple[str, int, int]]) -> str:
    """Sentence on the first number that is beyond its bound; empty: none is."""
    for name, number, most in numbers:
        if not -most <= number <= most:
            return f"{name} is out of all bounds: {str(number)[:40]}"
    return ""


@lru_cache(maxsize=_KEPT_REQUESTS)
def _excess_of_request(request: Request) -> str:
    return _excess(_numbers_of_request(request))


def _numbers(job: Job) -> Iterator[tuple[str, int, int]]:
    """Yield what a number is, the number and its bound: what a user can choose, and what the job holds."""
    for name in ("priority", "nice", "restarts", "time_limit_s", "array_task_id", "array_throttle", "het_offset"):
        value = getattr(job, name)
        if value is not None:
            yield f"its {name}", value, MOST
    for share in job.allocation:
        yield f"the memory that it holds on {share.node}", share.tres.mem_mib, MOST
        for name, count in share.tres.gres:
            yield f"what it holds of {name[:40]} on {share.node}", count, MOST_GRES


def _numbers_of_request(request: Request) -> Iterator[tuple[str, int, int]]:
    """Yield what a number is, the number and its bound: what a user can choose, and what follows from that."""
    for name in request.__dataclass_fields__:
        value = getattr(request, name)
        if isinstance(value, int):
            yield f"its request's {name}", value, MOST
        elif isinstance(value, tuple) and value and isinstance(value[0], tuple):
            most = MOST_GRES if name.startswith("gres_") else MOST
            for what, count in value:
                yield f"its request's {name} ({what[:40]})", count, most
    yield "its tasks", request.tasks, MOST_COUNT
    nodes = max(request.min_nodes, 1)
    wanted = demand_per_node(request)
    yield "the CPUs that it asks for", wanted.cpus * nodes, MOST_COUNT
    yield "the memory that it asks for", wanted.mem_mib * nodes, MOST
    yield "the GPUs that it asks for", requested_gpus(request), MOST_COUNT
    for name, count in wanted.gres:
        yield f"what it asks for of {name[:40]}", count * nodes, MOST_GRES
