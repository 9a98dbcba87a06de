"""Policies beside each other: means, intervals and paired differences, by hand-counted examples."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from scipy.special import stdtrit
from tesched_sim.bound_use import BoundUse
from tesched_sim.reports.compare import Comparison, compare, estimate, student_t
from tesched_sim.reports.figures import ROWS, Unit, duration, number, rows
from tesched_sim.reports.run_summary import Case, RunReportError
from tesched_sim.reports.terminal import tables

from tests.unit.sim.results import Ran, four_jobs, result


def case(policy: str, seed: int, waits: Sequence[float], *, run: float = 10, variant: str = "") -> Case:
    """Return a case of TE jobs that waited so long, submitted together."""
    jobs = [Ran(te=True, run=run, start=wait, end=wait + run) for wait in waits]
    return Case.of(result(*jobs, policy=policy), seed=seed, variant=variant)


def shown(comparison: Comparison, width: int = 120) -> str:
    console = Console(width=width, highlight=False)
    with console.capture() as capture:
        console.print(tables(comparison, width=width))
    return capture.get()


def test_a_mean_and_its_interval() -> None:
    # 2, 4, 4, 6: mean 4, s = sqrt(8 / 3) = 1.633, t(3) = 3.182 (any table): 3.182 * 1.633 / 2 = 2.598.
    found = estimate([2, 4, 4, 6])
    assert (found.mean, found.seeds) == (4.0, 4)
    assert found.half_width == pytest.approx(2.598, abs=0.001)


def test_one_value_has_no_interval_and_equal_ones_none_to_speak_of() -> None:
    assert estimate([7]).half_width is None
    assert estimate([7, 7]).half_width == 0.0


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 5, 9, 10, 29, 100, 999])
def test_students_t_is_scipys(freedom: int) -> None:
    assert student_t(freedom) == pytest.approx(float(stdtrit(freedom, 0.975)), rel=1e-9)


def test_differences_are_taken_seed_by_seed() -> None:
    # Waits of 10 and 20 s under the baseline; 9 and 16 s under the policy: -10 and -20 %.
    cases = [case("fifo", 1, [10]), case("fifo", 2, [20]), case("fitgpp", 2, [16]), case("fitgpp", 1, [9])]
    fifo, fitgpp = compare(cases, baseline="fifo").columns
    assert fifo.difference_percent == {}
    assert fifo.figures["te.wait_s.mean"].mean == 15.0
    assert fitgpp.seeds == (1, 2)
    found = fitgpp.difference_percent["te.wait_s.mean"]
    assert found.mean == pytest.approx(-15.0)
    # s = 7.071, t(1) = 12.706: 12.706 * 7.071 / sqrt(2)
    assert found.half_width == pytest.approx(63.53, abs=0.01)


def test_nothing_is_so_many_per_cent_of_nothing() -> None:
    _, fitgpp = compare([case("fifo", 1, [0]), case("fitgpp", 1, [5])], baseline="fifo").columns
    assert "te.wait_s.mean" not in fitgpp.difference_percent
    assert fitgpp.difference_percent["te.slowdown.mean"].mean == pytest.approx(50.0)


def test_a_figure_that_some_seeds_lack_says_so() -> None:
    with_preemption = Case.of(four_jobs(), seed=1)
    without = Case.of(result(Ran(end=100), policy="fitgpp"), seed=2)
    comparison = compare([with_preemption, without])
    assert comparison.columns[0].figures["restart_interval_s.p50"].seeds == 1
    assert "00:50 (1 of 2 seeds)" in shown(comparison)


def test_each_variant_has_its_own_baseline() -> None:
    cases = [
        case("fifo", 1, [10], variant="te=30"),
        case("fitgpp", 1, [5], variant="te=30"),
        case("fifo", 1, [40, 40], variant="te=60"),
        case("fitgpp", 1, [10, 10], variant="te=60"),
    ]
    columns = compare(cases, baseline="fifo").columns
    differences = {column.title: column.difference_percent.get("te.wait_s.mean") for column in columns}
    assert {title: found and found.mean for title, found in differences.items()} == {
        "fifo te=30": None,
        "fitgpp te=30": -50.0,
        "fifo te=60": None,
        "fitgpp te=60": -75.0,
    }


@pytest.mark.parametrize(
    ("cases", "baseline", "said"),
    [
        ([], None, "there is no run"),
        ([case("fifo", 1, [1]), case("fifo", 1, [1])], None, "two runs of fifo"),
        ([case("rand", 1, [1])], "fifo", "no run of the baseline fifo; there are runs of rand"),
        ([case("fifo", 3, [1]), case("rand", 3, [1], run=11)], "fifo", "seed 3: rand and fifo did not get the same"),
    ],
    ids=["nothing", "twice", "no baseline", "other workload"],
)
def test_what_cannot_be_compared(cases: list[Case], baseline: str | None, said: str) -> None:
    with pytest.raises(RunReportError, match=said):
        compare(cases, baseline=baseline)


def test_the_reader_is_warned_of_jobs_that_did_not_finish_and_of_one_seed() -> None:
    comparison = compare([Case.of(four_jobs(), seed=1)])
    assert comparison.warnings == (
        "fitgpp: jobs not finished: 1; its percentiles are those of the others",
        "one seed: no confidence intervals",
    )
    assert "note: one seed" in shown(comparison)


def test_the_reader_is_warned_of_seeds_that_some_lack() -> None:
    cases = [case("fifo", 1, [1]), case("fifo", 2, [1]), case("rand", 1, [1])]
    assert any("not every policy" in line for line in compare(cases).warnings)


def test_json_form_has_the_same_figures() -> None:
    comparison = compare([case("fifo", 1, [10]), case("rand", 1, [5])], baseline="fifo")
    said = json.loads(json.dumps(asdict(comparison), allow_nan=False))
    assert list(said) == ["columns", "baseline", "warnings", "notes", "confidence"]
    column: Mapping[str, Any] = said["columns"][1]
    assert list(column) == ["policy", "variant", "seeds", "figures", "difference_percent"]
    assert column["figures"]["te.wait_s.p95"] == {"mean": 5.0, "half_width": None, "seeds": 1}
    assert column["difference_percent"]["te.wait_s.p95"] == {"mean": -50.0, "half_width": None, "seeds": 1}


def test_every_figure_that_is_shown_is_one_of_the_summary() -> None:
    ran = four_jobs()
    waited_s = np.where(ran.workload.te, 0.0, 10.0)
    use = BoundUse(te_time_limit_s=60.0, bystander_s=waited_s, part=waited_s / 100, held=ran.workload.te)
    comparison = compare([Case.of(replace(ran, bound=use), seed=1)])
    assert {row.key for row in ROWS} <= set(comparison.columns[0].figures)
    assert [row.key for row in rows(comparison)][-2:] == ["utilisation_share.cpu", "utilisation_share.mem_mib"]


@pytest.mark.parametrize(
    ("value", "unit", "said"),
    [
        (3.14159, Unit.RATIO, "3.14"),
        (75.4, Unit.SECONDS, "01:15"),
        (0.2287, Unit.SHARE, "22.87 %"),
        (12.0, Unit.COUNT, "12"),
        (1234.5, Unit.COUNT, "1,234.5"),
        (5400.0, Unit.NODE_SECONDS, "1.50"),
    ],
)
def test_figures_are_written_in_their_unit(value: float, unit: Unit, said: str) -> None:
    assert number(value, unit) == said


def test_durations_are_written_as_slurm_writes_them() -> None:
    assert [duration(seconds) for seconds in (0, 59.6, 3661, 90061, -0.2)] == [
        "00:00",
        "01:00",
        "01:01:01",
        "1-01:01:01",
        "00:00",
    ]


def test_the_tables_of_a_terminal() -> None:
    cases = [case("fifo", 1, [10]), case("fifo", 2, [20]), case("a[b]", 1, [9]), case("a[b]", 2, [16])]
    text = shown(compare(cases, baseline="fifo"))
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "Mean over 2 seeds ±95 % confidence interval" in lines
    assert "FIGURE fifo a[b]" in lines  # brackets are no markup
    assert "TE wait mean 00:15 ±01:04 00:12 ±00:44" in lines
    assert "TE wait mean -15.0 ±63.5 %" in lines
    assert not any(line.startswith("BE slowdown") for line in lines)  # there are no such jobs


def test_a_narrow_terminal_gets_more_tables() -> None:
    comparison = compare([case(policy, 1, [1]) for policy in ("fifo", "rand", "lrtp")])
    assert shown(comparison, width=200).count("FIGURE") == 1
    assert shown(comparison, width=70).count("FIGURE") == 3
