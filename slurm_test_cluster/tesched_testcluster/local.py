"""A real Slurm on this host: its own munged, slurmctld and one slurmd for each node, on loopback, in one folder.

    with LocalCluster() as cluster:
        job_id = cluster.sbatch("--gres=gpu:1", wrap="sleep 60")
        cluster.wait_state(job_id, "RUNNING")

Debian's slurmd can run many times on one host, which is what makes eight nodes (or eighty) of one. Any number of
clusters run side by side; each has a name, and its folder holds all that is known of it, so that another process can
attach to it or end it later.

Over 400 lines: one class, which starts, feeds and breaks the daemons of one cluster.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from tesched_testcluster import backup_controller, local_accounting, processes, registry
from tesched_testcluster.cluster import COMMAND_TIMEOUT_S, Cluster, ClusterError
from tesched_testcluster.definition import ClusterDefinition, Placement, local_placement, parse_release
from tesched_testcluster.patience import HANG_S, Patience, slowness
from tesched_testcluster.render import (
    all_device_names,
    further_files,
    marks_path,
    render_cgroup_conf,
    render_gres_conf,
    render_slurm_conf,
    render_slurmdbd_conf,
    sacctmgr_commands,
)

_INSTALL_SCRIPT = "slurm_test_cluster/install-slurm.sh"
#: daemons stand here, and an ordinary user's PATH may lack them
_SBIN = ("/usr/local/sbin", "/usr/sbin", "/sbin")
_PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scontrol", "sinfo", "squeue", "scancel")
#: variables that would change what Slurm's clients do
_FOREIGN = ("SLURM", "SBATCH_", "SALLOC_", "SQUEUE_", "SINFO_", "SCANCEL_", "SACCT_", "SRUN_")
_PAUSE_S = 0.02
#: where `make plugin` puts preempt/tesched; the Makefile takes TESCHED_BUILD from the environment, too
PLUGIN_FOLDER = Path(os.environ.get("TESCHED_BUILD") or Path(__file__).resolve().parents[2] / "build") / "slurm_plugin"
_PLUGIN = PLUGIN_FOLDER / "preempt_tesched.so"
#: seconds that making an empty database may take on an idle machine, where it takes about two
_DATABASE_TIMEOUT_S = 60.0


class LocalCluster(Cluster):
    """A cluster on this host. A context manager: up on entry, down on exit."""

    def __init__(self, definition: ClusterDefinition | None = None, *, name: str | None = None) -> None:
        """Make ready; nothing is started or written yet. `name` is unique to this process unless given.

        ValueError for a name that no folder should have.
        """
        self.definition = definition if definition is not None else ClusterDefinition()
        self.name = registry.checked_name(name) if name is not None else registry.fresh_name()
        self.folder = registry.root() / self.name
        #: where jobs run and write; every user may
        self.shared = self.folder / "shared"
        #: (22, 5) for Slurm 22.05
        self.release = (0, 0)

    @classmethod
    def attach(cls, name: str) -> Self:
        """Return a cluster that is up already, started by this or another process. ClusterError if there is none."""
        record = registry.read(name)
        cluster = cls(record.definition, name=name)
        cluster.release = record.release
        return cluster

    def __enter__(self) -> Self:
        """Start it. From then on a SIGTERM ends the program as an error does, so that no cluster outlives it."""
        processes.exit_on_sigterm()
        self.up()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it."""
        self.down()

    @property
    def slurm_conf(self) -> Path:
        """Return the path of slurm.conf."""
        return processes.slurm_conf_path(self.folder)

    @property
    def env(self) -> dict[str, str]:
        """Return the environment for a process that shall talk to this cluster, and to no other."""
        env = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
        return env | {"SLURM_CONF": str(self.slurm_conf), "PATH": _path()}

    @property
    def uses_plugin(self) -> bool:
        """Return whether preempt/tesched preempts here."""
        return self.definition.preemption is not None and self.definition.preemption.kind == "tesched"

    @property
    def marks(self) -> Path:
        """Return the path of the marks file that preempt/tesched reads."""
        return Path(marks_path(self._placement(registry.read(self.name).first_port)))

    @property
    def slurmctld_log(self) -> Path:
        """Return the path of slurmctld's log."""
        return self.folder / "log" / "slurmctld.log"

    def execute(self, *args: str, timeout_s: float, user: str | None) -> subprocess.CompletedProcess[str]:
        """Run a command in the shared folder."""
        return subprocess.run(
            args,
            env=self.env,
            cwd=self.shared,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            user=user,
        )

    def up(self, *, timeout_s: float | None = None) -> None:
        """Start every daemon and wait until all nodes are idle.

        ClusterError if that fails or takes longer than `timeout_s` (`patience.py`); nothing is left then.
        """
        require_slurm(accounting=self.definition.accounting is not None)
        if self.uses_plugin and not plugin_is_built():
            raise ClusterError(f"not built: {_PLUGIN}. Run make plugin.")
        self.release = installed_release()
        patience = Patience(timeout_s)
        first_port = registry.claim(self.folder, self.definition, self.release)
        try:
            self._write_files(first_port)
            self._start_munged()
            if self.definition.accounting is not None:
                self._start_accounting(patience)
            self._launch({"slurmctld": ("slurmctld", "-c")})
            self._await_ping(patience)
            self._launch({name: ("slurmd", "-N", name) for name in self.definition.node_names})
            self._await_nodes(patience)
        except BaseException:
            self._remove()
            raise

    def down(self) -> None:
        """Cancel its jobs, end every process of it and remove its folder, however far its start had come.

        Nothing happens if it is not up. ClusterError if a process does not end.
        """
        if not self.folder.exists():
            return
        if self.is_answering():
            # A sick cluster must go all the same: whatever still runs is killed below.
            with suppress(ClusterError):
                self.cancel_all(timeout_s=10)
        self._remove()

    def reset(self) -> None:
        """Put a used cluster back, even if slurmctld or nodes were stopped, and empty the shared folder."""
        if not processes.find_processes(self.folder, "slurmctld"):
            self.start_slurmctld()
        super().reset()
        for entry in self.shared.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()

    def is_answering(self) -> bool:
        """Return whether slurmctld answers."""
        if not self.shared.exists():
            return False
        try:
            return self.run("scontrol", "ping", check=False, timeout_s=3).returncode == 0
        except ClusterError:
            return False

    def kill_node(self, name: str) -> None:
        """End a node as a power cut does: its slurmd and all that runs on it. Slurm is informed that it is down.

        Else slurmctld would find out after SlurmdTimeout.
        """
        self._check_node(name)
        processes.end_processes(self.folder, name)
        self.run("scontrol", "update", f"nodename={name}", "state=down", "reason=killed")

    def revive_node(self, name: str) -> None:
        """Start a killed node again and wait until it is usable."""
        self._check_node(name)
        self._launch({name: ("slurmd", "-N", name)})
        # It returns to service when it reports to slurmctld. A resume before that would only make Slurm wait for its
        # next ping; one after it is needed if the node was drained.
        self.wait_for(lambda: "DOWN" not in self.node(name)["State"], f"node {name} to report")
        self.resume_node(name)

    def stop_slurmctld(self, *, timeout_s: float | None = None) -> None:
        """Stop slurmctld in good order; it saves its state. Jobs go on."""
        processes.send(processes.find_processes(self.folder, "slurmctld"), signal.SIGTERM)
        self.wait_for(
            lambda: not processes.find_processes(self.folder, "slurmctld"), "slurmctld to stop", timeout_s=timeout_s
        )

    def start_slurmctld(self, *, timeout_s: float | None = None) -> None:
        """Start slurmctld again with the state that it saved, and wait until it answers."""
        self._launch({"slurmctld": ("slurmctld",)})
        self._await_ping(Patience(timeout_s))

    def written_state(self, job: int) -> bytes:
        """Have slurmctld write its state of the jobs with all that is set by now, and return it; `job` is changed."""
        file = self._job_state
        stamp = file.stat().st_mtime_ns if file.exists() else 0
        self.run("scontrol", "update", f"jobid={job}", "comment=written")
        self.wait_for(lambda: file.exists() and file.stat().st_mtime_ns > stamp, "the state to be written")
        return file.read_bytes()

    def kill_slurmctld(self, written: bytes | None = None) -> None:
        """Kill slurmctld, and wait until it is gone. Jobs go on.

        It begins to write its state some seconds after a change. `written` is left as what it had written last: so it
        is sure that what was changed since is lost, however busy this machine is.
        """
        processes.send(processes.find_processes(self.folder, "slurmctld"), signal.SIGKILL)
        self.wait_for(lambda: not processes.find_processes(self.folder, "slurmctld"), "slurmctld to be gone")
        if written is not None:
            self._job_state.write_bytes(written)

    @property
    def _job_state(self) -> Path:
        return self.folder / "state" / "job_state"

    def start_backup(self) -> None:
        """Start the backup slurmctld of a definition that has one (`backup_controller.py`), and wait for it."""
        self._launch({backup_controller.DAEMON: backup_controller.start_command(self.folder, self.slurm_conf)})
        self.wait_for(lambda: "DOWN" not in self.run("scontrol", "ping").stdout, "the backup slurmctld to stand by")

    def _end_job_processes(self) -> None:
        """Kill the job scripts and what they started."""
        processes.send(processes.find_jobs(self.folder), signal.SIGKILL)

    def _reset_node(self, name: str) -> None:
        """Start a killed node again; resume any other."""
        if processes.find_processes(self.folder, name):
            self.resume_node(name)
        else:
            self.revive_node(name)

    def _check_node(self, name: str) -> None:
        """Raise ValueError for a name that is none of ours."""
        if name not in self.definition.node_names:
            raise ValueError(f"cluster {self.name} has no node {name}")

    def _placement(self, first_port: int) -> Placement:
        """Return where the daemons run, on ports from this one on."""
        return local_placement(
            folder=str(self.folder),
            host=socket.gethostname().partition(".")[0],
            first_port=first_port,
            user=pwd.getpwuid(os.getuid()).pw_name,
            address=_own_address(),
            plugin_folders=(own_plugins(), str(self.folder / "plugins")) if self.uses_plugin else (),
        )

    def _write_files(self, first_port: int) -> None:
        """Write configuration, key, devices and empty folders."""
        placement = self._placement(first_port)
        folders = [Path(p) for p in (placement.etc, placement.run, placement.log, placement.state, placement.dev)]
        folders += [Path(placement.spool) / name for name in self.definition.node_names]
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
        if self.uses_plugin:
            # Every user's commands read PluginDir, and not every user may read a checkout.
            (self.folder / "plugins").mkdir()
            shutil.copy(_PLUGIN, self.folder / "plugins")
        self.shared.mkdir()
        # Jobs of other users write here too; the sticky bit keeps them from each other's files.
        self.shared.chmod(0o1777)
        etc = Path(placement.etc)
        (etc / "slurm.conf").write_text(render_slurm_conf(self.definition, placement, self.release))
        (etc / "gres.conf").write_text(render_gres_conf(self.definition, placement))
        (etc / "cgroup.conf").write_text(render_cgroup_conf(self.release))
        for name, text in further_files(self.definition).items():
            (etc / name).write_text(text)
        if self.definition.accounting is not None:
            slurmdbd_conf = etc / "slurmdbd.conf"
            slurmdbd_conf.touch(mode=0o600)
            slurmdbd_conf.write_text(render_slurmdbd_conf(self.definition, placement))
            local_accounting.start_sql_path(self.folder).write_text(local_accounting.start_sql(placement))
        key = etc / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        for name in all_device_names(self.definition):
            _make_device(Path(placement.dev) / name)

    def _start_munged(self) -> None:
        """Start munged; it returns once its socket is there."""
        run, log = self.folder / "run", self.folder / "log"
        self._launch(
            {
                "munged": (
                    "munged",
                    "--force",
                    f"--key-file={self.folder / 'etc' / 'munge.key'}",
                    f"--socket={run / 'munge.sock'}",
                    f"--pid-file={run / 'munged.pid'}",
                    f"--seed-file={run / 'munge.seed'}",
                    f"--log-file={log / 'munged.log'}",
                )
            }
        )

    def _start_accounting(self, patience: Patience) -> None:
        """Start MariaDB and slurmdbd, and fill it with what the definition says."""
        placement = self._placement(registry.read(self.name).first_port)
        made = subprocess.run(
            local_accounting.install_command(self.folder, placement.slurm_user),
            env={"PATH": _path()},
            capture_output=True,
            text=True,
            check=False,
            timeout=_DATABASE_TIMEOUT_S * slowness(),
        )
        if made.returncode:
            raise ClusterError(f"mariadb-install-db ended with status {made.returncode}: {made.stderr.strip()}")
        self._launch({"mariadbd": local_accounting.start_command(self.folder, placement)})
        self._await_command(local_accounting.ping_command(placement), "MariaDB", patience)
        self._launch({"slurmdbd": ("slurmdbd",)})
        self._await_command(("sacctmgr", "-n", "list", "cluster"), "slurmdbd", patience)
        for call in sacctmgr_commands(self.definition):
            self.run("sacctmgr", *call)

    def _await_command(self, argv: tuple[str, ...], what: str, patience: Patience) -> None:
        """Wait until the command succeeds."""
        while self.run(*argv, check=False).returncode:
            self._check_start(what, patience)
            time.sleep(_PAUSE_S)

    def _launch(self, daemons: Mapping[str, Collection[str]]) -> None:
        """Start daemons side by side and wait until each has gone into the background. ClusterError if one did not."""
        started = {}
        for name, command in daemons.items():
            env = {
                "PATH": _path(),
                "SLURM_CONF": str(self.slurm_conf),
                processes.FOLDER_VARIABLE: str(self.folder),
                processes.DAEMON_VARIABLE: name,
            }
            with (self.folder / "log" / f"{name}.out").open("ab") as out:
                started[name] = subprocess.Popen(
                    tuple(command), env=env, cwd="/", stdin=subprocess.DEVNULL, stdout=out, stderr=out
                )
        failed = []
        for name, process in started.items():
            try:
                status = process.wait(HANG_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                status = -9
            if status:
                failed.append(name)
        if failed:
            raise ClusterError(f"{', '.join(failed)} did not start: {self._complaint()}")

    def _await_ping(self, patience: Patience) -> None:
        """Wait until slurmctld answers."""
        while not self.is_answering():
            self._check_start("slurmctld", patience)
            time.sleep(_PAUSE_S)

    def _await_nodes(self, patience: Patience) -> None:
        """Wait until all nodes are idle."""
        wanted = dict.fromkeys(self.definition.node_names, "idle")
        while (states := self.node_states()) != wanted:
            late = sorted(name for name in wanted if states.get(name) != "idle")
            self._check_start(f"node {late[0] if late else ''} ({states.get(late[0]) if late else ''})", patience)
            time.sleep(_PAUSE_S)

    def _check_start(self, what: str, patience: Patience) -> None:
        """Raise ClusterError if the start cannot succeed any more: a daemon wrote `fatal:`, or time is up."""
        if self._fatal_lines():
            raise ClusterError(f"cluster {self.name} did not start: {self._complaint()}")
        if patience.is_over():
            raise ClusterError(f"cluster {self.name} did not start in time: {what} is not ready; {self._complaint()}")

    def _fatal_lines(self) -> list[str]:
        """Return the `fatal:` lines of all logs."""
        logs = sorted((self.folder / "log").iterdir())
        return [line for log in logs for line in log.read_text(errors="replace").splitlines() if "fatal:" in line]

    def _complaint(self) -> str:
        """Return what the logs say was wrong: fatal lines, and the last lines of error, which say why."""
        fatal = dict.fromkeys(line[line.index("fatal:") :] for line in self._fatal_lines())
        logs = sorted((self.folder / "log").iterdir())
        errors = [line for log in logs for line in log.read_text(errors="replace").splitlines() if "rror:" in line]
        return "; ".join([*fatal, *errors[-3:]]) or "its logs name no error"

    def _remove(self) -> None:
        """End every process and remove the folder."""
        try:
            processes.end_processes(self.folder)
        except TimeoutError as error:
            raise ClusterError(str(error)) from error
        shutil.rmtree(self.folder)


def require_slurm(*, accounting: bool = False) -> None:
    """Raise ClusterError, which says how to install it, if a program that a cluster needs is missing."""
    needed = (*_PROGRAMS, *local_accounting.PROGRAMS) if accounting else _PROGRAMS
    missing = [program for program in needed if shutil.which(program, path=_path()) is None]
    if missing:
        raise ClusterError(f"not installed: {', '.join(missing)}. Run {_INSTALL_SCRIPT} as root (Debian).")


def plugin_is_built() -> bool:
    """Return whether `make plugin` has been run."""
    return _PLUGIN.exists()


def installed_release() -> tuple[int, int]:
    """Return the release of this host's Slurm, (22, 5) for 22.05."""
    command = ("slurmctld", "-V")
    said = subprocess.run(
        command, env={"PATH": _path()}, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=True
    )
    return parse_release(said.stdout)


def own_plugins() -> str:
    """Return the folder of Slurm's own plugins. ClusterError if it is not in one of its usual places."""
    for pattern in ("usr/lib/*/slurm-wlm", "usr/lib64/slurm", "usr/lib/slurm", "usr/local/lib/slurm"):
        for folder in Path("/").glob(pattern):
            if (folder / "preempt_partition_prio.so").exists():
                return str(folder)
    raise ClusterError("no folder below /usr has Slurm's plugins")


def _own_address() -> str:
    """Return the address that this host's name resolves to: loopback on some hosts, a network's on others.

    It is where Slurm's daemons listen when they are to listen at one address only. ClusterError if there is none.
    """
    name = socket.gethostname()
    try:
        return socket.gethostbyname(name)
    except OSError as error:
        raise ClusterError(
            f"this host's name, {name}, has no address; add a line '127.0.0.1 {name}' to /etc/hosts"
        ) from error


def _path() -> str:
    """Return PATH with the folders where daemons stand."""
    given = os.environ.get("PATH", "/usr/bin:/bin").split(":")
    return ":".join([*given, *(folder for folder in _SBIN if folder not in given)])


def _make_device(path: Path) -> None:
    """Make a stand-in for a GPU: a clone of /dev/null.

    Without the right to make devices it is a plain file: Slurm schedules it too, but a job then sees no
    CUDA_VISIBLE_DEVICES.
    """
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    except PermissionError:
        path.touch()
    path.chmod(0o666)
