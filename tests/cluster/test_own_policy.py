"""A site's own policy: the files of docs/howto/write-a-policy.md are built, installed and run."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.harness.daemon_process import run_tesched, running_daemon
from tesched_testcluster.local import LocalCluster

pytestmark = pytest.mark.slurm

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "write-a-policy.md"
BUILD = "import sys; from setuptools import build_meta; print(build_meta.build_wheel(sys.argv[1]))"


@pytest.fixture(name="installed")
def fixture_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install the page's package into a folder of its own, which the programs of this test find."""
    package, folder = tmp_path / "guests-first", tmp_path / "installed"
    package.mkdir()
    files = dict(re.findall(r"^`([\w.]+)`:\n\n```\w+\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL))
    assert sorted(files) == ["guests_first.py", "pyproject.toml"]
    for name, text in files.items():
        (package / name).write_text(text)
    subprocess.run([sys.executable, "-c", BUILD, str(tmp_path)], cwd=package, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return folder


def test_the_page_s_policy_is_short(installed: Path) -> None:
    assert len((installed / "guests_first.py").read_text().splitlines()) < 100


def test_it_runs_on_the_simulated_slurm(installed: Path) -> None:
    argv = ["simulate", "--policy", "guests_first,none", "--set", "workload.jobs=2000", "--json"]
    done = run_tesched(*argv)
    assert done.returncode == 0, done.stderr
    own, none = (one["figures"]["preemptions"]["mean"] for one in json.loads(done.stdout)["comparison"]["columns"])
    assert own > none == 0


def test_a_mistake_in_its_table_is_reported(installed: Path, tmp_path: Path) -> None:
    config = tmp_path / "tesched.toml"
    config.write_text('[policy]\nte = "guests_first"\n[policy.guests_first]\naccounts = []\n')
    done = run_tesched("config", "check", str(config))
    assert (done.returncode, done.stdout) == (2, "")
    assert "policy.guests_first.accounts: must name at least one account" in done.stderr


def test_a_policy_that_cannot_be_loaded_stops_only_commands_that_name_it(installed: Path, tmp_path: Path) -> None:
    (installed / "guests_first.py").write_text("import no_such_module\n")
    config = tmp_path / "tesched.toml"
    config.write_text('[policy]\nte = "fitgpp"\n')
    assert run_tesched("config", "check", str(config)).returncode == 0
    config.write_text('[policy]\nte = "guests_first"\n')
    done = run_tesched("config", "check", str(config))
    assert done.returncode == 2
    assert "guests_first is installed and cannot be used" in done.stderr
    assert "no_such_module" in done.stderr


@pytest.mark.gate
def test_it_chooses_the_victim_on_a_real_slurm(
    cluster: LocalCluster, tmp_path: Path, one_client: ClientChoice, installed: Path
) -> None:
    names = sorted(cluster.node_states())
    guest, prof = names[0], names[1]
    drained = names[2:]
    cluster.run("scontrol", "update", f"nodename={','.join(drained)}", "state=drain", "reason=test")
    try:
        jobs = []
        for account, node in (("guest", guest), ("prof", prof)):
            options = ("--exclusive", f"--nodelist={node}", f"--account={account}", f"--job-name=be-{account}")
            jobs.append(cluster.sbatch(*options, wrap="sleep 300"))
            cluster.wait_state(jobs[-1], "RUNNING")
        with running_daemon(cluster, tmp_path, one_client, policy="guests_first") as daemon:
            trial = cluster.sbatch("--exclusive", "--job-name=te-1", wrap="sleep 5")
            cluster.wait_state(trial, "RUNNING", "COMPLETED")
            assert cluster.put_back(jobs) == [jobs[0]], "the guest's, though it has run longest"
            assert "it is a guest's job" in daemon.ask("explain", str(trial)).stdout
    finally:
        cluster.run("scontrol", "update", f"nodename={','.join(drained)}", "state=resume")
