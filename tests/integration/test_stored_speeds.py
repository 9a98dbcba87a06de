"""Speeds of a job: its user's own before an admin's, by what it trains and on how many GPUs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlalchemy import Engine
from tesched_core.model.cluster import Job, Request
from tesched_core.model.job_report import Reported
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass, Snapshot
from tesched_daemon.throughput_source import AGE_S, StoredSpeeds
from tesched_db.reports import Throughput, replace_throughputs

from tests.builders import cluster, node, waiting


def speed(workload: str, accelerator: str, steps_per_s: float, **fields: Any) -> Throughput:
    return Throughput(workload=workload, accelerator=accelerator, steps_per_s=steps_per_s, at=1.0, **fields)


def job(job_id: int, gpus: int) -> Job:
    return waiting(job_id, Request(cpus=1, mem_per_node_mib=1, gres_per_node=(("gpu", gpus),)), user="ann")


def seen(**workloads: str) -> Snapshot:
    """Return jobs 1 (one GPU) and 2 (four), both best effort, that train what is said."""
    snapshot = cluster([node("n1", gres={"gpu": 8})], [job(1, 1), job(2, 4)])
    traits = {
        JobId(job_id): replace(
            snapshot.traits[JobId(job_id)], job_class=JobClass.BE, workload=workloads.get(f"j{job_id}", "")
        )
        for job_id in (1, 2)
    }
    return snapshot.with_traits(traits)


def test_by_workload_and_number_of_gpus(store: Engine) -> None:
    replace_throughputs(store, [speed("bert", "v100", 4), speed("bert", "k80", 1), speed("bert", "v100", 12, scale=4)])
    found = StoredSpeeds(engine=store).read(seen(j1="bert", j2="bert"))
    assert found == {1: {"v100": 4.0, "k80": 1.0}, 2: {"v100": 12.0}}


def test_a_job_with_no_workload_or_an_unknown_one_has_no_speed(store: Engine) -> None:
    replace_throughputs(store, [speed("bert", "v100", 4)])
    assert StoredSpeeds(engine=store).read(seen(j2="gpt")) == {}


def test_what_the_job_reports_that_it_trains_comes_before_its_comment(store: Engine) -> None:
    replace_throughputs(store, [speed("bert", "v100", 4), speed("gpt", "v100", 1)])
    snapshot = replace(seen(j1="bert"), reported={JobId(1): Reported(workload="gpt")})
    assert StoredSpeeds(engine=store).read(snapshot) == {1: {"v100": 1.0}}


def test_speeds_of_two_workloads_on_one_gpu_are_those_of_the_admins_file(store: Engine) -> None:
    replace_throughputs(
        store,
        [
            speed("bert", "v100", 2, partner="gpt", partner_scale=1),
            speed("gpt", "v100", 1, partner="bert", partner_scale=1),
            speed("bert", "v100", 9, scale=4, partner="gpt", partner_scale=4),
            speed("bert", "v100", 4),
        ],
    )
    speeds = StoredSpeeds(engine=store)
    assert speeds.beside() == {("bert", "gpt"): {"v100": 2.0}, ("gpt", "bert"): {"v100": 1.0}}
    assert speeds.read(seen(j1="bert")) == {1: {"v100": 4.0}}


def test_a_speed_beside_another_job_is_not_its_speed_alone(store: Engine) -> None:
    replace_throughputs(store, [speed("bert", "v100", 2, partner="gpt", partner_scale=1)])
    assert StoredSpeeds(engine=store).read(seen(j1="bert")) == {}


def test_a_new_table_is_seen_after_a_while(store: Engine) -> None:
    now = [0.0]
    speeds = StoredSpeeds(engine=store, stopwatch=lambda: now[0])
    assert speeds.read(seen(j1="bert")) == {}
    replace_throughputs(store, [speed("bert", "v100", 4)])
    now[0] = AGE_S + 1
    assert speeds.read(seen(j1="bert")) == {1: {"v100": 4.0}}
