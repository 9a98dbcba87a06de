"""A reload between two turns: what is taken up, what is kept, what systemd is sent. The loop's ports are in memory."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from tesched_core.model.actions import Requeue, kind_of, sets
from tesched_core.model.cluster import JobState, SlurmSettings
from tesched_core.model.decision import Decision
from tesched_core.model.field import Field
from tesched_core.model.lead import Lead
from tesched_core.model.limits import Limits
from tesched_core.model.memory import Memory
from tesched_core.model.snapshot import JobClass, Snapshot
from tesched_core.ports import CycleReport
from tesched_daemon.admission_file import AdmissionFile
from tesched_daemon.config import load
from tesched_daemon.loop import Loop
from tesched_daemon.reload import Reloader, acting
from tesched_daemon.service import Service
from tesched_daemon.settings import Mode
from tesched_daemon.undo import put_all_back_at_a_stop
from tesched_slurm.commands_actuator import DryRunActuator

from tests.loop_parts import FULL_CLUSTER, TRIAL, VICTIM, Cluster, Notebook

BASE = """
mode = "enforce"
[store]
url = "sqlite:////x/old.sqlite"
[loop]
poll_interval_s = 1
[guard]
min_run_time_s = 0
[classes]
default_notice_signal = "B:USR1"
[[classes.rules]]
name = "te"
job_class = "te"
match = { names = ["te"] }
"""


@dataclass
class Recording(Notebook):
    """A journal that keeps the snapshots that it was given."""

    snapshots: list[Snapshot] = field(default_factory=list)

    def intend(self, snapshot: Snapshot, memory: Memory, decision: Decision, report: CycleReport) -> None:
        self.snapshots.append(snapshot)


@dataclass
class Reported(Notebook):
    """A journal that keeps what the daemon has reported of itself."""

    reports: list[CycleReport] = field(default_factory=list)

    def intend(self, snapshot: Snapshot, memory: Memory, decision: Decision, report: CycleReport) -> None:
        self.reports.append(report)


@dataclass
class Site:
    """A loop, what it runs on, and the file that may change."""

    path: Path
    cluster: Cluster = field(default_factory=Cluster)
    notebook: Notebook = field(default_factory=Notebook)

    def __post_init__(self) -> None:
        self.path.write_text(BASE)
        config = load(self.path)
        self.reloader = Reloader(path=self.path, running=config, actuator=self.cluster)
        self.loop = Loop(
            observer=self.cluster,
            actuator=acting(config.mode, self.cluster),
            restorer=self.cluster,
            journal=self.notebook,
            policies=config.policy.entries(),
            limits=config.guard,
            classes=config.classes,
            mode=config.mode,
            pace=config.loop,
            clock=lambda: 1000.0,
            stopwatch=lambda: 5000.0,
        )

    def reload(self, text: str) -> str:
        """Write another file and reload it."""
        self.path.write_text(text)
        return self.reloader.reload(self.loop)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(path=tmp_path / "tesched.toml")


def test_policy_limits_pace_and_mode_are_taken_up(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    more = "[policy]\nte = 'rand'\nbe = 'fill'\n"
    text = BASE.replace("enforce", "shadow").replace("poll_interval_s = 1", "poll_interval_s = 7\nearly_turn = true")
    assert site.reload(text.replace("min_run_time_s = 0", "min_run_time_s = 5") + more) == ""
    loop = site.loop
    assert (loop.mode, loop.pace.poll_interval_s, loop.limits) == (Mode.SHADOW, 7.0, Limits(min_run_time_s=5))
    assert loop.pace.early_turn
    assert [entry.policy.name for entry in loop.policies] == ["rand", "fill"]
    assert isinstance(loop.actuator, DryRunActuator)
    assert loop.turn().settled, "it puts back first"
    assert loop.turn().next_in_s == 7.0
    assert site.cluster.acted == []
    (said,) = (record.getMessage() for record in caplog.records if "reloaded" in record.message)
    for word in ('mode "enforce" -> "shadow"', 'policy.te "fitgpp" -> "rand"', "guard.min_run_time_s 0.0 -> 5.0"):
        assert word in said


def test_no_pipe_is_waited_for(site: Site) -> None:
    end, start = os.pipe()
    try:
        os.write(start, BASE.replace("enforce", "shadow").encode())
        os.close(start)
        site.reloader.path = Path(f"/dev/fd/{end}")
        assert "must be a file" in site.reloader.reload(site.loop)
    finally:
        os.close(end)
    assert site.loop.mode is Mode.ENFORCE


def test_from_shadow_to_enforce_the_real_actuator_acts(site: Site) -> None:
    site.reload(BASE.replace("enforce", "shadow"))
    assert isinstance(site.loop.actuator, DryRunActuator)
    site.reload(BASE)
    site.loop.turn()
    assert [kind_of(action) for action in site.cluster.acted] == ["setnice", "setnodes", "notify"]


def test_an_order_under_way_goes_on_under_the_new_settings(site: Site) -> None:
    site.loop.turn()
    assert [kind_of(action) for action in site.cluster.acted] == ["setnice", "setnodes", "notify"]
    # With another policy and no more preemptions allowed, the notice that was given is still followed by its requeue.
    strict = BASE.replace("[guard]", "[guard]\nmax_preemptions_per_job = 0")
    assert site.reload(f"{strict}[policy]\nte = 'none'\n") == ""
    bound = replace(TRIAL.request, required_nodes=("n1",))
    raised = replace(TRIAL, nice=-1051, priority=1101, request=bound)
    jobs = {job.job_id: job for job in (VICTIM, raised)}
    site.cluster.seen = replace(FULL_CLUSTER, taken_at=1031.0, jobs=jobs)
    site.loop.turn()
    (requeue,) = site.cluster.acted[3:]
    assert isinstance(requeue, Requeue)
    assert requeue.job_id == VICTIM.job_id


def test_a_job_that_has_not_changed_is_classified_by_the_new_rules(site: Site) -> None:
    site.reload(BASE.replace("enforce", "observe"))
    notebook = Recording()
    site.loop.journal = notebook
    site.loop.turn()
    site.reload(BASE.replace("enforce", "observe").replace('names = ["te"]', 'names = ["be"]'))
    site.loop.turn()
    classes = [[snapshot.traits[job.job_id].job_class for job in (VICTIM, TRIAL)] for snapshot in notebook.snapshots]
    assert classes == [[JobClass.BE, JobClass.TE], [JobClass.TE, JobClass.BE]]


@pytest.mark.parametrize(
    ("bad", "named"),
    [
        ("[guard]\ncool_down_s = -1", "guard.cool_down_s: must be a number of at least 0, not -1"),
        ("mood = 1", "mood: unknown key; did you mean mode?"),
        ("mode = ", "not valid TOML: line 1 (mode)"),
    ],
)
def test_a_bad_file_changes_nothing_and_is_reported(
    site: Site, bad: str, named: str, caplog: pytest.LogCaptureFixture
) -> None:
    before = (site.loop.limits, site.loop.mode, site.loop.classes)
    remark = site.reload(bad)
    assert remark.startswith(f"the configuration is not reloaded: {site.path}: ")
    assert named in remark
    assert (site.loop.limits, site.loop.mode, site.loop.classes) == before
    (warning,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert named in warning
    site.path.unlink()
    assert "no such file" in site.reloader.reload(site.loop)
    assert site.reload(BASE) == ""


def test_a_key_that_needs_a_restart_is_reported_until_it_is_so_again_and_the_rest_is_applied(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    moved = BASE.replace("sqlite:////x/old.sqlite", "postgresql://me:geheim@db/x").replace(
        "[guard]", "[guard]\ncool_down_s = 9"
    )
    deaf = moved.replace("[loop]", "[loop]\nsocket = ''")
    assert deaf != moved
    remark = site.reload(deaf + "[slurm]\nclient = 'commands'\nconf = '/etc/slurm.conf'\ntimeout_s = 3\n")
    assert remark.endswith("holds after a restart: store.url, slurm.client, slurm.conf, slurm.timeout_s, loop.socket")
    assert site.loop.limits.cool_down_s == 9
    assert site.reload(moved).endswith("holds after a restart: store.url")
    assert site.reload(BASE) == ""
    assert "geheim" not in caplog.text


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """Give the socket on which systemd would listen."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.settimeout(10)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        yield listening


def message(told: socket.socket) -> dict[str, str]:
    """Return the next message that is not of a wait between two turns alone."""
    while (said := told.recv(65536).decode()) == "WATCHDOG=1":
        pass
    return dict(line.split("=", 1) for line in said.splitlines())


def test_systemd_hears_of_a_reload_and_reads_of_a_bad_one_in_the_status_until_it_is_mended(
    site: Site, told: socket.socket
) -> None:
    # An hour until the next turn: the reload does not wait for it.
    site.reload(BASE.replace("poll_interval_s = 1", "poll_interval_s = 3600\nbackoff_max_s = 3600"))
    service = Service(site.loop, reload=site.reloader.reload)
    thread = threading.Thread(target=service.run)
    thread.start()
    try:
        assert message(told)["READY"] == "1"
        site.path.write_text("mood = 1")
        service.reload()
        begun, done, turn = message(told), message(told), message(told)
        assert (begun["RELOADING"], int(begun["MONOTONIC_USEC"]) > 0) == ("1", True)
        assert done["READY"] == "1"
        for said in (done, turn):
            assert "not reloaded" in said["STATUS"]
            assert "mood: unknown key" in said["STATUS"]
        assert "READY" not in turn
        site.path.write_text(BASE)
        service.reload()
        begun, done, turn = message(told), message(told), message(told)
        assert ("RELOADING" in begun, done["READY"], done["STATUS"]) == (True, "1", "configuration reloaded")
        assert "reload" not in turn["STATUS"]
    finally:
        service.stop()
        thread.join(10)
    assert not thread.is_alive()


def raised_and_bound(site: Site) -> None:
    """Let a daemon in mode enforce raise the TE job and bind it, for good: Slurm takes no further change."""
    site.loop.turn()
    bound = replace(TRIAL.request, required_nodes=("n1",))
    raised = replace(TRIAL, nice=-1051, priority=1101, request=bound)
    site.cluster.seen = replace(FULL_CLUSTER, jobs={job.job_id: job for job in (VICTIM, raised)})


def test_systemd_hears_of_each_turn_that_puts_back_after_a_reload(site: Site, told: socket.socket) -> None:
    raised_and_bound(site)
    service = Service(site.loop, reload=site.reloader.reload)
    site.path.write_text(BASE.replace("enforce", "shadow"))
    service.reload()
    thread = threading.Thread(target=service.run)
    thread.start()
    try:
        for _ in range(3):
            said = message(told)
            assert said["WATCHDOG"] == "1"
            assert said["STATUS"].startswith("undo: ")
    finally:
        service.stop()
        thread.join(10)


def test_systemd_hears_of_each_turn_that_puts_back_at_the_end(
    site: Site, told: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    raised_and_bound(site)
    monkeypatch.setattr("tesched_daemon.undo.PAUSE_S", 0)
    monkeypatch.setattr("tesched_daemon.undo.POLLS", 3)
    put_all_back_at_a_stop(site.loop)
    for _ in range(3):
        assert message(told) == {"WATCHDOG": "1", "EXTEND_TIMEOUT_USEC": "180000000"}


def test_a_reload_that_fails_by_a_bug_ends_the_service(site: Site) -> None:
    def broken(_loop: Loop) -> str:
        raise ZeroDivisionError

    service = Service(site.loop, reload=broken)
    service.reload()
    with pytest.raises(ZeroDivisionError):
        service.run()


def test_reloads_requested_during_a_turn_are_made_after_it(site: Site) -> None:
    order: list[str] = []
    inside, go_on = threading.Event(), threading.Event()
    observe = site.cluster.observe

    def slow(*, whole: bool = True, ends: bool = False) -> object:
        order.append("look")
        inside.set()
        assert go_on.wait(10)
        order.append("looked")
        if order.count("looked") == 2:
            service.stop()
        return observe()

    site.cluster.observe = slow  # type: ignore[assignment,method-assign]
    site.cluster.seen = replace(FULL_CLUSTER, jobs={TRIAL.job_id: replace(TRIAL, state=JobState.COMPLETED)})

    def reload(_loop: Loop) -> str:
        order.append("reload")
        return ""

    service = Service(site.loop, reload=reload)
    thread = threading.Thread(target=service.run)
    thread.start()
    assert inside.wait(10)
    service.reload()
    service.reload()
    go_on.set()
    thread.join(10)
    assert not thread.is_alive()
    assert order == ["look", "looked", "reload", "look", "looked"]


def test_a_daemon_that_leaves_mode_enforce_puts_back_first_what_is_changed(site: Site) -> None:
    raised_and_bound(site)
    acted = len(site.cluster.acted)
    assert site.reload(BASE.replace("enforce", "observe")) == ""
    assert len(site.cluster.acted) == acted, "systemd waits for the reload, which itself takes no time"
    site.loop.turn()
    back = [one for one in site.cluster.acted[acted:] if sets(one, Field.NICE)]
    assert {one.value for one in back} == {0}
    assert "setnodes" in {kind_of(one) for one in site.cluster.acted[acted:]}
    assert site.loop.mode is Mode.OBSERVE


def test_a_standby_that_leaves_mode_enforce_touches_nothing(site: Site) -> None:
    site.loop.turn()
    acted = len(site.cluster.acted)
    site.notebook.says = Lead(leader="the daemon of the other login node")
    site.reload(BASE.replace("enforce", "shadow"))
    site.loop.turn()
    assert site.cluster.acted[acted:] == []


def test_each_turn_reports_whether_the_limits_on_te_jobs_are_enforced(tmp_path: Path) -> None:
    notebook = Reported()
    site = Site(path=tmp_path / "tesched.toml", notebook=notebook)
    loop, hook = site.loop, tmp_path / "job_submit.lua"
    loop.admission = AdmissionFile(path=tmp_path / "admission")
    settings = SlurmSettings(conf=str(tmp_path / "slurm.conf"), job_submit=frozenset({"lua"}))
    site.cluster.seen = replace(FULL_CLUSTER, settings=settings)

    def reported() -> tuple[str, str] | None:
        loop.turn()
        one = notebook.reports[-1].enforcement
        return None if one is None else (one.enforced.value, one.why)

    assert reported() is None
    limited = f"{BASE}[guard.te]\nmax_running_per_user = 1\n"
    site.reload(limited)
    assert reported() == ("unknown", f"{hook}: No such file or directory")
    text = (Path(__file__).parents[3] / "systemd" / "job_submit.lua").read_text()
    hook.write_text(text.replace("/run/tesched/admission", str(loop.admission.path)))
    # A reload has the hook read anew, whenever it was read last.
    site.reload(limited)
    assert reported() == ("yes", "")
    site.reload(limited.replace("enforce", "shadow"))
    assert reported() == ("no", "mode shadow")
