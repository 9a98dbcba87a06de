"""A site whose job_submit.lua refuses changes of jobs, on a real Slurm: TE jobs are served by what it lets through.

The plugin of these tests refuses what a file of theirs names (slurm_job_modify): `nice`, `priority`, `nodes`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tesched_core.model.decision import RefusalCode
from tesched_core.model.field import Field
from tesched_core.model.refused import WORDS
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import ClusterDefinition, NodeGroup
from tesched_testcluster.harness.daemon_process import Daemon, running_daemon
from tesched_testcluster.load import LoadJob, submit
from tesched_testcluster.local import LocalCluster

from tests.cluster.gate import gated

pytestmark = pytest.mark.slurm

#: A field that a change leaves alone is nil, or Slurm's number for "not given".
PLUGIN = """
local function given(value) return value ~= nil and value ~= 4294967294 end
function slurm_job_submit() return slurm.SUCCESS end
function slurm_job_modify(wanted)
    local file = io.open("{refused}")
    local refused = file and file:read("*a") or ""
    if file then file:close() end
    local changed = {{nice = given(wanted.nice), priority = given(wanted.priority), nodes = given(wanted.req_nodes)}}
    for word in refused:gmatch("%a+") do
        if changed[word] then return slurm.ERROR end
    end
    return slurm.SUCCESS
end
return slurm.SUCCESS
"""
SAID = "Unspecified error"
#: Refusals of one kind of change in the seven minutes that a test may take on a busy machine; at each poll it was 800.
A_HANDFUL = 4


class Site:
    """One node that is full of a best-effort job, and the plugin's file."""

    def __init__(self, cluster: LocalCluster, refused: Path) -> None:
        """Take a cluster with the plugin."""
        self.cluster, self._refused = cluster, refused

    def refuses(self, *words: str) -> None:
        """Let the plugin refuse these changes from now on."""
        self._refused.write_text(" ".join(words))

    def fill(self) -> int:
        """Let a best-effort job have the whole node."""
        self.cluster.reset()
        self.refuses()
        be = submit(self.cluster, LoadJob(name="be-1", kind="be", cpus=8, gpus=8, ticks=3000), self.cluster.shared)
        self.cluster.wait_state(be, "RUNNING")
        return be

    def best_effort_job_waits(self) -> int:
        """Submit another one, which waits."""
        job = LoadJob(name="be-2", kind="be", cpus=8, gpus=8, ticks=3000)
        return submit(self.cluster, job, self.cluster.shared)

    def trial(self) -> int:
        """Submit a trial."""
        job = LoadJob(name="te-1", kind="te", cpus=2, gpus=2, ticks=3000)
        return submit(self.cluster, job, self.cluster.shared)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Give one node of a Slurm with the plugin."""
    refused = tmp_path_factory.mktemp("plugin") / "refused"
    refused.touch()
    definition = ClusterDefinition(
        groups=(NodeGroup(count=1),),
        # As Slurm has it by default: a victim that is back sooner would be ahead of a trial that was not raised.
        cred_expire_s=120,
        settings={"JobSubmitPlugins": "lua"},
        files={"job_submit.lua": PLUGIN.format(refused=refused)},
    )
    with LocalCluster(definition) as cluster:
        yield Site(cluster, refused)


def warnings(daemon: Daemon) -> int:
    """Return how many commands have failed by the daemon's log."""
    return sum(" WARNING " in line and " failed (" in line for line in daemon.log.read_text().splitlines())


def remembered(daemon: Daemon) -> set[str]:
    """Return the kinds of change that Slurm has refused, as `status` has it."""
    found = daemon.json("status")["daemon"]["refused"]
    assert {one["said"] for one in found.values()} <= {SAID}
    return set(found)


#: what the site refuses
CASES = ("nodes", "nice", "nice nodes")


@pytest.mark.parametrize("refused", gated(CASES, "nice nodes"))
def test_a_trial_is_served_by_the_changes_that_the_site_allows(
    site: Site, tmp_path: Path, one_client: ClientChoice, refused: str
) -> None:
    words = refused.split()
    victim, cluster = site.fill(), site.cluster
    site.best_effort_job_waits()
    with running_daemon(cluster, tmp_path, one_client) as daemon:
        site.refuses(*words)
        te = site.trial()
        cluster.wait_state(te, "RUNNING")
        assert remembered(daemon) == set(words)
        assert warnings(daemon) <= A_HANDFUL * len(words)
        story = daemon.ask("explain", str(te)).stdout
        for word in words:
            assert f"Slurm refused to change its {WORDS[Field(word)]}: {SAID}" in story
        assert "REFUSED  Slurm refuses to change" in daemon.ask("status").stdout
        doctor = daemon.ask("doctor").stdout
        assert "JobSubmitPlugins=lua" in doctor
        assert f'"{SAID}" (' in doctor
        cluster.wait_for(lambda: cluster.job(victim)["Restarts"] == "1", "its victim to be back in the queue")
        assert daemon.json("status")["tally"]["futile"] == 0
        site.refuses()


@pytest.mark.gate
def test_a_trial_that_cannot_be_raised_has_no_victim_while_another_job_is_ahead(
    site: Site, tmp_path: Path, one_client: ClientChoice
) -> None:
    victim, cluster = site.fill(), site.cluster
    ahead = site.best_effort_job_waits()
    with running_daemon(cluster, tmp_path, one_client) as daemon:
        site.refuses("nice", "priority", "nodes")
        te = site.trial()
        daemon.await_polls(cluster)

        def refused() -> bool:
            refusals = daemon.json("explain", str(te))["story"]["refusals_as_preemptor"]
            return any(one["code"] == RefusalCode.SLURM_REFUSES and one["stands"] for one in refusals)

        cluster.wait_for(refused, "a refusal that says so")
        daemon.await_polls(cluster, 4)
        assert cluster.state(victim) == "RUNNING"
        assert warnings(daemon) <= A_HANDFUL * 2
        assert f'Slurm refuses to change priorities ("{SAID}")' in daemon.ask("explain", str(te)).stdout
        # Once it is the first by itself it is served, without a raise and without a binding.
        cluster.run("scancel", str(ahead))
        cluster.wait_state(te, "RUNNING")
        assert cluster.job(victim)["Restarts"] == "1"
        site.refuses()
