"""What a soak's table says, and what of it does not hold."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.harness.attacks.bench import Polls, longest_request_s, waits
from tesched_testcluster.harness.attacks.soak import Plan, Sample, Soak, Stretch
from tesched_testcluster.harness.attacks.verdict import holds, table

GOOD = Stretch(polls=Polls(count=500, longest_s=0.4), waits=(0.5,) * 19 + (0.9,))
NEVER = replace(GOOD, waits=(math.inf,))
SAMPLE = Sample(memory_mib=100.0, store_mib=2.0, jobs=1000)


def soak(**changes: object) -> Soak:
    """Make one that held, but for these changes."""
    made = Soak(plan=Plan(client=ClientChoice.COMMANDS), submitted=2000, honest="ada")
    made.quiet, made.beside, made.samples = GOOD, GOOD, [SAMPLE] * 3
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def test_all_holds_where_nothing_changed() -> None:
    lines = list(table(soak()))
    assert holds(soak())
    assert not any("NOT HELD" in line for line in lines)
    assert "2000 jobs" in lines[0]


@pytest.mark.parametrize(
    ("changes", "row"),
    [
        ({"ended": "the daemon has ended with status -6"}, "daemon ended"),
        ({"beside": replace(GOOD, polls=Polls(count=9, longest_s=2.01))}, "longest poll"),
        ({"beside": replace(GOOD, waits=(0.5,) * 18 + (2.1, 2.1))}, "honest TE wait, 95%"),
        ({"beside": replace(GOOD, waits=(2.1,) * 20)}, "honest TE wait, 50%"),
        ({"beside": replace(GOOD, waits=(0.5,) * 9 + (math.inf,) * 11)}, "honest TE wait, 50%"),
        ({"samples": [SAMPLE, replace(SAMPLE, memory_mib=900.0), SAMPLE]}, "memory, MiB"),
        ({"samples": [SAMPLE, SAMPLE, replace(SAMPLE, store_mib=200.0)]}, "store, MiB"),
        ({"submitted": 0}, "hostile jobs"),
        ({"beside": replace(GOOD, polls=Polls(count=0, longest_s=0.0))}, "longest poll"),
        ({"quiet": replace(GOOD, waits=()), "beside": replace(GOOD, waits=())}, "honest TE wait, 50%"),
        (
            {"quiet": replace(GOOD, waits=(math.inf,)), "beside": replace(GOOD, waits=(math.inf,))},
            "honest TE wait, 95%",
        ),
        ({"samples": [replace(SAMPLE, memory_mib=0.0)] * 3}, "memory, MiB"),
        ({"unread": {"ada": {"17"}, "eve": {"18", "19"}}}, "unreadable jobs by user"),
    ],
)
def test_each_row_alone_is_not_held(changes: dict[str, object], row: str) -> None:
    failed = [line for line in table(soak(**changes)) if line.endswith("NOT HELD")]
    assert any(line.startswith(f"  {row}") for line in failed), failed
    assert not holds(soak(**changes))


def test_a_hostile_users_unreadable_jobs_are_shown_and_held() -> None:
    seen = soak(unread={"eve": {"18", "19"}})
    assert holds(seen)
    assert any("eve 2" in line for line in table(seen))


def test_a_soak_without_any_figure_does_not_hold() -> None:
    assert not holds(soak(quiet=None, beside=None))
    assert not holds(soak(samples=[]))


def test_waits_are_read_from_slurmctlds_log(tmp_path: Path) -> None:
    log = tmp_path / "slurmctld.log"
    log.write_text(
        "[2026-11-25T14:16:53.100] _slurm_rpc_submit_batch_job: JobId=7 InitPrio=4294901759 usec=231\n"
        "[2026-11-25T14:16:53.200] _slurm_rpc_submit_batch_job: JobId=8 InitPrio=4294901758 usec=231\n"
        "[2026-11-25T14:16:53.850] sched: Allocate JobId=7 NodeList=n1 #CPUs=1 Partition=debug\n"
        "[2026-11-25T14:16:54.850] sched/backfill: _start_job: Started JobId=7 in debug on n1\n"
        "[2026-11-25T14:16:55.200] sched/backfill: _start_job: Started JobId=9 in debug on n1\n"
    )
    assert waits(log, {7, 8}) == {7: pytest.approx(0.75)}
    assert longest_request_s(log)[1] == "_slurm_rpc_submit_batch_job"
