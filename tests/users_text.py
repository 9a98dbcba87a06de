"""A state store in which whatever a user, a site or Slurm can choose is one given text, for tests of what is shown."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from click.testing import CliRunner, Result
from sqlalchemy import update
from tesched_cli.main import main
from tesched_core.model.actions import Failure, FailureKind
from tesched_core.model.cluster import JobState, NodeShare, Request
from tesched_core.model.decision import RefusalCode
from tesched_core.model.job_report import Curve, Reported
from tesched_core.model.not_followed import About, NotFollowed
from tesched_core.model.order import VictimState
from tesched_core.model.resources import JobId, Tres
from tesched_core.model.snapshot import Snapshot
from tesched_db import lease, reports
from tesched_db.engine import open_store, writing
from tesched_db.journal import Identity, SqlJournal
from tesched_db.reports import Throughput
from tesched_db.tables import DaemonRow
from tesched_testcluster.harness.empty_store import empty_store
from tesched_testcluster.harness.store_examples import (
    BE,
    TE,
    Writer,
    job,
    moved,
    order,
    refusal,
    remembering,
    report,
    victim,
)

#: Every command that prints users' text and needs no Slurm, with the name of the text in it.
COMMANDS = (
    ("status",),
    ("jobs", "--all"),
    ("orders",),
    ("explain", "1"),
    ("explain", "2"),
    ("explain", "20_1"),
    ("throughputs", "list"),
)


def configuration(folder: Path) -> Path:
    """Write a configuration with an empty store into the folder, and return its path."""
    url = empty_store(folder / "store.sqlite")
    path = folder / "tesched.toml"
    path.write_text(f'[store]\nurl = "{url}"\n')
    return path


def fill(folder: Path, text: str, *, failed: bool = False) -> None:
    """Write a cycle in which everything is called `text`; the last poll failed with it if `failed`."""
    engine = open_store(f"sqlite:///{folder}/store.sqlite")
    now = time.time()
    words: dict[str, Any] = {
        "name": text,
        "user": text,
        "account": text,
        "partitions": (text,),
        "qos": text,
        "reason": text,
    }
    held = (NodeShare(node=text, tres=Tres(cpus=2)),)
    running = replace(job(1, JobState.RUNNING, submit_time=now - 9, start_time=now - 8, **words), allocation=held)
    task = replace(running, job_id=JobId(21), array_job_id=JobId(20), array_task_id=1)
    jobs = [replace(one, request=Request(cpus=2)) for one in (running, task, job(2, submit_time=now - 5, **words))]
    word = NotFollowed(about=About.UNKNOWN, said=text, source=text, why=text, instead=text)
    traits = {
        JobId(1): replace(BE, rule=text, grace_source=text, notice_signal=text, not_followed=(word,)),
        JobId(2): replace(TE, rule=text),
        JobId(21): BE,
    }
    curve = Curve.of([(k, 8.0 / (k + 1), now - 9 + k, np.nan) for k in range(4)])
    told = Reported(curve=curve, workload=text, refused=text)
    seen = replace(Snapshot.of(now, jobs=jobs, traits=traits), reported={JobId(1): told, JobId(21): told})
    asked = victim(1, VictimState.NOTICED, nodes=(text,), noticed_at=now - 1)
    step = replace(moved(1, now, "held", "noticed", 1), text=f"notice to {text}")
    writer = Writer(engine)
    writer.write(
        seen,
        memory=remembering(order(1, 2, asked, nodes=(text,), created_at=now)),
        summary=f"resources for {text}",
        transitions=(step,),
        refusals=(refusal(21, 2, RefusalCode.PROTECTED_USER, text=text), refusal(2, 2, RefusalCode.NOTE, text=text)),
    )
    if failed:
        writer.journal.unseen(report(now, failure=Failure(kind=FailureKind.UNKNOWN, message=text)))
    with writing(engine).begin() as connection:
        doubts = {"count": 3, "first": [["5", text, text]]}
        refused = {"nice": {"users": [text], "count": 1, "since": now, "at": now, "said": text}}
        unread = [{"kind": "limits", "since": now, "said": text, "kept": False}]
        connection.execute(update(DaemonRow).values(doubts=doubts, refused=refused, limits_unread=unread))
    speed = Throughput(
        user=text, workload=text, accelerator=text, partner=text, partner_scale=1, steps_per_s=2.0, at=now
    )
    reports.replace_throughputs(engine, [replace(speed, user="")])
    lease.pause(engine, by=text, reason=text, for_s=None)
    SqlJournal(engine, identity=replace(Identity.here(), pid=1, host=text, place="elsewhere")).lead()
    engine.dispose()


def tesched(folder: Path, *argv: str, columns: int = 100, charset: str = "utf-8", **variables: str) -> Result:
    """Run a command of `tesched` on the folder's configuration; it must not end with a traceback."""
    config = str(folder / "tesched.toml")
    runner = CliRunner(charset, env={"COLUMNS": str(columns), "NO_COLOR": "1", **variables})
    answer = runner.invoke(main, [*argv, "--config", config])
    assert answer.exception is None or isinstance(answer.exception, SystemExit), (argv, answer.exception)
    return answer
