"""systemd/job_submit.lua in a real slurmctld: a submission is acted upon at once, and never waits for tesched.

Both releases that are tested have Slurm's job_submit/lua. Each Lua library is tried alone: the other one is hidden.
"""

from __future__ import annotations

import os
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tesched_daemon.wakeup_shares import LEFT, POKES, TURNED_AWAY
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster import processes
from tesched_testcluster.definition import ClusterDefinition, NodeGroup
from tesched_testcluster.harness.daemon_process import running_daemon
from tesched_testcluster.load import LoadJob, read_events, submit
from tesched_testcluster.local import LocalCluster
from tesched_testcluster.patience import Patience

from tests.cluster.conftest import MakeCluster
from tests.cluster.gate import gated
from tests.flooding import flooding

pytestmark = pytest.mark.slurm

HOOK = Path(__file__).parents[2] / "systemd" / "job_submit.lua"
#: the socket's path in HOOK
INSTALLED = "/run/tesched/poke.sock"
#: Lua that leaves the hook one library, or none
ONLY = {
    "lua-posix": 'package.preload["socket.unix"] = function() error("hidden") end\n',
    "lua-socket": 'package.preload["posix.sys.socket"] = function() error("hidden") end\n',
    "neither": 'package.path, package.cpath = "", ""\n',
}
LIBRARIES = ("lua-posix", "lua-socket")
#: With a list of variables 22.05 has slurmd ask a login shell for the rest first, which may take long.
PLAIN = ("--export=ALL",)
#: Seconds between two polls: what happens in a test comes of a poke
POLL_S = 3600.0

#: Seconds of an idle machine that a submission may take; it takes a part of one
PROMPT_S = 5.0
#: Seconds after which a trial that has not started is poked for again
AGAIN_AFTER_S = 10.0

TRIAL = LoadJob(name="te-1", kind="te", cpus=2, gpus=2, ticks=3000, options=PLAIN)


@pytest.fixture
def folder() -> Iterator[Path]:
    """Give a short path: a socket's may have 107 bytes, which pytest's own folders can exceed.

    A daemon that has its configuration there may poll as seldom as it does here.
    """
    with tempfile.TemporaryDirectory(prefix="hook-") as name:
        seldom = Path(name) / "conf.d" / "seldom.toml"
        seldom.parent.mkdir()
        seldom.write_text(f"[loop]\nbackoff_max_s = {POLL_S}\n")
        yield Path(name)


def hooked(path: Path, library: str, *, nodes: int = 1) -> ClusterDefinition:
    """Return a cluster with the hook, which pokes the socket `path`."""
    hook = HOOK.read_text()
    assert hook.count(f'"{INSTALLED}"') == 1
    return ClusterDefinition(
        groups=(NodeGroup(count=nodes),),
        settings={"JobSubmitPlugins": "lua"},
        files={"job_submit.lua": ONLY[library] + hook.replace(INSTALLED, str(path))},
    )


def start(make_cluster: MakeCluster, path: Path, library: str, *, nodes: int = 1) -> LocalCluster:
    """Start a cluster with a hook that has found its library."""
    cluster = make_cluster(hooked(path, library, nodes=nodes))
    if "tesched is not poked" in controller_log(cluster):
        pytest.fail(f"{library} is missing for slurmctld's Lua: run 'sudo slurm_test_cluster/install-slurm.sh'")
    return cluster


def listener(path: Path) -> socket.socket:
    """Return a socket in the daemon's place; reading it never waits."""
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    channel.bind(str(path))
    return channel


def fill(path: Path) -> None:
    """Send pokes that are not read, until no further one fits."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sender, suppress(BlockingIOError):
        while True:
            sender.sendto(b"x", str(path))


def submit_promptly(cluster: LocalCluster) -> int:
    """Submit a job that stays in the queue, and return its id. The submission must not be held up."""
    prompt = Patience(PROMPT_S)
    job_id = cluster.sbatch("--hold", wrap="true")
    assert not prompt.is_over(), f"it took {prompt.waited_s:.0f} s"
    return job_id


def starts_by_pokes(cluster: LocalCluster, te: int, poke: Callable[[], object]) -> None:
    """Wait until the trial runs, which the poke of its submission brings about, or another one.

    The two polls of a poke may find a busy slurmctld that has not come to the job yet. They leave the rest to the poll,
    which would come in an hour.
    """
    next_at = time.monotonic() + AGAIN_AFTER_S

    def runs() -> bool:
        nonlocal next_at
        if cluster.state(te) == "RUNNING":
            return True
        if time.monotonic() > next_at:
            poke()
            next_at = time.monotonic() + AGAIN_AFTER_S
        return False

    cluster.wait_for(runs, "the trial to start by pokes")


def datagram_sockets(cluster: LocalCluster) -> int:
    """Return how many datagram sockets of the kind that pokes are sent by slurmctld holds open."""
    # Columns of /proc/net/unix: address, references, protocol, flags, type (2: datagram), state, inode, path.
    lines = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    datagram = {f"socket:[{fields[6]}]" for fields in lines if int(fields[4], 16) == socket.SOCK_DGRAM}
    count = 0
    for pid in processes.find_processes(cluster.folder, "slurmctld"):
        for fd in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError):  # closed meanwhile
                count += str(fd.readlink()) in datagram
    return count


def controller_log(cluster: LocalCluster) -> str:
    """Return what slurmctld has logged."""
    return (cluster.folder / "log" / "slurmctld.log").read_text()


@pytest.mark.release
@pytest.mark.parametrize("library", gated(LIBRARIES, "lua-posix"))
def test_a_trial_on_a_full_cluster_starts_long_before_the_next_poll(
    make_cluster: MakeCluster, folder: Path, library: str
) -> None:
    path = folder / "poke.sock"
    cluster = start(make_cluster, path, library, nodes=2)
    for number in range(2):
        job = LoadJob(name=f"be-{number}", kind="be", cpus=8, gpus=8, ticks=3000, options=PLAIN)
        submit(cluster, job, cluster.shared)
    cluster.wait_for(lambda: len(read_events(cluster.shared)) == 2, "the cluster to be full")
    with running_daemon(cluster, folder, ClientChoice.AUTO, poll_interval_s=POLL_S, socket=str(path)) as daemon:
        te = submit(cluster, TRIAL, cluster.shared)
        starts_by_pokes(cluster, te, lambda: cluster.sbatch("--hold", wrap="true"))
        orders = daemon.json("orders")["orders"]
        assert [order["order"]["preemptor"] for order in orders] == [te]
        assert len(cluster.put_back()) == 1


def test_a_flood_of_pokes_raises_no_rate_and_delays_no_submission(make_cluster: MakeCluster, folder: Path) -> None:
    path = folder / "poke.sock"
    folder.chmod(0o755)
    cluster = start(make_cluster, path, "lua-posix", nodes=2)
    for number in range(2):
        job = LoadJob(name=f"be-{number}", kind="be", cpus=8, gpus=8, ticks=3000, options=PLAIN)
        submit(cluster, job, cluster.shared)
    cluster.wait_for(lambda: len(read_events(cluster.shared)) == 2, "the cluster to be full")
    with running_daemon(cluster, folder, ClientChoice.AUTO, poll_interval_s=POLL_S, socket=str(path)) as daemon:

        def status() -> dict[str, Any]:
            found: dict[str, Any] = daemon.json("status")["daemon"]
            return found

        began, first = time.monotonic(), status()["cycle"]
        with flooding(str(path)):
            cluster.wait_for(lambda: status()["calls"].get(LEFT, 0) > 1000, "the flood to be noticed")
            te = submit(cluster, TRIAL, cluster.shared)
            # The hook's poke may find the queue full; then the queue's own share serves it.
            cluster.wait_state(te, "RUNNING")
            looks = status()["cycle"] - first
            served = POKES.burst + 2 + (time.monotonic() - began) * (1 / POKES.every_s + 1 / TURNED_AWAY.every_s)
            # Two of each poke, and the trial's own.
            assert looks <= 2 * served + 4
        assert "above a user's share" in daemon.ask("status").stdout


def test_without_a_lua_library_the_trial_waits_for_the_poll_and_slurmctld_says_why(
    make_cluster: MakeCluster, folder: Path
) -> None:
    path = folder / "poke.sock"
    cluster = make_cluster(hooked(path, "neither"))
    assert "tesched is not poked: neither lua-posix nor lua-socket is installed" in controller_log(cluster)
    be = submit(cluster, LoadJob(name="be-1", kind="be", cpus=8, gpus=8, ticks=3000, options=PLAIN), cluster.shared)
    cluster.wait_state(be, "RUNNING")
    cluster.wait_for(lambda: read_events(cluster.shared), "its first word")
    with running_daemon(cluster, folder, ClientChoice.AUTO, poll_interval_s=POLL_S, socket=str(path)) as daemon:
        te = submit(cluster, TRIAL, cluster.shared)
        cluster.wait_for(lambda: cluster.job(te)["Reason"] == "Resources", "Slurm to look at it")
        assert daemon.json("status")["daemon"]["cycle"] == 1
        poked = daemon.ask("poke")
        assert poked.returncode == 0, poked.stderr
        starts_by_pokes(cluster, te, lambda: daemon.ask("poke"))


@pytest.mark.parametrize("library", LIBRARIES)
def test_one_poke_for_a_submission_and_none_for_a_change(make_cluster: MakeCluster, folder: Path, library: str) -> None:
    with listener(folder / "poke.sock") as channel:
        cluster = start(make_cluster, folder / "poke.sock", library)
        job_id = submit_promptly(cluster)
        assert channel.recv(100) == f"submitted {os.geteuid()}".encode()
        # What tesched does itself must not come back as a poke.
        cluster.run("scontrol", "update", f"jobid={job_id}", "nice=-50")
        assert cluster.job(job_id)["Nice"] == "-50"
        with pytest.raises(BlockingIOError):
            channel.recv(100)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_daemon_that_hangs_holds_up_no_submission(make_cluster: MakeCluster, folder: Path, library: str) -> None:
    path = folder / "poke.sock"
    with listener(path):
        cluster = start(make_cluster, path, library)
        fill(path)
        held = [submit_promptly(cluster) for _ in range(5)]
        assert {int(job["JobId"]) for job in cluster.jobs()} == set(held)
        assert datagram_sockets(cluster) == 0


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("wrong", ["never there", "left behind", "a file", "too long"])
def test_a_socket_without_a_listener_holds_up_no_submission(
    make_cluster: MakeCluster, folder: Path, library: str, wrong: str
) -> None:
    path = folder / "poke.sock"
    match wrong:
        case "left behind":
            listener(path).close()
        case "a file":
            path.touch()
        case "too long":
            path = folder / ("x" * 200)
        case _:
            path = folder / "nowhere" / "poke.sock"
    cluster = start(make_cluster, path, library)
    held = [submit_promptly(cluster) for _ in range(5)]
    assert {int(job["JobId"]) for job in cluster.jobs()} == set(held)
    assert datagram_sockets(cluster) == 0
    assert "error: job_submit" not in controller_log(cluster)


def test_without_a_lua_library_no_submission_is_held_up(make_cluster: MakeCluster, folder: Path) -> None:
    cluster = make_cluster(hooked(folder / "poke.sock", "neither"))
    job_id = submit_promptly(cluster)
    assert cluster.state(job_id) == "PENDING"
