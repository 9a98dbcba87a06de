"""The loop asks for a whole poll where a decision may rest on it, and polls a little less often where none does."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.model.actions import Failure, FailureKind
from tesched_core.model.snapshot import Snapshot
from tesched_daemon.settings import Mode

from tests.loop_parts import FULL_CLUSTER, TRIAL, VICTIM, Cluster, Notebook, loop_of

#: the same without the job that waits
AT_REST = replace(FULL_CLUSTER, jobs={VICTIM.job_id: VICTIM})
#: the TE job waits for a begin time
LATER = replace(FULL_CLUSTER, jobs={VICTIM.job_id: VICTIM, TRIAL.job_id: replace(TRIAL, reason="BeginTime")})


def asked(*polls: Snapshot | Failure, mode: Mode = Mode.ENFORCE) -> list[bool]:
    """Return of each poll, and of the one after these, whether the loop wanted it whole."""
    cluster = Cluster()
    loop = loop_of(cluster, Notebook(), mode)
    for cluster.seen in polls:
        loop.turn()
    loop.turn()
    return cluster.whole


@pytest.mark.parametrize("mode", [Mode.SHADOW, Mode.ENFORCE])
def test_polls_are_whole_from_a_te_job_on_that_waits_for_resources(mode: Mode) -> None:
    assert asked(AT_REST, AT_REST, LATER, FULL_CLUSTER, mode=mode) == [True, False, False, False, True, True]


def test_where_all_was_read_with_the_jobs_it_is_not_read_again() -> None:
    all_new = replace(FULL_CLUSTER, nodes=dict(FULL_CLUSTER.nodes))
    assert asked(AT_REST, all_new) == [True, False, True]


def test_what_is_decided_for_a_new_te_job_is_decided_on_all_that_was_read_then() -> None:
    """The node has been drained since everything was last read, which no job's record shows."""
    cluster = Cluster(seen=AT_REST)
    loop = loop_of(cluster, Notebook())
    loop.turn()
    node = next(iter(FULL_CLUSTER.nodes.values()))
    drained = replace(FULL_CLUSTER, nodes={node.name: replace(node, flags=frozenset({"DRAIN"}))})
    cluster.seen, cluster.now = FULL_CLUSTER, drained
    loop.turn()
    assert cluster.whole == [True, False, True]
    assert not cluster.acted


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.ENFORCE])
def test_a_job_at_rest_that_makes_a_turn_raise_is_set_aside(mode: Mode) -> None:
    bad = replace(TRIAL, name={"no": "text"}, reason="Dependency")  # type: ignore[arg-type]
    cluster, notebook = Cluster(seen=AT_REST), Notebook()
    loop = loop_of(cluster, notebook, mode)
    loop.turn()
    cluster.seen = replace(AT_REST, jobs={VICTIM.job_id: VICTIM, bad.job_id: bad})
    assert not loop.turn().trouble
    assert cluster.whole == ([True, False] if mode is Mode.OBSERVE else [True, False, True])
    assert not loop.turn().trouble


def test_polls_are_whole_while_an_order_is_under_way_that_no_waiting_job_shows() -> None:
    cluster = Cluster()
    loop = loop_of(cluster, Notebook())
    loop.turn()
    assert cluster.acted
    cluster.seen = AT_REST
    loop.turn()
    loop.turn()
    assert cluster.whole == [True, True, True]


def test_after_a_poll_that_failed_the_next_is_whole() -> None:
    away = Failure(kind=FailureKind.UNREACHABLE, message="slurmctld does not answer")
    assert asked(AT_REST, away, AT_REST) == [True, False, True, False]


def test_an_answer_that_is_not_believed_is_not_kept() -> None:
    assert asked(AT_REST, Snapshot.of(1000.0), AT_REST) == [True, False, True, False]


def test_in_mode_observe_the_first_poll_alone_is_whole() -> None:
    assert asked(AT_REST, FULL_CLUSTER, mode=Mode.OBSERVE) == [True, False, False]


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.ENFORCE])
def test_polls_come_less_often_at_rest_until_the_cluster_changes(mode: Mode) -> None:
    cluster, watch = Cluster(seen=AT_REST), [50.0]
    loop = loop_of(cluster, Notebook(), mode)
    loop.stopwatch = lambda: watch[0]
    assert loop.turn().next_in_s == 1.0
    watch[0] += 15.0
    assert loop.turn().next_in_s == 1.5
    watch[0] += 600.0
    assert loop.turn().next_in_s == 2.0
    cluster.seen = LATER
    assert loop.turn().next_in_s == 1.0
