"""Real Slurm clusters for tests, on this host. Without Slurm these tests fail and say how to install it."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import ClusterDefinition
from tesched_testcluster.harness.slurm_clients import CLIENTS, Connect, connecting
from tesched_testcluster.local import LocalCluster

from tests.cluster.admission_site import Site, site_of

MakeCluster = Callable[[ClusterDefinition | None], LocalCluster]


@pytest.fixture(scope="session")
def session_cluster() -> Iterator[LocalCluster]:
    """Give the eight nodes that the tests of one process share. Tests take `cluster`, which is the same one, clean."""
    with LocalCluster() as cluster:
        yield cluster


@pytest.fixture
def cluster(session_cluster: LocalCluster) -> LocalCluster:
    """Give a cluster of eight idle nodes without jobs, reservations or files, whatever the test before did to it."""
    session_cluster.reset()
    return session_cluster


@pytest.fixture
def make_cluster() -> Iterator[MakeCluster]:
    """Give a function that starts a cluster of a test's own (None: the default one), ended with the test."""
    with ExitStack() as stack:
        yield lambda definition: stack.enter_context(LocalCluster(definition))


@pytest.fixture(params=CLIENTS)
def client_choice(request: pytest.FixtureRequest) -> ClientChoice:
    """Give each client that can run here in turn."""
    choice: ClientChoice = request.param
    return choice


@pytest.fixture
def one_client() -> ClientChoice:
    """Give the client that a daemon would choose: for tests of what does not depend on it."""
    return CLIENTS[-1]


@pytest.fixture
def connect(client_choice: ClientChoice) -> Connect:
    """Give what makes clients; the test runs with each client that can run here."""
    return connecting(client_choice)


@pytest.fixture
def site(make_cluster: MakeCluster) -> Iterator[Site]:
    """Give one node with the submission hook."""
    with site_of(make_cluster) as found:
        yield found


@pytest.fixture
def listener(site: Site) -> Iterator[socket.socket]:
    """Give a socket in the place of that site's daemon."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as channel:
        channel.bind(str(site.socket))
        yield channel
