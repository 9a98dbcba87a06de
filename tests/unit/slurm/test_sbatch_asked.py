"""Answers of `sbatch --test-only`, as 22.05.8 writes them, and sbatch's environment."""

from __future__ import annotations

from pathlib import Path

import pytest
from tesched_core.model.actions import Failure, FailureKind
from tesched_slurm.sbatch_asked import NotTaken, SlurmsWord, ask_slurm, read_answer
from tesched_slurm.sbatch_environment import options_of_environment
from tesched_slurm.sbatch_options import without_quiet

STARTS = "sbatch: Job 34 to start at 1795760154 using 2 processors on nodes n[1-2] in partition main\n"


def test_a_start_is_read_with_its_nodes() -> None:
    word = SlurmsWord(start_at=1795760154, cpus=2, nodes="n[1-2]", partition="main")
    assert read_answer(STARTS, 0) == word
    assert read_answer(f"sbatch: warning: x\n{STARTS}", 0) == word


def test_a_start_of_a_heterogeneous_job_names_no_partition() -> None:
    word = SlurmsWord(start_at=1795760154, cpus=4, nodes="n[1-2]", partition="")
    assert read_answer("sbatch: Job 34 to start at 1795760154 using 4 processors on n[1-2]\n", 0) == word


def test_slurms_own_victims_are_read() -> None:
    word = read_answer(f"{STARTS}sbatch:   Preempts: 12,14\n", 0)
    assert isinstance(word, SlurmsWord)
    assert word.preempts == "12,14"


def test_an_answer_of_another_form_counts_for_nothing() -> None:
    assert read_answer("sbatch: Job 34 starts soon\n", 0) is None


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("allocation failure: Requested node configuration is not available\n", "Requested node configuration is not"),
        (
            "sbatch: error: invalid partition specified: nope\nallocation failure: Invalid partition name specified",
            "nope",
        ),
        ("sbatch: unrecognized option '--foo'\nTry \"sbatch --help\" for more information\n", "option '--foo'"),
        ("", "sbatch ended with status 1"),
    ],
)
def test_a_refusal_is_shown_in_slurms_words(said: str, why: str) -> None:
    answer = read_answer(said, 1)
    assert isinstance(answer, NotTaken)
    assert why in answer.said
    assert "Try" not in answer.said


def test_a_job_that_finds_no_nodes_now_is_not_one_that_is_refused() -> None:
    no_nodes = "Requested node configuration is not available"
    for said in (f"allocation failure: {no_nodes}\n", f"sbatch: error: Batch job submission failed: {no_nodes}\n"):
        assert read_answer(said, 1) == NotTaken(said=no_nodes, by_nodes=True)
    refused = read_answer("allocation failure: Invalid account\n", 1)
    assert refused == NotTaken(said="Invalid account", by_nodes=False)


def test_a_controller_that_does_not_answer_refuses_nothing() -> None:
    answer = read_answer("allocation failure: Unable to contact slurm controller (connect failure)\n", 1)
    assert isinstance(answer, Failure)
    assert answer.kind is FailureKind.UNREACHABLE


def test_a_host_without_sbatch_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    answer = ask_slurm(("--wrap=true",), "", slurm_conf="", timeout_s=5)
    assert isinstance(answer, Failure)
    assert "are Slurm's client programs installed" in answer.message


def test_variables_are_the_options_that_they_say() -> None:
    environment = {"SBATCH_PARTITION": "debug", "SBATCH_REQUEUE": "1", "SBATCH_SIGNAL": "USR1", "X": "y"}
    found = options_of_environment(environment)
    assert {(one.name, one.value) for one in found} == {("partition", "debug"), ("requeue", None)}
    assert {one.place for one in found} == {
        "in the environment (SBATCH_PARTITION)",
        "in the environment (SBATCH_REQUEUE)",
    }


@pytest.mark.parametrize(
    ("words", "without"),
    [
        (("-Q", "--time=5"), ("--time=5",)),
        (("--time", "5", "--qui", "-n", "2"), ("--time", "5", "-n", "2")),
        (("-HQn2", "-QQ"), ("-Hn2",)),
        # what belongs to an option is left alone
        (("-J", "-Q", "-DQ", "--wrap", "--quiet", "-kQ"), ("-J", "-Q", "-DQ", "--wrap", "--quiet", "-kQ")),
        (("-n1", "-Q", ":", "--quiet", "-N", "1"), ("-n1", ":", "-N", "1")),
    ],
)
def test_words_without_quiet(words: tuple[str, ...], without: tuple[str, ...]) -> None:
    assert without_quiet(words) == without
