"""Gavel's jobs and speeds: what the authors' generator and table say, and what is said of a table that is broken."""

from __future__ import annotations

import gzip
import json
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from tesched_papers.gavel.throughputs import TYPES, Throughputs, measured, read
from tesched_papers.gavel.workload import MODELS, GavelJob, GavelWorkload
from tesched_sim.workload import WorkloadError


def first(count: int, workload: GavelWorkload, seed: int = 0) -> list[GavelJob]:
    return list(islice(workload.jobs(seed, measured()), count))


def test_the_table_has_every_model_and_the_speeds_that_were_published() -> None:
    table = measured()
    assert {model for model, _ in table.row} == set(MODELS)
    assert sorted(scale for _, scale in table.row) == [1] * 26 + [2] * 19 + [4] * 19 + [8] * 19
    resnet = table.alone[table.row["ResNet-18 (batch size 16)", 1]]
    assert dict(zip(TYPES, resnet.tolist(), strict=True)) == {
        "v100": 32.353384328946916,
        "p100": 35.869203207990005,
        "k80": 4.795294551566172,
    }
    # Two V100s do three times what one does, and ResNet-50 with 128 images does not fit on two K80s.
    assert table.alone[table.row["ResNet-18 (batch size 16)", 2], 0] == 100.14206200421837
    assert table.alone[table.row["ResNet-50 (batch size 128)", 2]].tolist()[2] == 0.0


def test_of_a_pair_each_has_its_own_speed() -> None:
    table = measured()
    small, large = table.row["ResNet-18 (batch size 16)", 1], table.row["ResNet-50 (batch size 16)", 1]
    assert table.paired[small, large, 2] == 2.4539953436775868
    assert table.paired[large, small, 2] == 0.9827032498016068


def test_the_jobs_with_counted_times_are_as_long_as_the_authors() -> None:
    # Mean hours on V100s of two windows with seed 0, as read off the authors' generator.
    jobs = first(5000, GavelWorkload(mean_gap_s=900.0))
    hours = np.array([job.steps / job.throughput[0] / 3600 for job in jobs])
    assert hours[4000:].mean() == pytest.approx(17.41, abs=0.005)
    assert hours[300:500].mean() == pytest.approx(14.42, abs=0.005)


def test_jobs_come_at_the_rate_and_the_first_at_once() -> None:
    jobs = first(20_000, GavelWorkload(mean_gap_s=900.0))
    assert jobs[0].arrival_s == 0.0
    gaps = np.diff([job.arrival_s for job in jobs])
    assert gaps.mean() == pytest.approx(900, rel=0.03)
    assert (gaps > gaps.mean()).mean() == pytest.approx(np.exp(-1), abs=0.02)


def test_the_gap_changes_arrivals_alone_and_the_seed_everything() -> None:
    few, many = first(50, GavelWorkload(mean_gap_s=900.0)), first(50, GavelWorkload(mean_gap_s=450.0))
    assert [(job.model, job.steps) for job in few] == [(job.model, job.steps) for job in many]
    assert [job.arrival_s for job in few] == pytest.approx([2 * job.arrival_s for job in many])
    assert [job.steps for job in few] != [job.steps for job in first(50, GavelWorkload(mean_gap_s=900.0), seed=1)]


def test_sizes_have_their_shares_and_only_some_models_are_large() -> None:
    jobs = first(20_000, GavelWorkload(mean_gap_s=900.0, multi=True))
    sizes = np.array([job.scale_factor for job in jobs])
    shares = [(sizes == size).mean() for size in (1, 2, 4, 8)]
    assert shares == pytest.approx([0.7, 0.1, 0.15, 0.05], abs=0.01)
    large = {job.model.split(" ")[0] for job in jobs if job.scale_factor > 1}
    assert large == {"ResNet-18", "ResNet-50", "Transformer", "LM"}
    assert {job.scale_factor for job in first(1000, GavelWorkload(mean_gap_s=900.0))} == {1}


def test_one_job_of_five_takes_more_than_a_thousand_minutes() -> None:
    jobs = first(20_000, GavelWorkload(mean_gap_s=900.0))
    minutes = np.array([job.steps / job.throughput[0] / 60 for job in jobs])
    assert (minutes > 1000).mean() == pytest.approx(0.2, abs=0.01)
    assert minutes.min() >= 10**1.5
    assert minutes.max() <= 10**4 * (1 + 1e-12)


def test_weights_are_one_or_five() -> None:
    weights = np.array([job.weight for job in first(5000, GavelWorkload(mean_gap_s=900.0, weights=True))])
    assert set(weights.tolist()) == {1.0, 5.0}
    assert (weights == 5).mean() == pytest.approx(0.2, abs=0.02)


def test_as_many_as_given_are_there_from_the_beginning_without_gaps() -> None:
    jobs = list(GavelWorkload(mean_gap_s=0.0, count=7).jobs(0, measured()))
    assert [(job.index, job.arrival_s) for job in jobs] == [(index, 0.0) for index in range(7)]
    with pytest.raises(WorkloadError, match="the number of jobs must be given"):
        GavelWorkload(mean_gap_s=0.0)


@pytest.mark.parametrize("gap_s", [-1.0, float("nan"), float("inf")])
def test_a_gap_that_is_none_is_refused(gap_s: float) -> None:
    with pytest.raises(WorkloadError, match="mean gap"):
        GavelWorkload(mean_gap_s=gap_s)


KEY, OTHER = "('A3C', 1)", "('CycleGAN', 1)"
GOOD = {KEY: {"null": 2.0, OTHER: [1.0, 0.5]}, OTHER: {"null": 4.0, KEY: [0.5, 1.0]}}


def written(path: Path, *, v100: object = None, k80: object = None) -> Path:
    path.write_text(json.dumps({"v100": v100 or GOOD, "p100": GOOD, "k80": k80 or GOOD}))
    return path


def test_a_table_in_the_authors_form_is_read_packed_or_not(tmp_path: Path) -> None:
    plain = written(tmp_path / "speeds.json")
    packed = tmp_path / "speeds.json.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    for path in (plain, packed):
        table: Throughputs = read(path)
        assert table.row == {("A3C", 1): 0, ("CycleGAN", 1): 1}
        assert table.alone.tolist() == [[2.0] * 3, [4.0] * 3]
        assert table.paired[0, 1].tolist() == [1.0] * 3


@pytest.mark.parametrize(
    ("v100", "said"),
    [
        ({"A3C": {"null": 1.0}}, "v100: A3C: a job is written"),
        ({**GOOD, KEY: {"null": -1.0}}, r"v100: \('A3C', 1\): null: -1.0 is no speed"),
        ({**GOOD, KEY: {"null": True}}, "True is no speed"),
        ({**GOOD, KEY: {"null": float("nan")}}, "nan is no speed"),
        ({**GOOD, KEY: {OTHER: [1.0, 1.0]}}, r"v100: \('A3C', 1\): its speed alone \(null\) is missing"),
        ({**GOOD, KEY: {"null": 1.0, OTHER: [1.0]}}, "is not two speeds"),
        ({**GOOD, KEY: {"null": 1.0, "('LM', 1)": [1.0, 1.0]}}, r"\('LM', 1\): v100 has no such job"),
        ({**GOOD, KEY: 3}, r"v100: \('A3C', 1\) is no object"),
        ({KEY: {"null": 1.0}}, "p100: there are 2 jobs, v100 has 1"),
    ],
)
def test_a_broken_table_is_refused_with_its_key(tmp_path: Path, v100: object, said: str) -> None:
    path = written(tmp_path / "speeds.json", v100=v100)
    with pytest.raises(WorkloadError, match=f"speeds.json: .*{said}"):
        read(path)


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"{", "is not JSON"), (b"[]", "it is no object"), (b'{"v100": {}}', "p100 is missing")],
)
def test_a_file_that_is_no_table_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "speeds.json"
    path.write_bytes(content)
    with pytest.raises(WorkloadError, match=said):
        read(path)


def test_a_table_that_is_not_there_or_not_packed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="cannot be read"):
        read(tmp_path / "none.json")
    path = tmp_path / "speeds.json.gz"
    path.write_bytes(b"not packed")
    with pytest.raises(WorkloadError, match="cannot be read"):
        read(path)


def test_a_model_that_the_table_lacks_is_named(tmp_path: Path) -> None:
    table = read(written(tmp_path / "speeds.json"))
    with pytest.raises(WorkloadError, match="the table of speeds has no "):
        list(islice(GavelWorkload(mean_gap_s=1.0).jobs(0, table), 50))
