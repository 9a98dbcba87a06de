"""Whatever file preempt/tesched is, slurmctld starts: one of another release is loaded, and no job is preempted."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tesched_core.model.limits import Limits, YieldBy
from tesched_daemon.config import Config, SlurmConfig
from tesched_daemon.doctor.finding import Severity
from tesched_daemon.doctor.plugin import examine
from tesched_daemon.plugin_file import FILE
from tesched_slurm.client_choice import ClientChoice
from tesched_slurm.scontrol_cluster import read_settings
from tesched_testcluster.definition import NodeGroup
from tesched_testcluster.harness.daemon_process import running_daemon
from tesched_testcluster.harness.plugin_marks import Mark, put_marks
from tesched_testcluster.local import PLUGIN_FOLDER, LocalCluster, own_plugins

from tests.cluster.gate import gated
from tests.cluster.test_plugin import DEFINITION, ROOT, best_effort, build_plugin, let_it_look, said, trial
from tests.cluster.test_plugin_lever import configure

pytestmark = pytest.mark.slurm

#: as built where Slurm asks for five functions, from names that this release lacks
OTHER_NAMES = "-UTHREE_FUNCTIONS " + " ".join(
    f"-D{name}=none_has_{name}"
    for name in (
        "avail_node_bitmap",
        "bit_overlap_any",
        "find_job_record",
        "slurm_conf",
        "slurmctld_tres_cnt",
        "uid_from_string",
    )
)


def release(number: str) -> tuple[int, int, int]:
    """Return the numbers of "22.05.8"."""
    major, minor, micro = number.split(".")
    return int(major), int(minor), int(micro)


def make(folder: Path, *arguments: str) -> None:
    """Call the plugin's Makefile; what it builds is in that folder."""
    source = (PLUGIN_FOLDER / "source").read_text().strip()
    command = ["make", "-C", str(ROOT / "slurm_plugin"), f"SLURM_SOURCE={source}", f"BUILD={folder}"]
    made = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr[-2000:]


def build_for(folder: Path, number: str, flags: str = "") -> Path:
    """Build the plugin as the headers of that release would have it, as far as its number says; return the file."""
    major, minor, micro = release(number)
    source = Path((PLUGIN_FOLDER / "source").read_text().strip())
    (folder / "slurm").mkdir()
    for header in ("config.h", "slurm/slurm_version.h"):
        text = (source / header).read_text()
        text = re.sub(r"(?m)^(#define SLURM_VERSION_NUMBER) .*", rf"\1 0x{major:02x}{minor:02x}{micro:02x}", text)
        text = re.sub(r"(?m)^(#define SLURM_VERSION_STRING) .*", rf'\1 "{number}"', text)
        (folder / header).write_text(text)
    make(folder / "build", f"CFLAGS=-O2 -I{folder}", f"CPPFLAGS={flags}")
    return folder / "build" / FILE


@pytest.fixture(scope="module")
def shared() -> Iterator[LocalCluster]:
    """Give the node that these tests share."""
    build_plugin()
    with LocalCluster(replace(DEFINITION, groups=(NodeGroup(count=1),))) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared: LocalCluster) -> Iterator[LocalCluster]:
    """Give it idle, and put the plugin back that fits."""
    shared.reset()
    put_marks(shared)
    yield shared
    if not installed(shared).exists() or installed(shared).read_bytes() != (PLUGIN_FOLDER / FILE).read_bytes():
        restart_with(shared, PLUGIN_FOLDER / FILE)


def installed(cluster: LocalCluster) -> Path:
    """Return the path of the file that slurmctld loads."""
    return cluster.folder / "plugins" / FILE


def put(cluster: LocalCluster, content: bytes) -> None:
    """Replace that file; one that is loaded must not be written in place."""
    new = installed(cluster).with_name("new")
    new.write_bytes(content)
    new.replace(installed(cluster))


def restart_with(cluster: LocalCluster, plugin: Path) -> None:
    cluster.stop_slurmctld()
    put(cluster, plugin.read_bytes())
    cluster.start_slurmctld()


def running_release(cluster: LocalCluster) -> str:
    """Return the release of slurmctld, as 22.05.8."""
    return str(re.findall(r"\d+\.\d+\.\d+", cluster.run("scontrol", "-V").stdout)[0])


def doctor(cluster: LocalCluster) -> list[tuple[Severity, str]]:
    """Return what `tesched doctor` finds of the plugin."""
    answer = cluster.run("scontrol", "show", "config").stdout
    values = {key.strip(): value.strip() for key, _, value in (line.partition("=") for line in answer.splitlines())}
    config = Config(guard=Limits(lever=YieldBy.PLUGIN), slurm=SlurmConfig(marks=str(cluster.marks)))
    settings = read_settings(answer)
    return [(one.level, one.text) for one in examine(config, settings, values, "root")]


def is_refused(cluster: LocalCluster) -> bool:
    """Return whether slurmctld ends with an error at its start, as it is set up now."""
    # Not in the cluster's log: a fatal line there ends the wait for its next start.
    command = ("slurmctld", "-D", "-L", os.devnull)
    ended = subprocess.run(command, env=cluster.env, capture_output=True, timeout=60, check=False)
    return ended.returncode != 0


@pytest.mark.gate
def test_any_process_can_load_it_and_it_has_what_each_release_asks_for() -> None:
    build_plugin()
    code = "import ctypes, sys; plugin = ctypes.CDLL(sys.argv[1]); [plugin[f'preempt_p_{one}'] for one in sys.argv[2:]]"
    # Those that slurmctld asks for up to 24.11, and since 25.05.
    functions = ("preemptable", "job_preempt_check", "get_data", "get_mode", "get_prio", "get_grace_time")
    command = (sys.executable, "-I", "-c", code, str(PLUGIN_FOLDER / FILE), *functions)
    # LD_BIND_NOW: as a linker's default of some distributions, and as slurmctld may be started.
    subprocess.run(command, check=True, env={"LD_BIND_NOW": "1"})


@pytest.mark.parametrize(
    "kind",
    gated(
        [("micro", ""), ("21.08.8", ""), ("23.02.7", ""), ("26.05.5", OTHER_NAMES)],
        ("micro", ""),
        ("26.05.5", OTHER_NAMES),
    ),
)
def test_built_for_another_release_it_keeps_slurmctld_from_nothing(
    cluster: LocalCluster, tmp_path: Path, kind: tuple[str, str]
) -> None:
    built, flags = kind
    running = running_release(cluster)
    major, minor, micro = release(running)
    wrong = f"{major}.{minor:02d}.{micro + 1}" if built == "micro" else built
    plugin = build_for(tmp_path, wrong, flags)
    since = len(cluster.slurmctld_log.read_text())
    restart_with(cluster, plugin)
    victim = best_effort(cluster)
    put_marks(cluster, Mark(job_id=victim))
    te = trial(cluster)
    cluster.run("scontrol", "reconfigure")
    let_it_look(cluster)
    assert cluster.state(te) == "PENDING"
    assert cluster.put_back([victim]) == []
    reason = f"no job is preemptable: built for Slurm {wrong}, and this is {running}; build the plugin from its source"
    assert said(cluster, since) == [reason]
    assert [text for level, text in doctor(cluster) if level is Severity.FAIL] == [
        f"{FILE} was built for Slurm {wrong}, and slurmctld is {running}: no job is preempted"
    ]
    if built != "micro":
        return
    # With the one that fits, the same mark holds.
    restart_with(cluster, PLUGIN_FOLDER / FILE)
    cluster.wait_state(te, "RUNNING")
    assert cluster.put_back([victim]) == [victim]
    assert (Severity.OK, f"{installed(cluster)} is of Slurm {running}, as slurmctld is") in doctor(cluster)


@pytest.mark.parametrize("flags", ["", OTHER_NAMES], ids=["asked as 22.05 asks", "as 25.05 asks"])
def test_built_for_another_release_it_has_a_job_requeued_as_its_grace_period_ends(
    cluster: LocalCluster, tmp_path: Path, flags: str
) -> None:
    """As after an update of Slurm: slurmctld kills a job then, unless the plugin says that jobs are requeued."""
    victim = best_effort(cluster, wrap="trap '' TERM; sleep 300")
    put_marks(cluster, Mark(job_id=victim, grace_s=10))
    trial(cluster)
    cluster.wait_for(lambda: cluster.job(victim)["PreemptTime"] != "None", "its grace period to begin")
    restart_with(cluster, build_for(tmp_path, "22.05.99", flags))
    assert cluster.state(victim) == "RUNNING"
    cluster.wait_for(lambda: cluster.state(victim) != "RUNNING", "its grace period to be over")
    cluster.wait_for(lambda: cluster.job(victim)["Restarts"] == "1", "it to be requeued")


def test_status_is_red_while_the_plugin_is_of_another_release(cluster: LocalCluster, tmp_path: Path) -> None:
    restart_with(cluster, build_for(tmp_path, "22.05.99"))
    configure(cluster, tmp_path)
    with running_daemon(cluster, tmp_path, ClientChoice.COMMANDS) as daemon:

        def trouble() -> str:
            return str(daemon.json("status")["daemon"]["marks_trouble"])

        cluster.wait_for(lambda: "was built for Slurm 22.05.99" in trouble(), "the red line of status")
        restart_with(cluster, PLUGIN_FOLDER / FILE)
        cluster.wait_for(lambda: trouble() == "", "no red line")


def damaged(how: str) -> bytes | None:
    """Return what is installed instead of the plugin; None for nothing."""
    whole = (PLUGIN_FOLDER / FILE).read_bytes()
    contents = {"empty": b"", "a text": b"no plugin\n" * 1000, "cut short": whole[:8192]}
    if how == "another plugin":
        return (Path(own_plugins()) / "auth_munge.so").read_bytes()
    return contents.get(how)


@pytest.mark.parametrize(
    "how", gated(["missing", "empty", "a text", "cut short", "another plugin"], "missing", "cut short")
)
def test_the_keeper_replaces_a_missing_or_damaged_file_before_slurmctld_starts(
    cluster: LocalCluster, tmp_path: Path, how: str
) -> None:
    unit = tmp_path / "unit"
    folders = {"PLUGIN_DIR": installed(cluster).parent, "KEEPER_DIR": tmp_path / "keeper", "UNIT_DIR": unit}
    make(PLUGIN_FOLDER, "install-keeper", *(f"{name}={folder}" for name, folder in folders.items()))
    content = damaged(how)
    if content is None:
        installed(cluster).unlink()
    else:
        put(cluster, content)
    said_of_it = [text for level, text in doctor(cluster) if level is Severity.FAIL]
    assert len(said_of_it) == 1
    assert "slurmctld will not start again" in said_of_it[0]
    cluster.stop_slurmctld()
    assert is_refused(cluster)
    kept = run_keeper(unit)
    assert "is the kept copy now" in kept.stderr
    assert kept.returncode == 0
    cluster.start_slurmctld()
    assert installed(cluster).read_bytes() == (PLUGIN_FOLDER / FILE).read_bytes()
    assert doctor(cluster)[0][0] is Severity.OK
    assert (run_keeper(unit).stderr, list(installed(cluster).parent.iterdir())) == (
        "",
        [installed(cluster)],
    )


def run_keeper(unit: Path) -> subprocess.CompletedProcess[str]:
    """Run what systemd runs before it starts slurmctld, by the drop-in."""
    (line,) = re.findall(r"(?m)^ExecStartPre=-\+(.*)$", (unit / "tesched.conf").read_text())
    return subprocess.run(line.split(), capture_output=True, text=True, check=False)


@pytest.mark.gate
def test_the_keeper_leaves_the_file_alone_where_its_own_copy_is_damaged(tmp_path: Path) -> None:
    keeper, copy, there = tmp_path / "keep-plugin", tmp_path / FILE, tmp_path / "installed.so"
    shutil.copy(ROOT / "slurm_plugin" / "keep-plugin.sh", keeper)
    copy.write_bytes(b"as it was built")
    (tmp_path / f"{FILE}.sha256").write_text(
        subprocess.run(["sha256sum", FILE], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    )
    there.write_bytes(b"whole")
    copy.write_bytes(b"as it was")
    left = subprocess.run([keeper, there], capture_output=True, text=True, check=False)
    assert (left.returncode, there.read_bytes()) == (1, b"whole")
    assert "is damaged" in left.stderr
    copy.write_bytes(b"as it was built")
    subprocess.run([keeper, there], check=True, capture_output=True)
    assert there.read_bytes() == b"as it was built"
