"""`tesched explain` says which nodes of a job's order are out of service, and until when the order awaits them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from tesched_cli.common import clock
from tesched_cli.main import main
from tesched_core.model.cluster import JobState
from tesched_core.model.order import Departure, Ending, LostNode, OrderState, VictimState
from tesched_db.engine import open_store
from tesched_testcluster.harness.store_examples import Writer, configured_store, job, order, remembering, victim


def explained(path: Path, name: str, *more: str) -> str:
    runner = CliRunner(env={"COLUMNS": "400", "NO_COLOR": "1"})
    return runner.invoke(main, ["explain", name, *more, "--config", str(path)]).output


def test_it_is_said_which_nodes_of_an_order_are_out_of_service_and_until_when_they_are_awaited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = SimpleNamespace(time=lambda: 1_000_020.0)
    monkeypatch.setattr("tesched_cli.explain.time", now)
    path, url = configured_store(tmp_path)
    path.write_text(path.read_text() + "[guard]\norder_timeout_s = 60\n")
    engine = open_store(url)
    lost = (LostNode(name="n1", state="IDLE+DRAIN", reason="Prolog error"), LostNode(name="n2", state=""))
    left = victim(1, VictimState.LEFT, noticed_at=1_000_000.0, left_at=1_000_010.0, departure=Departure.REQUEUED)
    stays = victim(2, VictimState.REQUEUING, noticed_at=1_000_000.0, requeue_sent_at=1_000_000.0)
    orders = order(1, 8, left, lost_nodes=lost, expires_at=1_000_050.0), order(2, 9, stays, lost_nodes=lost[:1])
    jobs = [job(1), job(2, JobState.RUNNING, nodes=("n1",)), job(8), job(9)]
    Writer(engine).look(1_000_015.0, *jobs, te=[8, 9], memory=remembering(*orders))
    engine.dispose()

    said = explained(path, "8")
    assert f"(under way, awaits its nodes until {clock(1_000_070)})" in said
    of_n1 = (
        "  node n1 (IDLE+DRAIN: Prolog error) is out of service: the job is bound to no nodes meanwhile; awaited until"
    )
    assert f"{of_n1} {clock(1_000_070)}\n" in said
    assert "  node n2 (no node of Slurm's any more) is out of service: " in said
    seen = json.loads(explained(path, "8", "--json"))
    assert [one["name"] for one in seen["story"]["orders_as_preemptor"][0]["order"]["lost_nodes"]] == ["n1", "n2"]
    until = {one["what"]: (one["job"], one["at"], one["over"]) for one in seen["until"]}
    assert until["lost_nodes"] == ("8", 1_000_070.0, False)

    still = explained(path, "9")
    assert f"{of_n1} 60 s after its victims have left\n" in still
    assert "unless it starts or a victim takes longer to end)" in still
    assert "lost_nodes" not in {one["what"] for one in json.loads(explained(path, "9", "--json"))["until"]}
    now.time = lambda: 1_000_100.0
    assert f"awaits its nodes until {clock(1_000_070)}, which is over)" in explained(path, "8")
    assert "out of service" not in explained(path, "1"), "it is none of a victim's"


def test_an_order_that_is_over_awaits_no_node(tmp_path: Path) -> None:
    path, url = configured_store(tmp_path)
    engine = open_store(url)
    lost = (LostNode(name="n1", state="IDLE+DRAIN", reason="Prolog error"),)
    left = victim(1, VictimState.LEFT, noticed_at=1_000_000.0, left_at=1_000_010.0, departure=Departure.REQUEUED)
    over = replace(order(1, 8, left, lost_nodes=lost), state=OrderState.SETTLING, ending=Ending.WITHDRAWN)
    Writer(engine).look(1_000_015.0, job(1), job(8), te=[8], memory=remembering(over))
    engine.dispose()
    assert "(withdrawn)" in (said := explained(path, "8"))
    assert "out of service" not in said
    assert "lost_nodes" not in {one["what"] for one in json.loads(explained(path, "8", "--json"))["until"]}
