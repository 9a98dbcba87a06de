"""`tesched explain` says of a victim what was asked of it, and no more."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from tesched_cli.main import main
from tesched_core.model.order import Departure, VictimState
from tesched_db.engine import open_store
from tesched_testcluster.harness.store_examples import Writer, configured_store, job, order, remembering, victim

WAITS = "is asked, once the other victims of the order have left, to yield"
NEVER = "was selected, and not asked, to yield"
ASKED = "was asked to yield"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Give a store with one order, whose victims are in all states before they leave."""
    path, url = configured_store(tmp_path)
    engine = open_store(url)
    victims = (
        victim(1, VictimState.PLANNED),
        victim(2, VictimState.SPARED),
        victim(3, VictimState.LEFT, left_at=210.0, departure=Departure.FINISHED),
        victim(4, VictimState.SPARED, noticed_at=200.0),
        victim(5, VictimState.REQUEUING, noticed_at=200.0, requeue_sent_at=200.0),
    )
    jobs = [job(number) for number in (1, 2, 3, 4, 5, 9)]
    Writer(engine).look(220.0, *jobs, te=[9], memory=remembering(order(1, 9, *victims)))
    engine.dispose()
    return path


@pytest.mark.parametrize(("job_id", "said"), [(1, WAITS), (2, NEVER), (3, NEVER), (4, ASKED), (5, ASKED)])
def test_a_victim_is_said_to_be_asked_only_when_it_was(config: Path, job_id: int, said: str) -> None:
    def explain(number: int) -> str:
        runner = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"})
        return " ".join(runner.invoke(main, ["explain", str(number), "--config", str(config)]).output.split())

    assert f"it {said} to job 9" in explain(job_id)
    assert f"job {job_id} {said}:" in explain(9)
