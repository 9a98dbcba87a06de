"""Jobs that may share their cores with others, by OverSubscribe: which jobs they keep off their nodes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.model.cluster import Partition, SlurmSettings
from tesched_core.model.snapshot import Snapshot
from tesched_core.policy import MakeRoom
from tesched_policies.fitgpp import FitGpp

from tests.builders import cluster, node, running, share, view_of, waiting


def victims(snapshot: Snapshot) -> list[tuple[tuple[str, ...], list[int]]]:
    """Return for each plan its nodes and its victims."""
    plans = FitGpp().propose(view_of(snapshot), None).plans
    return [(plan.nodes, list(plan.victim_ids)) for plan in plans if isinstance(plan, MakeRoom)]


def partition(name: str, *nodes: str) -> Partition:
    return Partition(name=name, nodes=frozenset(nodes), priority_tier=1)


@pytest.mark.parametrize(
    ("release", "word", "sharing", "leaves"),
    [
        ("22.05", "YES:2", "OK", [1]),
        ("22.05", "YES:2", "YES", [1]),
        ("26.05", "YES:2", "OK", []),
        ("26.05", "YES:2", "YES", [1]),
        ("26.05", "FORCE:2", "YES", [1]),
        ("26.05", "FORCE:1", "YES", []),
    ],
)
def test_from_26_05_on_only_one_that_may_share_its_cores_keeps_others_off(
    release: str, word: str, sharing: str, leaves: list[int]
) -> None:
    parts = [partition("p", "n1"), replace(partition("s", "n1"), oversubscribe=word)]
    there = running(1, share("n1", 1), partitions=("s",))
    there = replace(there, request=replace(there.request, sharing=sharing))
    settings = SlurmSettings(release=release)
    seen = replace(cluster([node("n1")], [there, waiting(9)], partitions=parts), settings=settings)
    assert victims(seen) == [(("n1",), leaves)]


def test_one_that_may_share_its_cores_is_not_taken_for_another_that_holds_as_much() -> None:
    parts = [partition("p", "n1", "n2"), replace(partition("s", "n1", "n2"), oversubscribe="YES:2")]
    there = [running(number, share(f"n{number}", 1), partitions=("s",)) for number in (1, 2)]
    there[0] = replace(there[0], request=replace(there[0].request, sharing="YES"))
    seen = cluster([node("n1"), node("n2")], [*there, waiting(9)], partitions=parts)
    assert victims(replace(seen, settings=SlurmSettings(release="26.05"))) == [(("n2",), [])]


@pytest.mark.parametrize("release", ["22.05", "26.05"])
def test_a_job_of_force_1_starts_beside_its_like_and_those_that_share_alone(release: str) -> None:
    parts = [replace(partition(name, "n1"), oversubscribe="FORCE:1") for name in ("f", "g")]
    parts += [partition("p", "n1")]
    like, shares = (running(number, share("n1", 1), partitions=("g",)) for number in (1, 2))
    like, shares = (
        replace(one, request=replace(one.request, sharing=word), partitions=(name,))
        for one, word, name in ((like, "OK", "g"), (shares, "YES", "p"))
    )
    others = [running(number, share("n1", 1), partitions=("p",)) for number in (3, 4)]
    te, settings = waiting(9, partitions=("f",)), SlurmSettings(release=release)
    for there, leave in (([like, shares], []), ([like, *others], [3, 4])):
        seen = replace(cluster([node("n1")], [*there, te], partitions=parts), settings=settings)
        assert victims(seen) == [(("n1",), leave)]
    # They keep no job off themselves.
    seen = replace(cluster([node("n1")], [like, waiting(9)], partitions=parts), settings=settings)
    assert victims(seen) == [(("n1",), [])]
