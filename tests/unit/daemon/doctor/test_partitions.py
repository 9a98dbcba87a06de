"""The doctor on the partitions in which TE jobs wait."""

from __future__ import annotations

import pytest
from tesched_core.intake.class_rules import Classification, Match, Rule
from tesched_core.model.cluster import Partition
from tesched_core.model.snapshot import JobClass
from tesched_daemon.config import Config
from tesched_daemon.doctor.partitions import first_in_line

NODES = frozenset({"n1", "n2"})
MAIN = Partition(name="main", nodes=NODES, default=True)


def config(*globs: str, job_class: JobClass = JobClass.TE) -> Config:
    rule = Rule(name="debug", job_class=job_class, match=Match(partitions=globs))
    return Config(classes=Classification(rules=(rule,)))


def debug(tier: int, *nodes: str) -> Partition:
    return Partition(name="debug", nodes=frozenset(nodes) or NODES, priority_tier=tier)


def test_a_partition_of_their_own_with_a_higher_tier_is_what_it_should_be() -> None:
    (found,) = first_in_line(config("deb*"), (MAIN, debug(2)))
    assert (found.level, found.text) == ("ok", "jobs in debug are first in line on the nodes of these partitions")


def test_so_are_nodes_of_their_own() -> None:
    (found,) = first_in_line(config("debug"), (MAIN, debug(1, "n3")))
    assert found.level == "ok"


@pytest.mark.parametrize(
    ("tier", "said", "todo"),
    [
        (1, "debug (PriorityTier=1) and main (1) share nodes: a TE job waits behind", "PriorityTier=2"),
        (3, "", ""),
    ],
)
def test_the_same_tier_over_the_same_nodes_is_reported(tier: int, said: str, todo: str) -> None:
    (found,) = first_in_line(config("debug"), (MAIN, debug(tier)))
    assert found.text.startswith(said)
    assert (found.level == "warn") == bool(todo)
    assert todo in found.advice


def test_a_partition_above_it_takes_what_its_victims_leave() -> None:
    high = Partition(name="vip", nodes=frozenset({"n2"}), priority_tier=5)
    (found,) = first_in_line(config("debug"), (MAIN, debug(2), high))
    assert found.text.startswith("debug (PriorityTier=2) and vip (5) share nodes: a job that waits in vip takes")
    assert "PriorityTier=6" in found.advice


def test_te_jobs_without_a_partition_are_given_one() -> None:
    (found,) = first_in_line(config(), (MAIN,))
    assert found.level == "warn"
    assert "PartitionName=te Nodes=<those of main> PriorityTier=2" in found.advice


def test_a_site_without_te_jobs_hears_nothing_of_it() -> None:
    assert list(first_in_line(config(job_class=JobClass.BE), (MAIN,))) == []
