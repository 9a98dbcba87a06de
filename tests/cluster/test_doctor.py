"""`tesched doctor` beside a real Slurm: a healthy one, and set-ups that stand in tesched's way."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tesched_cli.main import main
from tesched_db import migrate
from tesched_slurm.client_choice import ClientChoice
from tesched_slurm.rate_limits import SINCE
from tesched_testcluster.definition import ClusterDefinition, NativePreemption, NodeGroup, PartitionDefinition
from tesched_testcluster.harness.daemon_process import running_daemon
from tesched_testcluster.local import LocalCluster

from tests.cluster.conftest import MakeCluster

pytestmark = pytest.mark.slurm

ONE_NODE = (NodeGroup(count=1),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What the doctor said."""

    status: int
    #: by what was checked: level, text and advice
    lines: Mapping[str, tuple[str, str, str]]

    def levels(self, level: str) -> list[str]:
        """Return what was found to be so bad."""
        return [check for check, (found, _, _) in self.lines.items() if found == level]


def tesched(*argv: str, config: Path) -> Any:
    """Run `tesched argv… --config FILE` in this process."""
    return CliRunner(env={"NO_COLOR": "1"}).invoke(main, [*argv, "--config", str(config)])


def doctor(config: Path) -> Report:
    """Return the doctor's report; as text it must say the same."""
    answer = tesched("doctor", "--json", config=config)
    assert answer.stderr == ""
    data = json.loads(answer.stdout)
    lines = {each["check"]: (each["level"], each["text"], each["advice"]) for each in data["findings"]}
    assert len(lines) == len(data["findings"])
    assert sum(data["counts"].values()) == len(lines)
    for level, _, advice in lines.values():
        assert (advice == "") == (level == "ok")
    text = tesched("doctor", config=config)
    assert text.exit_code == answer.exit_code
    shown = [line for line in text.stdout.splitlines()[:-1] if not line.startswith(" ")]
    assert [line.split()[0].lower() for line in shown] == [level for level, _, _ in lines.values()]
    return Report(status=answer.exit_code, lines=lines)


def site(cluster: LocalCluster, folder: Path, more: str = "", mode: str = "enforce", store: bool = True) -> Path:
    """Write a configuration for this cluster, and make its store; return the file."""
    path, url = folder / "tesched.toml", f"sqlite:///{folder}/tesched.sqlite"
    rule = '[[classes.rules]]\nname = "te"\njob_class = "te"\n'
    conf = f'[slurm]\nconf = "{cluster.slurm_conf}"\ntimeout_s = 60\n'
    path.write_text(f'mode = "{mode}"\n[store]\nurl = "{url}"\n{conf}{rule}{more}')
    if store:
        migrate.upgrade(url)
    return path


def daemon_in_time(cluster: LocalCluster, config: Path) -> Report:
    """Return a report by which Slurm has answered and the daemon has polled in time."""

    def report() -> Report | None:
        found = doctor(config)
        return found if all(found.lines[check][0] == "ok" for check in ("slurmctld", "daemon")) else None

    found = cluster.wait_for(report, "a report in which nothing is late")
    assert found is not None
    return found


@pytest.mark.gate
def test_a_healthy_cluster_with_its_daemon_gives_no_fail_and_no_warning(cluster: LocalCluster, tmp_path: Path) -> None:
    with running_daemon(cluster, tmp_path, ClientChoice.AUTO) as daemon:
        # On a busy machine a daemon that is late is reported, or a poll that took long, and it is over a moment later.
        found = daemon_in_time(cluster, daemon.config)
        # Its TE jobs have no partition of their own.
        assert (found.status, found.levels("fail"), found.levels("warn")) == (0, [], ["PriorityTier"])
        assert {"configuration", "slurmctld", "client", "rights", "store", "disk", "daemon"} <= {*found.lines}
        assert f"pid {daemon.process.pid}" in found.lines["daemon"][1]
        assert "2 s between SIGTERM and SIGKILL" in found.lines["KillWait"][1]
        # What the daemon runs on is not what the file says by now.
        daemon.config.write_text(daemon.config.read_text().replace('"enforce"', '"shadow"'))
        cluster.wait_for(
            lambda: doctor(daemon.config).lines["daemon"][1].endswith("the configuration says shadow"),
            "the doctor to see that",
        )
        assert doctor(daemon.config).lines["daemon"][::2] == ("warn", "systemctl reload tesched")


@pytest.mark.parametrize(("tier", "level"), [(2, "ok"), (1, "warn")])
def test_a_te_partition_that_is_not_first_on_its_nodes_is_reported(
    make_cluster: MakeCluster, tmp_path: Path, tier: int, level: str
) -> None:
    partitions = (
        PartitionDefinition(name="main", default=True),
        PartitionDefinition(name="debug", priority_tier=tier),
    )
    cluster = make_cluster(ClusterDefinition(groups=ONE_NODE, partitions=partitions))
    config = site(cluster, tmp_path, more='match = { partitions = ["debug"] }\n')
    found, text, advice = doctor(config).lines["PriorityTier"]
    assert found == level
    assert ("debug (PriorityTier=1) and main (1) share nodes" in text) == (level == "warn")
    assert ("PriorityTier=2" in advice) == (level == "warn")


PREEMPTING = ClusterDefinition(
    groups=ONE_NODE,
    preemption=NativePreemption(),
    partitions=(
        PartitionDefinition(name="low", default=True, priority_tier=1),
        PartitionDefinition(name="high", priority_tier=2),
    ),
)


#: set-ups, and what is said of each: what was checked, level, a part of the text, a part of the advice
SETTINGS = [
    (
        ClusterDefinition(groups=ONE_NODE, settings={"JobRequeue": "0"}),
        ("JobRequeue", "fail", "only jobs that were submitted with --requeue", "set JobRequeue=1"),
    ),
    (PREEMPTING, ("PreemptType", "fail", "jobs in high preempt jobs in low", "PreemptType=preempt/none")),
    (
        # One tier: Slurm may preempt, and has no job to do it for.
        ClusterDefinition(groups=ONE_NODE, preemption=NativePreemption()),
        ("PreemptType", "warn", "preempt/partition_prio with PreemptMode=REQUEUE", "PreemptType=preempt/none"),
    ),
    (ClusterDefinition(groups=ONE_NODE, kill_wait_s=90), ("KillWait", "warn", "90 s between", "lower KillWait")),
    (
        ClusterDefinition(groups=ONE_NODE, min_job_age_s=3),
        ("MinJobAge", "fail", "a finished job for 3 s; tesched polls every 2 s", "raise MinJobAge"),
    ),
    (
        ClusterDefinition(groups=ONE_NODE, min_job_age_s=20),
        ("MinJobAge", "warn", "after failed polls every 30 s", "lower loop.backoff_max_s"),
    ),
]


@pytest.mark.parametrize(("definition", "expected"), SETTINGS)
def test_a_setting_that_stands_in_the_way_is_reported(
    make_cluster: MakeCluster, tmp_path: Path, definition: ClusterDefinition, expected: tuple[str, str, str, str]
) -> None:
    check, level, said, to_do = expected
    found = doctor(site(make_cluster(definition), tmp_path))
    assert found.lines[check][0] == level
    assert said in found.lines[check][1]
    assert to_do in found.lines[check][2]
    assert found.levels("fail") == ([check] if level == "fail" else [])
    assert found.status == (1 if level == "fail" else 0)


def test_a_missing_requeue_exit_is_reported(make_cluster: MakeCluster, tmp_path: Path) -> None:
    cluster = make_cluster(ClusterDefinition(groups=ONE_NODE))
    lines = cluster.slurm_conf.read_text().splitlines(keepends=True)
    cluster.slurm_conf.write_text("".join(line for line in lines if not line.startswith("RequeueExit=")))
    cluster.run("scontrol", "reconfigure")
    without = re.compile(r"^RequeueExit +=.*null", re.MULTILINE)
    cluster.wait_for(
        lambda: without.search(cluster.run("scontrol", "show", "config").stdout) is not None, "reconfiguration"
    )
    level, text, to_do = doctor(site(cluster, tmp_path)).lines["RequeueExit"]
    assert (level, text.partition(":")[0]) == ("warn", "not set")
    assert "set RequeueExit=99" in to_do


@pytest.mark.release
def test_a_requeue_delay_of_two_minutes_is_reported_with_the_setting_of_this_release(
    make_cluster: MakeCluster, tmp_path: Path
) -> None:
    cluster = make_cluster(ClusterDefinition(groups=ONE_NODE, cred_expire_s=120, requeue_delay_s=120))
    level, text, advice = doctor(site(cluster, tmp_path)).lines["requeue delay"]
    new = cluster.release >= (25, 11)
    assert (level, text) == ("warn", f"{120 if new else 121} s before a requeued job may run again")
    assert ("SchedulerParameters=requeue_delay=5" if new else "AuthInfo=cred_expire=5") in advice


@pytest.mark.parametrize(("mode", "level"), [("enforce", "fail"), ("shadow", "warn")])
def test_a_user_without_rights_is_reported(cluster: LocalCluster, mode: str, level: str) -> None:
    config = site(cluster, cluster.shared, mode=mode)
    for path in cluster.shared.iterdir():
        path.chmod(0o644)
    with somebody_else():
        found = doctor(config)
    assert found.lines["rights"][0] == level
    assert "nobody may not requeue or change other users' jobs" in found.lines["rights"][1]
    assert "run the daemon as SlurmUser" in found.lines["rights"][2]
    # The user may read the store, and not write it.
    assert found.lines["store"][0] == "warn"
    assert found.status == (1 if level == "fail" else 0)


@pytest.mark.parametrize(
    ("private", "hidden"),
    [
        ("jobs,usage", "other users' jobs"),
        ("nodes", "nodes"),
        ("partitions,users", "partitions"),
        ("jobs,nodes,partitions,reservations", "other users' jobs, nodes, partitions, reservations"),
        ("accounts,usage,users", ""),
    ],
)
def test_what_is_hidden_from_the_user_is_reported(make_cluster: MakeCluster, private: str, hidden: str) -> None:
    cluster = make_cluster(ClusterDefinition(groups=ONE_NODE, settings={"PrivateData": private}))
    config = site(cluster, cluster.shared)
    config.chmod(0o644)
    assert "PrivateData" not in doctor(config).lines
    with somebody_else():
        found = doctor(config)
    assert found.lines["slurmctld"][0] == "ok"
    # Of partitions that are not seen nothing is said.
    assert ("PriorityTier" in found.lines) == ("partitions" not in private)
    if not hidden:
        assert "PrivateData" not in found.lines
        return
    level, text, advice = found.lines["PrivateData"]
    assert (level, text) == ("fail", f"hides from nobody: {hidden}")
    assert "run the daemon as SlurmUser" in advice


class somebody_else:  # noqa: N801 - used like a function
    """Another user in the place of root. The effective id alone: root is to come back."""

    def __enter__(self) -> None:
        assert os.getuid() == 0, "only root can run this test: it changes its user"
        os.seteuid(65534)

    def __exit__(self, *_: object) -> None:
        os.seteuid(0)


def wrapped_scontrol(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a script before scontrol on PATH; in it {real} is scontrol."""
    real = shutil.which("scontrol")
    path = folder / "bin" / "scontrol"
    path.parent.mkdir()
    path.write_text("#!/bin/sh\n" + script.format(real=real))
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{path.parent}:{os.environ['PATH']}")


def test_an_operator_has_the_rights(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    # Operators need slurmdbd, which is not here; the line is that of scontrol's source (assoc_mgr_info.c).
    line = "UserName=nobody(65534) DefAccount=ai DefWckey= AdminLevel=Operator"
    script = f'case "$*" in *assoc_mgr*users=nobody*) echo "{line}";; *) exec {{real}} "$@";; esac\n'
    wrapped_scontrol(cluster.shared, script, monkeypatch)
    config = site(cluster, cluster.shared)
    with somebody_else():
        assert doctor(config).lines["rights"][:2] == ("ok", "nobody may requeue and change all users' jobs: Operator")


@pytest.mark.release
@pytest.mark.parametrize(
    ("more", "level"), [("", "warn"), (",rl_bucket_size=500,rl_refill_rate=100", "ok"), (",RL_Refill_Rate=1", "warn")]
)
def test_a_limit_on_the_rpcs_of_a_user_is_reported(make_cluster: MakeCluster, more: str, level: str) -> None:
    settings = {"SlurmctldParameters": f"idle_on_node_suspend,rl_enable{more}"}
    cluster = make_cluster(ClusterDefinition(groups=ONE_NODE, settings=settings))
    config = site(cluster, cluster.shared)
    config.chmod(0o644)
    of_root = doctor(config).lines
    with somebody_else():
        of_user = doctor(config).lines
    if cluster.release < SINCE:
        assert "rate limit" not in {*of_root, *of_user}
        return
    assert of_root["rate limit"][0] == "ok"
    assert "root is exempt" in of_root["rate limit"][1]
    found, text, advice = of_user["rate limit"]
    assert found == level
    rate = re.search(r"rl_refill_rate=(\d+)", more.lower())
    assert f"and {rate[1] if rate else 2} a second" in text
    # What it advises is enough by its own count.
    assert ("rl_bucket_size=278 and rl_refill_rate=19" in advice) == (level == "warn")


@pytest.mark.parametrize(("shift_s", "way"), [(1000, "ahead of"), (-600, "behind")])
def test_a_clock_that_differs_is_reported(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shift_s: int, way: str
) -> None:
    awk = f"awk '/^Configuration data as of/ {{{{ $5 += {shift_s} }}}} {{{{ print }}}}'"
    script = f'case "$*" in *config*) {{real}} "$@" | {awk};; *) exec {{real}} "$@";; esac\n'
    wrapped_scontrol(tmp_path, script, monkeypatch)
    config = site(cluster, tmp_path)
    began = time.monotonic()
    level, text, _ = doctor(config).lines["clock"]
    took_s = time.monotonic() - began
    found = re.search(r"'s is (\d+) s (.*) this", text)
    assert found
    assert (level, found[2]) == ("warn", way)
    # Known as well as question and answer allow: half of the time between them, and the second's fraction.
    assert abs(int(found[1]) - abs(shift_s)) <= took_s / 2 + 1


def test_a_slurmctld_that_is_down_is_reported_and_the_rest_is_checked(cluster: LocalCluster, tmp_path: Path) -> None:
    config = site(cluster, tmp_path)
    cluster.stop_slurmctld()
    found = doctor(config)
    level, text, advice = found.lines["slurmctld"]
    assert level == "fail"
    assert "does not answer" in text
    assert "scontrol ping" in advice
    assert [*found.lines] == ["configuration", "slurmctld", "store", "disk", "daemon"]
    assert found.status == 1


def test_a_slurm_conf_or_a_command_that_is_missing_is_reported(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = site(cluster, tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "no such command" in doctor(config).lines["slurmctld"][1]
    config.write_text(config.read_text().replace(str(cluster.slurm_conf), "/no/slurm.conf"))
    assert doctor(config).lines["slurm.conf"][:2] == ("fail", "there is no /no/slurm.conf")


def test_a_store_that_is_missing_or_old_or_no_store_is_reported(cluster: LocalCluster, tmp_path: Path) -> None:
    config = site(cluster, tmp_path, store=False)
    file = tmp_path / "tesched.sqlite"
    level, text, advice = doctor(config).lines["store"]
    assert (level, text) == ("fail", f"there is no state store at {file}")
    assert "`tesched db upgrade`" in advice

    tesched("db", "upgrade", config=config)
    assert doctor(config).levels("fail") == []
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '0.1'")
    connection.close()
    level, text, advice = doctor(config).lines["store"]
    assert (level, text) == ("fail", f"the state store {file} is of an older tesched (schema 0.1)")
    assert advice == "run `tesched db upgrade`"

    file.write_text("this is no database, and longer than a header of one: " * 4)
    found = doctor(config)
    assert found.lines["store"][0] == "fail"
    assert (found.levels("fail"), found.status) == (["store"], 1)


def test_a_daemon_that_never_ran_is_a_warning_and_one_that_is_gone_a_failure(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    config = site(cluster, tmp_path)
    assert doctor(config).lines["daemon"][:2] == ("warn", "has never polled, by this store")
    assert tesched("daemon", "--once", config=config).exit_code == 0
    assert doctor(config).lines["daemon"][0] == "ok"
    with sqlite3.connect(tmp_path / "tesched.sqlite") as connection:
        connection.execute("UPDATE daemon SET reported_at = reported_at - 600, next_at = next_at - 600")
    connection.close()
    found = doctor(config)
    assert "has not polled for 60" in found.lines["daemon"][1]
    assert (found.levels("fail"), found.status) == (["daemon"], 1)


def test_little_disk_space_for_the_store_is_reported(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = site(cluster, tmp_path)
    for limit, level in (("LITTLE", "warn"), ("TOO_LITTLE", "fail")):
        monkeypatch.setattr(f"tesched_daemon.doctor.doctor.{limit}", 1e18)
        assert doctor(config).lines["disk"][0] == level


def test_a_bad_configuration_and_one_that_does_nothing_are_reported(cluster: LocalCluster, tmp_path: Path) -> None:
    config = site(cluster, tmp_path, more='match = { partitions = ["debgu*"] }\n')
    assert doctor(config).lines["partitions"] == (
        "warn",
        "classes.rules[0].match.partitions: debgu* is the name of no partition",
        "Slurm has main, debug",
    )
    config.write_text(config.read_text().replace('job_class = "te"', 'job_class = "be"'))
    level, text, _ = doctor(config).lines["configuration"]
    assert level == "warn"
    assert "so no job is ever preempted" in text
    config.write_text("mood = 1")
    found = doctor(config)
    assert [*found.lines] == ["configuration"]
    assert found.lines["configuration"][:2] == ("fail", f"{config}: mood: unknown key; did you mean mode?")
    assert found.status == 2
