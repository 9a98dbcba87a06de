"""Refusals of very many candidates: what the store keeps of them, and what `explain` says of the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from sqlalchemy import Engine, select
from tesched_cli.main import main
from tesched_core.model.cluster import JobState
from tesched_core.model.decision import Block, BlockOnRead, Refusal, RefusalCode, Refusals
from tesched_core.model.resources import JobId
from tesched_db import refusals as bounds
from tesched_db.engine import open_store
from tesched_db.tables import RefusalRow
from tesched_testcluster.harness.store_examples import Writer, configured_store, job, refusal, rows

TOO_LITTLE = (RefusalCode.FREES_TOO_LITTLE, "it would free too little")
OUTSCORED = (RefusalCode.OUTSCORED, "its score of {score} is not the lowest")
YOUNG = (RefusalCode.MIN_RUN_TIME, "it has run for too short a time")


def block(preemptor: int, candidates: Sequence[int]) -> Block:
    """Return why none of these candidates is selected; of each three one is outscored."""
    whys = np.array([number % 3 for number in range(len(candidates))], dtype=np.intp)
    return Block(
        preemptor=JobId(preemptor),
        job_id=np.array(candidates, dtype=np.int64),
        why=whys,
        whys=(TOO_LITTLE, OUTSCORED, YOUNG),
        score=np.where(whys == 1, np.array(candidates, dtype=np.float64), np.nan),
    )


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the store keep of one cycle the candidates of three jobs: 20 one by one, of the others two of each code."""
    for name, most in (("MOST_PREEMPTORS", 3), ("MOST_CANDIDATES", 20), ("MOST_OF_A_CODE", 2)):
        monkeypatch.setattr(bounds, name, most)


def written(store: Engine) -> list[tuple[int, int, str, int]]:
    """Return preemptor, candidate, code and how many more, of what stands."""
    with store.connect() as connection:
        stands = select(RefusalRow).where(RefusalRow.last_seen.is_(None)).order_by(RefusalRow.key)
        return [(row.preemptor, row.job_id, row.code, row.more) for row in connection.execute(stands)]


@pytest.mark.usefixtures("few")
def test_candidates_above_the_bounds_are_counted_by_code_and_then_left_out(store: Engine) -> None:
    said = Refusals(
        part
        for te in (101, 102, 103, 104)
        for part in (refusal(te, te, RefusalCode.NO_VICTIM), BlockOnRead(JobId(te), partial(block, te, range(18))))
    )
    jobs = [job(number, JobState.RUNNING, nodes=["n1"]) for number in range(18)]
    Writer(store).look(100.0, *jobs, *map(job, (101, 102, 103, 104)), te=[101, 102, 103, 104], refusals=said)
    found = written(store)
    assert Counter(te for te, candidate, _, _ in found if candidate != te) == {101: 18, 102: 6, 103: 6}
    assert [te for te, candidate, _, _ in found if candidate == te] == [101, 102, 103, 104]
    assert [one[1:] for one in found if one[0] == 102 and one[1] != 102] == [
        (0, "frees_too_little", 0),
        (3, "frees_too_little", 4),
        (1, "outscored", 0),
        (4, "outscored", 4),
        (2, "min_run_time", 0),
        (5, "min_run_time", 4),
    ]


@pytest.mark.usefixtures("few")
def test_candidates_that_stay_the_same_are_not_written_again(store: Engine) -> None:
    writer = Writer(store)
    jobs = [job(number, JobState.RUNNING, nodes=["n1"]) for number in range(30)]
    for at in (100.0, 110.0, 120.0):
        writer.look(at, *jobs, job(101), te=[101], refusals=Refusals([block(101, range(30))]))
    assert rows(store, RefusalRow) == 6


def test_a_code_of_which_all_candidates_are_named_leaves_none_out() -> None:
    found = list(block(101, range(6)).abbreviated(2))
    assert [(one.job_id, one.code, one.more, one.score) for one in found] == [
        (0, RefusalCode.FREES_TOO_LITTLE, 0, None),
        (3, RefusalCode.FREES_TOO_LITTLE, 0, None),
        (1, RefusalCode.OUTSCORED, 0, 1.0),
        (4, RefusalCode.OUTSCORED, 0, 4.0),
        (2, RefusalCode.MIN_RUN_TIME, 0, None),
        (5, RefusalCode.MIN_RUN_TIME, 0, None),
    ]


@pytest.mark.usefixtures("few")
def test_explain_counts_the_candidates_that_are_left_out(tmp_path: Path) -> None:
    path, url = configured_store(tmp_path)
    engine = open_store(url)
    jobs = [job(number, JobState.RUNNING, nodes=["n1"]) for number in range(1, 31)]
    own: Refusal = refusal(101, 101, RefusalCode.NO_VICTIM, "none frees enough")
    Writer(engine).look(100.0, *jobs, job(101), te=[101], refusals=Refusals([own, block(101, range(1, 31))]))
    engine.dispose()
    said = CliRunner(env={"COLUMNS": "160"}).invoke(main, ["explain", "101", "--config", str(path)]).output
    assert "job 1, 4 and 8 more: it would free too little" in said
    assert "job 2, 5 and 8 more: its score" in said


@pytest.mark.usefixtures("few")
def test_how_many_are_left_out_is_kept_up_to_date(store: Engine) -> None:
    writer = Writer(store)
    for at, candidates in ((100.0, range(18)), (110.0, range(30)), (120.0, range(3, 24)), (130.0, range(12, 18))):
        jobs = [job(number, JobState.RUNNING, nodes=["n1"]) for number in candidates]
        writer.look(at, *jobs, job(101), te=[101], refusals=Refusals([block(101, candidates)]))
        by_code: Counter[str] = Counter()
        for _, _, code, more in written(store):
            by_code[code] += 1 + more
        assert set(by_code.values()) == {len(candidates) // 3}


@pytest.mark.usefixtures("few")
def test_a_preemptor_may_have_several_blocks(store: Engine) -> None:
    jobs = [job(number, JobState.RUNNING, nodes=["n1"]) for number in range(6)]
    tes = (101, 102, 103, 104)
    parts = [block(te, some) for te in tes for some in ((), range(3), range(3, 6))]
    Writer(store).look(100.0, *jobs, *map(job, tes), te=tes, refusals=Refusals(parts))
    assert {one[0] for one in written(store)} == {101, 102, 103}
