"""The doctor where jobs are planned rack by rack."""

from __future__ import annotations

from dataclasses import replace

from tesched_core.model.cluster import SlurmSettings, Switch
from tesched_daemon.config import Config
from tesched_daemon.doctor.racks import in_time, racks
from tesched_daemon.settings import Pace
from tesched_policies.pdors.policy import PdOrs
from tesched_policies.registry import policy_config

from tests.builders import node

NODES = [node(name) for name in ("n1", "n2", "n3")]


def config(prefix: str = "", poll_s: float = 2.0) -> Config:
    policy = policy_config(be="pdors", pdors=PdOrs(rack_feature=prefix))
    return Config(policy=policy, loop=Pace(poll_interval_s=poll_s))


def test_racks_are_counted() -> None:
    topology = SlurmSettings(switches=(Switch(name="a", nodes=("n1", "n2")), Switch(name="b", nodes=("n3",))))
    found = racks(config(), NODES, topology)
    assert (found.level, found.text) == ("ok", "2 racks of 1 to 2 nodes")


def test_without_a_topology_it_says_what_would_give_one() -> None:
    found = racks(config(), NODES, SlurmSettings())
    assert found.level == "warn"
    assert "policy.pdors.rack_feature" in found.advice


def test_a_prefix_that_no_node_has_is_pointed_out() -> None:
    named = [replace(each, features=frozenset({"gpu"})) for each in NODES]
    found = racks(config("rack"), named, SlurmSettings())
    assert found.level == "warn"
    assert "'rack'" in found.text


def test_a_daemon_that_polls_later_than_slurm_starts_jobs_is_reported() -> None:
    assert in_time(config(), {}).level == "ok", "3 s without a word of it"
    assert in_time(config(), {"SchedulerParameters": "sched_interval=1,batch_sched_delay=0"}).level == "warn"
    assert in_time(config(poll_s=3.0), {"SchedulerParameters": "(null)"}).level == "warn"
