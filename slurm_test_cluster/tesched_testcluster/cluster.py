"""Operations on a running test cluster, however it was started: submit, query, wait, cancel, drain.

Everything goes through Slurm's own commands, each with a time-out. A subclass says how a command is run.
"""

from __future__ import annotations

import re
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from tesched_testcluster.definition import ClusterDefinition
from tesched_testcluster.patience import Patience, slowness

T = TypeVar("T")

#: seconds that one Slurm command may take on an idle machine
COMMAND_TIMEOUT_S = 60.0

#: seconds between two queries of what is awaited
_PAUSE_S = 0.05

#: words of a node's state that keep jobs off it
_BROKEN = {"DOWN", "DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "INVAL", "UNKNOWN", "NOT_RESPONDING"}


class ClusterError(Exception):
    """The test cluster, or a command to it, failed; the message says what Slurm said."""


class WaitTimeoutError(ClusterError):
    """Timeout of a wait; the message says what was seen last."""


class Cluster(ABC):
    """A running test cluster."""

    definition: ClusterDefinition

    @abstractmethod
    def execute(self, *args: str, timeout_s: float, user: str | None) -> subprocess.CompletedProcess[str]:
        """Run a command where Slurm's clients reach this cluster, in a folder that jobs can write to.

        With `user` it runs as that user. subprocess.TimeoutExpired if it takes longer than `timeout_s`.
        """

    def run(
        self, *args: str, timeout_s: float = COMMAND_TIMEOUT_S, user: str | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run a Slurm command (`run("scontrol", "ping")`). ClusterError if it fails (unless not `check`) or hangs."""
        try:
            done = self.execute(*args, timeout_s=timeout_s * slowness(), user=user)
        except subprocess.TimeoutExpired as error:
            raise ClusterError(f"{' '.join(args)} took longer than {timeout_s} s") from error
        if check and done.returncode:
            said = (done.stderr or done.stdout).strip()
            raise ClusterError(f"{' '.join(args)} ended with status {done.returncode}: {said}")
        return done

    def sbatch(
        self,
        *options: str,
        wrap: str | None = None,
        script: Path | None = None,
        arguments: Collection[str] = (),
        user: str | None = None,
    ) -> int:
        """Submit a batch job and return its id. Exactly one of `wrap` (a shell command) and `script` is given."""
        if (wrap is None) == (script is None):
            raise ValueError("sbatch takes either wrap or script")
        what = [f"--wrap={wrap}"] if script is None else [str(script), *arguments]
        said = self.run("sbatch", "--parsable", *options, *what, user=user).stdout
        return int(said.strip().partition(";")[0])

    def job(self, job_id: int | str) -> dict[str, str]:
        """Return what `scontrol show job` says of a job (an array's first record). ClusterError if it is unknown."""
        return self.jobs(job_id)[0]

    def jobs(self, job_id: int | str | None = None) -> list[dict[str, str]]:
        """Return what `scontrol show job` says of all jobs, or of each record of one."""
        which = [] if job_id is None else [str(job_id)]
        said = self.run("scontrol", "-o", "-d", "show", "job", *which).stdout
        return [fields for line in said.splitlines() if "JobId" in (fields := parse_fields(line))]

    def state(self, job_id: int | str) -> str:
        """Return a job's state, such as PENDING, RUNNING, COMPLETING or COMPLETED."""
        return self.job(job_id)["JobState"]

    def is_eligible(self, job_id: int | str) -> bool:
        """Return whether a job waits for nodes alone: Slurm holds a requeued one back for some seconds."""
        at = self.job(job_id)["EligibleTime"]
        return at != "Unknown" and datetime.fromisoformat(at) < datetime.now()  # noqa: DTZ005 - Slurm's is local, too

    def put_back(self, among: Collection[int] | None = None) -> list[int]:
        """Return the ids of the jobs that were put back in the queue, each as often as it was.

        Of all jobs that Slurm knows, which are those of earlier tests, too; or of these.
        """
        # Numbers alone: a line of `scontrol -o` may be one that a job's name or comment has forged.
        said = self.run("squeue", "-h", "-a", "-t", "all", "-O", "JobID:20,RestartCnt:20").stdout
        known = [tuple(map(int, line.split())) for line in said.splitlines()]
        return [job_id for job_id, times in known if among is None or job_id in among for _ in range(times)]

    def node(self, name: str) -> dict[str, str]:
        """Return what `scontrol show node` says of a node."""
        return parse_fields(self.run("scontrol", "-o", "-d", "show", "node", name).stdout)

    def node_states(self) -> dict[str, str]:
        """Return each node's state, in sinfo's long words: idle, mixed, allocated, drained, down* and so on."""
        said = self.run("sinfo", "-h", "-N", "-o", "%N %T").stdout
        return dict(line.split() for line in said.splitlines())

    def wait_for(self, query: Callable[[], T], what: str, *, timeout_s: float | None = None) -> T:
        """Call `query` until its value is true, and return that value.

        WaitTimeoutError says `what` did not come, and how the jobs and nodes are that did not let it.
        Without `timeout_s` the wait is as long as what must come may take on any machine; otherwise so many seconds of
        an idle one (`patience.py`).
        """
        patience = Patience(timeout_s)
        while True:
            seen = query()
            if seen:
                return seen
            if patience.is_over():
                waited = f"waited {patience.waited_s:.0f} s for {what}; seen last: {seen!r}"
                raise WaitTimeoutError(f"{waited}\n{self._as_it_is()}")
            time.sleep(_PAUSE_S)

    def _as_it_is(self) -> str:
        """Return the jobs that have not ended and those that have lately, and the nodes, a line each; or why not."""
        # No column that a user types: a line could be forged.
        columns = "JobID:10,State:12,Reason:20,Priority:12,RestartCnt:4,EligibleTime:21,StartTime:21,NodeList:30"
        try:
            jobs = self.run("squeue", "-h", "-a", "-t", "all", "-O", columns).stdout
            nodes = self.run("sinfo", "-h", "-N", "-o", "%N %T %C").stdout
        except (ClusterError, OSError) as error:
            return f"the queue cannot be read: {error}"
        return f"jobs ({columns}):\n{jobs}nodes:\n{nodes}"

    def wait_state(self, job_id: int | str, *states: str, timeout_s: float | None = None) -> dict[str, str]:
        """Wait until the job is in one of `states`, and return its fields. WaitTimeoutError quotes its last state."""
        patience = Patience(timeout_s)
        while True:
            # On a busy machine a command in a container has come back without a word, and with status 0.
            fields = next(iter(self.jobs(job_id)), {})
            if fields.get("JobState") in states:
                return fields
            if patience.is_over():
                seen = " ".join(f"{name}={fields.get(name)}" for name in ("JobState", "Reason", "Restarts", "ExitCode"))
                raise WaitTimeoutError(
                    f"waited {patience.waited_s:.0f} s for job {job_id} to be {' or '.join(states)}; it is {seen}"
                )
            time.sleep(_PAUSE_S)

    def cancel_all(self, *, timeout_s: float | None = None) -> None:
        """Cancel every job and wait until none is left in the queue, not even a completing one."""

        def empty() -> bool:
            left = set(self.run("squeue", "-h", "-o", "%T").stdout.split())
            # Pending ones first: they would start as soon as resources are free.
            for state in ("PENDING", "RUNNING", "SUSPENDED"):
                if left - {"COMPLETING"}:
                    self.run("scancel", f"--state={state}", check=False)
            if not left:
                return True
            self._end_job_processes()
            return False

        self.wait_for(empty, "the queue to be empty", timeout_s=timeout_s)

    @abstractmethod
    def _end_job_processes(self) -> None:
        """Kill the processes of cancelled jobs. Where they cannot be reached, do nothing: Slurm does it after KillWait.

        Slurm has no command for it: `scancel --signal=KILL` too gives TERM first and then waits.
        """

    def reset(self) -> None:
        """Put a used cluster back: no jobs, no reservations, every node and partition up. Finished jobs stay known."""
        self.cancel_all()
        for fields in map(parse_fields, self.run("scontrol", "-o", "show", "reservation").stdout.splitlines()):
            if "ReservationName" in fields:
                self.run("scontrol", "delete", f"reservationname={fields['ReservationName']}")
        for partition in self.definition.partitions:
            self.run("scontrol", "update", f"partitionname={partition.name}", "state=up")
        for name, state in self.node_states().items():
            if state != "idle":
                self._reset_node(name)
        self.wait_idle()

    def _reset_node(self, name: str) -> None:
        """Make a node that is not idle usable again."""
        self.resume_node(name)

    def wait_idle(self, *, timeout_s: float | None = None) -> None:
        """Wait until every node is idle."""

        def all_idle() -> bool:
            states = self.node_states()
            return len(states) == len(self.definition.node_names) and set(states.values()) == {"idle"}

        self.wait_for(all_idle, "all nodes to be idle", timeout_s=timeout_s)

    def drain_node(self, name: str, reason: str = "test") -> None:
        """Let no further job start on a node."""
        self.run("scontrol", "update", f"nodename={name}", "state=drain", f"reason={reason}")

    def resume_node(self, name: str) -> None:
        """Take a drained or downed node back into use, and wait until it is."""
        state = set(re.split(r"[+*~#!%$@^-]", self.node(name)["State"]))
        if state & _BROKEN:
            # Refused for a node that is neither drained nor down, which is then what we want.
            self.run("scontrol", "update", f"nodename={name}", "state=resume", check=False)
        self.wait_for(lambda: self.node_usable(name), f"node {name} to be usable")

    def node_usable(self, name: str) -> bool:
        """Return whether Slurm would start jobs on a node if it fitted."""
        state = self.node(name)["State"]
        return "*" not in state and not set(state.split("+")) & _BROKEN

    def create_reservation(
        self, name: str, *, nodes: str, users: str = "root", start: str = "now", duration: str = "60", flags: str = ""
    ) -> None:
        """Reserve `nodes` (a host list) for `users`, from `start` for `duration` (minutes or Slurm's other forms)."""
        options = [f"nodes={nodes}", f"users={users}", f"starttime={start}", f"duration={duration}"]
        if flags:
            options.append(f"flags={flags}")
        self.run("scontrol", "create", "reservation", f"reservationname={name}", *options)


def parse_fields(line: str) -> dict[str, str]:
    """Return the fields of one line of `scontrol -o show`; of a name that comes twice, the first.

    Good for the fields that tests ask for; a comment that itself contains ` Word=` is cut there.
    """
    fields: dict[str, str] = {}
    for part in re.split(r" (?=[A-Z][A-Za-z_/:]*=)", line.strip()):
        name, equals, value = part.partition("=")
        if equals:
            fields.setdefault(name, value.strip())
    return fields
