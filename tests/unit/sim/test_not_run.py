"""Jobs of a trace that have not run: how long they waited for resources, and of which class they are."""

from __future__ import annotations

from math import isnan
from pathlib import Path

import pytest
from tesched_sim import traces, workloads

from tests.unit.sim.trace_examples import SACCT, written

HEAD = "JobID|User|Submit|Eligible|Start|End|ElapsedRaw|TimelimitRaw|NNodes|NCPUS|ReqTRES|State\n"
RAN = "1|bea|1000|1000|2000|3000|1000|60|1|4|cpu=4|COMPLETED\n"


@pytest.mark.parametrize(("state", "kept"), [("CANCELLED by 0", True), ("DEADLINE", True), ("REVOKED", False)])
def test_job_that_waited_in_vain_is_kept_apart(tmp_path: Path, state: str, kept: bool) -> None:
    lines = SACCT.replace("|None|Unknown|", "|None|2026-11-20T11:00:20|").replace("CANCELLED by 0", state)
    found = traces.read(written(tmp_path, lines))
    assert [(one.waits, one.waited_s, one.limit_s) for one in found.not_run] == [(False, 3600, 3600)] * kept
    assert found.left_out["never ran"] == (not kept)


@pytest.mark.parametrize(
    ("line", "waited_s"),
    [
        # until the run above ended, the latest time in the trace
        ("2|eve|1000|1500|Unknown|Unknown|0|5|1|1|cpu=1|PENDING\n", 1500),
        ("2|eve|1000|1500|None|1700|0|5|1|1|cpu=1|CANCELLED by 1000\n", 200),
        # at once
        ("2|eve|1700|1700|1700|1700|0|5|1|1|cpu=1|CANCELLED by 1000\n", 0),
        # held, and with a begin time that had not come
        ("2|eve|1000|Unknown|None|1700|0|5|1|1|cpu=1|CANCELLED by 1000\n", None),
        ("2|eve|1000|9000|None|1700|0|5|1|1|cpu=1|CANCELLED by 1000\n", None),
    ],
)
def test_wait_is_from_when_it_was_eligible(tmp_path: Path, line: str, waited_s: float | None) -> None:
    (found,) = traces.read(written(tmp_path, HEAD + RAN + line)).not_run
    assert (None if isnan(found.waited_s) else found.waited_s) == waited_s


def test_job_that_waits_does_so_until_sacct_printed_it() -> None:
    line = "2|eve|1000|1500|Unknown|Unknown|0|5|1|1|cpu=1|PENDING\n"
    (found,) = traces.sacct.printed(HEAD + RAN + line, 9000.0).not_run
    assert (found.waits, found.waited_s) == (True, 7500)


@pytest.mark.parametrize(
    ("limit_min", "wants", "share", "te"),
    [
        (30, "cpu=9,gres/gpu=2", 1, True),
        (31, "cpu=9,gres/gpu=2", 1, None),  # it might have run for less
        (30, "cpu=9,gres/gpu=3", 1, False),
        (31, "cpu=9,gres/gpu=3", 1, False),
        (30, "cpu=9", 1, False),
        (30, "cpu=9,gres/gpu=2", 0.5, None),  # it would be drawn
        (30, "cpu=9,gres/gpu=3", 0.5, False),
    ],
)
def test_class_is_known_where_size_or_time_limit_says_it(
    tmp_path: Path, limit_min: int, wants: str, share: float, te: bool | None
) -> None:
    line = f"2|eve|1000|1500|Unknown|Unknown|0|{limit_min}|1|9|{wants}|PENDING\n"
    recorded = traces.read(written(tmp_path, HEAD + RAN + line))
    assert workloads.filled(recorded, {"te_share": str(share)}, seed=0).not_run_te == (te,)
