"""The user of a preempted job is notified: in its Slurm record, by the site's command, and by `tesched jobs --mine`.

The victims' user is an ordinary one; the daemon and slurmctld are root's.
"""

from __future__ import annotations

import grp
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.harness import other_user
from tesched_testcluster.harness.daemon_process import TESCHED, Daemon, running_daemon
from tesched_testcluster.local import LocalCluster
from tesched_testcluster.patience import slowness

pytestmark = [pytest.mark.slurm, pytest.mark.release]

USER = "nobody"
#: the group of the store and of the configuration; any that exists, and is not the user's own
GROUP = "games"
NOTE = re.compile(
    r"tesched: preempted \d{4}-\d\d-\d\dT\d\d:\d\d for a trial-and-error job; put back in the queue; 1 of 1"
)
#: works until its second run
SCRIPT = "#!/bin/bash\n[[ -n $SLURM_RESTART_COUNT ]] || sleep 300\n"
TELL = """
import sys
with open(sys.argv[1], "a") as out:
    out.write(sys.stdin.read() + "\\n")
sys.exit(int(sys.argv[2]))
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """Give a folder as /etc/tesched and /var/lib/tesched are: its group reads it, no other user."""
    made = Path(tempfile.mkdtemp(prefix="tesched-told-"))
    made.chmod(0o750)
    shutil.chown(made, group=GROUP)
    yield made
    shutil.rmtree(made)


def telling(folder: Path, *, record: str = "admin_comment", status: int = 0) -> Path:
    """Configure how users are notified; return where the command writes its input."""
    told, script = folder / "told", folder / "tell.py"
    script.write_text(TELL)
    command = json.dumps([sys.executable, str(script), str(told), str(status)])
    (folder / "conf.d").mkdir()
    (folder / "conf.d" / "tell.toml").write_text(f'[tell]\nrecord = "{record}"\ncommand = {command}\n')
    return told


def victim(cluster: LocalCluster, name: str) -> int:
    """Submit an ordinary user's job, which holds a node, and wait until it runs."""
    script = cluster.shared / "victim.sh"
    script.write_text(SCRIPT)
    options = ("-N1", "--exclusive", "--mem=100", f"--job-name={name}", f"--chdir={cluster.shared}")
    job = cluster.sbatch(*options, "--output=/dev/null", script=script, user=USER)
    cluster.wait_state(job, "RUNNING")
    return job


def preempts(cluster: LocalCluster, job: int) -> None:
    """Submit a trial for the job's node; wait until it has run."""
    node = cluster.job(job)["NodeList"]
    trial = cluster.sbatch("--job-name=te-secret", "-N1", "--exclusive", "--mem=100", f"-w{node}", wrap="sleep 0.5")
    cluster.wait_state(trial, "COMPLETED")


def comment(cluster: LocalCluster, job: int) -> str:
    """Return the job's AdminComment, as its own user reads it."""
    return cluster.run("squeue", "-h", "-t", "all", "-j", str(job), "-O", "admin_comment:300", user=USER).stdout.strip()


def extra(cluster: LocalCluster, job: int) -> str:
    """Return the job's `extra`, as its own user reads it."""
    found = re.search(
        r"^ +Extra=(.*)$", cluster.run("scontrol", "show", "job", str(job), user=USER).stdout, re.MULTILINE
    )
    return found[1] if found else ""


def facts(told: Path) -> list[dict[str, Any]]:
    """Input of the command, line by line."""
    return [json.loads(line) for line in told.read_text().splitlines()] if told.exists() else []


def as_user(daemon: Daemon, *argv: str, member: bool) -> subprocess.CompletedProcess[str]:
    """Run `tesched argv…` as the victims' user, as a member of the store's group or not."""
    groups = [f"--groups={grp.getgrnam(GROUP).gr_gid}"] if member else ["--clear-groups"]
    who = ["setpriv", f"--reuid={USER}", "--regid=nogroup", *groups]
    environment = {**os.environ, "TESCHED_CONFIG": str(daemon.config), "COLUMNS": "200"}
    command = [*other_user.prefix(daemon.config.parent), *who, str(TESCHED), *argv]
    limit_s = 60 * slowness()
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=limit_s, check=False, cwd="/"
    )


def shared_store(folder: Path) -> None:
    """Give the configuration's files and the store's to the group that may read them, as an installation does."""
    for file in (*folder.glob("*.toml"), *folder.glob("conf.d"), *folder.glob("conf.d/*"), *folder.glob("*.sqlite*")):
        file.chmod(0o750 if file.is_dir() else 0o640)
        shutil.chown(file, group=GROUP)


def await_notes(cluster: LocalCluster, daemon: Daemon, *, noted: int, not_noted: int) -> None:
    """Wait until both notes are counted, and assert that they are these."""

    def tally() -> tuple[int, int]:
        found = daemon.json("status")["tally"]
        return found["noted"], found["not_noted"]

    cluster.wait_for(lambda: sum(tally()) == noted + not_noted, "both notes to be counted")
    assert tally() == (noted, not_noted)


@pytest.mark.gate
def test_the_user_is_notified_in_the_jobs_record_and_by_the_command_and_sees_it_by_mine(
    cluster: LocalCluster, folder: Path, client_choice: ClientChoice
) -> None:
    told = telling(folder)
    hostile = "be $(touch pwned) --x ;'\""
    job, sites, others = (
        victim(cluster, hostile),
        victim(cluster, "be-sites"),
        cluster.sbatch("--job-name=be-other", "-N1", "--mem=100", wrap="sleep 300"),
    )
    cluster.run("scontrol", "update", f"jobid={sites}", "admincomment=JS1:of the site's own")
    with running_daemon(cluster, folder, client_choice) as daemon:
        preempts(cluster, job)
        cluster.wait_for(lambda: NOTE.fullmatch(comment(cluster, job)), "the note")
        preempts(cluster, sites)
        cluster.wait_for(lambda: len(facts(told)) == 2, "the command to be told twice")
        first, second = facts(told)
        assert (first["job_id"], first["user"], first["times"], first["most"]) == (job, USER, 1, 1)
        assert (first["for"], first["lost"], first["left"]) == ("a trial-and-error job", False, "requeued")
        assert first["name"].startswith("be $(touch pwned) --x")
        assert (second["job_id"], second["name"]) == (sites, "be-sites")
        # Another's text is left, and that is counted.
        assert comment(cluster, sites) == "JS1:of the site's own"
        # The note is another action than the command's input, and may come after it.
        await_notes(cluster, daemon, noted=1, not_noted=1)
        assert "is left" in daemon.json("status")["tally"]["not_noted_why"]
        cluster.wait_for(lambda: daemon.json("status")["daemon"]["told"]["told"] == 2, "the count of the command")
        # The record still says it when the job has run again.
        cluster.wait_state(job, "COMPLETED")
        assert NOTE.fullmatch(comment(cluster, job))
        # By the second poll from now the daemon has seen that run, however short it was.
        daemon.await_polls(cluster)
        shared_store(folder)
        _mine(daemon, job, sites, others)
    assert not Path("/pwned").exists()
    assert not (cluster.shared / "pwned").exists()
    # The note stays: it is no change that undo has to put back.
    assert daemon.ask("undo").returncode == 0
    assert NOTE.fullmatch(comment(cluster, job))


def _mine(daemon: Daemon, job: int, sites: int, others: int) -> None:
    answer = as_user(daemon, "jobs", "--mine", "--json", member=True)
    assert answer.returncode == 0, answer.stderr
    mine = {one["job"]: one for one in json.loads(answer.stdout)["jobs"]}
    assert set(mine) >= {str(job), str(sites)}  # and those of a test before it
    (one,) = mine[str(job)]["preemptions"]
    assert (mine[str(job)]["preempted"], mine[str(job)]["most"]) == (1, 1)
    assert (one["cause"], one["departure"]) == ("a trial-and-error job", "requeued")
    assert one["back_at"] is not None
    shown = as_user(daemon, "jobs", "--mine", member=True)
    assert f"job {job} was preempted" in shown.stdout
    for text in (answer.stdout, shown.stdout):
        assert "secret" not in text
        assert "be-other" not in text
        assert str(others) not in mine
    for argv in (("jobs", "--mine"), ("status",), ("explain", str(job))):
        refused = as_user(daemon, *argv, member=False)
        assert refused.returncode == 2
        assert refused.stdout == ""
        (line,) = refused.stderr.splitlines()
        assert f"only the group '{GROUP}' may, and you are not in it" in line


def test_the_note_may_stand_in_extra(cluster: LocalCluster, folder: Path, client_choice: ClientChoice) -> None:
    telling(folder, record="extra", status=3)
    job = victim(cluster, "be-victim")
    own = victim(cluster, "be-own")
    can = cluster.release >= (23, 11)
    if can:
        cluster.run("scontrol", "update", f"jobid={own}", "extra=mine", user=USER)
    with running_daemon(cluster, folder, client_choice) as daemon:
        preempts(cluster, job)
        preempts(cluster, own)
        # The command ends with 3 each time; nothing else suffers.
        cluster.wait_for(lambda: daemon.json("status")["daemon"]["told"]["failed"] == 2, "the count of failures")
        assert daemon.json("status")["daemon"]["told"]["last_failure"] == "exit status 3"
        await_notes(cluster, daemon, noted=1 if can else 0, not_noted=1 if can else 2)
        assert "failed: 2 (the last: exit status 3)" in daemon.ask("status").stdout
        assert bool(NOTE.fullmatch(extra(cluster, job))) is can
        assert extra(cluster, own) == ("mine" if can else "")
        assert not NOTE.search(comment(cluster, job))


def test_mode_shadow_notifies_no_user_and_a_user_without_the_right_is_no_trouble(
    cluster: LocalCluster, folder: Path, one_client: ClientChoice
) -> None:
    told = telling(folder)
    job = victim(cluster, "be-victim")
    with running_daemon(cluster, folder, one_client, mode="shadow") as daemon:
        node = cluster.job(job)["NodeList"]
        cluster.sbatch("--job-name=te", "-N1", "--exclusive", "--mem=100", f"-w{node}", wrap="true")
        cluster.wait_for(lambda: daemon.json("status")["tally"]["shadow"] == 1, "an order of mode shadow")
        cluster.run("scontrol", "requeue", str(job))
        cluster.wait_state(job, "PENDING", "COMPLETED")
        cluster.wait_state(job, "COMPLETED")
        assert daemon.json("status")["tally"]["noted"] == 0
    assert comment(cluster, job) in {"", "(null)"}
    assert facts(told) == []
