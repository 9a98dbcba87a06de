"""What the pyslurm process answers: a record of another form than known hides no other."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast, get_type_hints

import msgspec
import pytest
from tesched_core.model.cluster import Request
from tesched_slurm.pyslurm_jobs import job_of, pending_job
from tesched_slurm.pyslurm_wire import LENGTH, Done, JobRecord, PollAll, PolledObjects, Version, frame, read_answer
from tesched_slurm.pyslurm_worker import Pyslurm, Worker

from tests.unit.slurm.squeue_says import PLAIN
from tests.unit.slurm.test_cluster_bounds import NODE_RECORD, PARTITION_RECORD

HINTS = get_type_hints(JobRecord)
#: fields that hold a number or nothing
NUMBERS = [name for name in JobRecord.__struct_fields__ if name != "id" and HINTS[name] in (int, int | None)]


def record(job_id: Any, **changes: object) -> JobRecord:
    """Make a record with a value in each field."""
    values: dict[str, Any] = {}
    for name in JobRecord.__struct_fields__:
        hint = HINTS[name]
        values[name] = "x" if hint in (str, str | None) else () if hint == tuple[str, ...] else hint is not bool
    values |= dict.fromkeys(NUMBERS, 1) | {"id": job_id, **changes}
    return JobRecord(**values)


class Records:
    """Jobs, nodes, partitions or reservations of a pyslurm."""

    def __init__(self, *records: object) -> None:
        """Take them; a field of a job's has another name there."""
        self.records = records

    def load(self) -> Records:
        return self

    def values(self) -> tuple[object, ...]:
        return self.records


def as_pyslurm(one: msgspec.Struct) -> SimpleNamespace:
    values = {name: getattr(one, name) for name in one.__struct_fields__}
    return SimpleNamespace(**{"user_id": 0, **values})


def seen_by_a_worker(**found: Records) -> PolledObjects:
    """Return what comes over the wire where pyslurm shows these."""
    parts = {name: found.get(name, Records()) for name in ("Jobs", "Nodes", "Partitions", "Reservations")}
    worker = Worker(cast("Pyslurm", SimpleNamespace(RPCError=OSError, **parts)))
    answer = read_answer(frame(worker.answer(PollAll()))[LENGTH.size :])
    assert isinstance(answer, PolledObjects)
    return answer


def test_the_deadline_of_a_waiting_job_is_squeues() -> None:
    said = record(1, state="PENDING", required_nodes="n1", excluded_nodes="n2", reservation=None, time_limit=10)
    row = PLAIN._replace(state="PENDING", deadline="5000")
    assert (pending_job(said, row).deadline, pending_job(said, PLAIN).deadline) == (5000, None)


@pytest.mark.parametrize(
    ("origin", "viable", "array", "federated"),
    [
        (None, (), None, False),
        (None, (), 1, False),
        ("one", ("one",), None, False),
        ("one", ("one", "two"), None, True),
        ("one", ("one",), 1, True),
    ],
)
def test_a_job_that_another_cluster_may_run_is_federated(
    origin: str | None, viable: tuple[str, ...], array: int | None, federated: bool
) -> None:
    where = {"federation_origin": origin, "federation_siblings_viable": viable}
    said = record(1, state="RUNNING", array_id=array, array_tasks_waiting=None, reservation=None, **where)
    assert job_of(said, Request()).federated is federated


def test_a_record_without_an_id_is_no_job() -> None:
    seen = seen_by_a_worker(Jobs=Records(as_pyslurm(record(4294967294)), as_pyslurm(record(1))))
    assert ([job.id for job in seen.jobs], seen.unread) == ([1], ())


def test_an_answer_comes_as_it_was_sent() -> None:
    seen = PolledObjects(jobs=(record(1), record(2)), unread=(3,), nodes=(), partitions=())
    for answer in (seen, Done()):
        assert read_answer(frame(answer)[LENGTH.size :]) == answer


@pytest.mark.parametrize("name", NUMBERS)
def test_a_word_in_the_place_of_a_number_makes_that_job_unread_alone(name: str) -> None:
    """Pyslurm has one for the number that stands for "infinite", which any user may write into a job."""
    odd = record(2, **{name: "UNLIMITED"})
    seen = seen_by_a_worker(Jobs=Records(as_pyslurm(record(1)), as_pyslurm(odd), as_pyslurm(record(4))))
    assert ([job.id for job in seen.jobs], seen.unread) == ([1, 4], (2,))


@pytest.mark.parametrize(
    ("kind", "number"), [("Nodes", "temporary_disk"), ("Nodes", "sockets"), ("Partitions", "priority_tier")]
)
def test_such_a_word_in_a_node_or_a_partition_leaves_them_to_the_commands(kind: str, number: str) -> None:
    record_of = {"Nodes": NODE_RECORD, "Partitions": PARTITION_RECORD}[kind]
    well = as_pyslurm(record_of)
    odd = SimpleNamespace(**{**vars(well), number: "UNLIMITED"})
    whole, partly = seen_by_a_worker(**{kind: Records(well)}), seen_by_a_worker(**{kind: Records(well, odd)})
    assert getattr(whole, kind.lower()) == (record_of,)
    assert getattr(partly, kind.lower()) is None


@pytest.mark.parametrize(
    "strange",
    [Version(version=7), PolledObjects(jobs=(record("x"),)), PolledObjects(reservations="x"), [1], 7],  # type: ignore[arg-type]
)
def test_an_answer_of_another_form_is_an_error(strange: object) -> None:
    with pytest.raises(msgspec.DecodeError):
        read_answer(frame(strange)[LENGTH.size :])


def test_nodes_with_a_gres_in_units_are_left_to_scontrol() -> None:
    """Pyslurm's own reader takes the unit of `tmp:400G` for a type, and expects a count behind it."""

    class Counted(SimpleNamespace):
        @property
        def configured_gres(self) -> dict[str, int]:
            raise IndexError

    values = {name: getattr(NODE_RECORD, name) for name in NODE_RECORD.__struct_fields__ if name != "configured_gres"}
    seen = seen_by_a_worker(Jobs=Records(as_pyslurm(record(1))), Nodes=Records(Counted(**values)))
    assert (seen.nodes, [job.id for job in seen.jobs]) == (None, [1])
