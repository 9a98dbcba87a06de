"""Name patterns, size classes, and runs that are refused."""

from __future__ import annotations

import pytest
from tesched_predict.history import name_pattern, size_class

from tests.unit.predict.examples import job, run


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("train_0017", "train_#"),
        ("train_0018", "train_#"),
        ("resnet50-2024-01-31", "resnet#"),
        ("sweep-3fa94c1b", "sweep-#"),
        ("sweep-DEADBEEF01", "sweep-#"),
        ("facade", "facade"),  # hexadecimal letters alone are a word
        ("eval", "eval"),
        ("", ""),
    ],
)
def test_numbers_and_hashes_are_folded(name: str, pattern: str) -> None:
    assert name_pattern(name) == pattern


def test_different_words_are_different_patterns() -> None:
    assert name_pattern("train_a1") != name_pattern("train_b1")


def test_sizes_are_classed_by_powers_of_two_of_gpus_first() -> None:
    assert size_class(job(gpus=4)) == size_class(job(gpus=7)) != size_class(job(gpus=8))
    assert size_class(job(gpus=0, cpus=4)) == ("cpus", 3)
    assert size_class(job(gpus=0, cpus=0, nodes=1)) == ("nodes", 1)
    assert size_class(job(gpus=0, cpus=0)) == ("", 0)


@pytest.mark.parametrize("run_s", [0.0, -1.0, float("inf"), float("nan")])
def test_a_run_time_without_a_logarithm_is_refused(run_s: float) -> None:
    with pytest.raises(ValueError, match="it must be above 0, and finite"):
        run(run_s)
