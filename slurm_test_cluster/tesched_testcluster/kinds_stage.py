"""Jobs of every kind (`kinds.py`) on a cluster, each on a node of its own, and trial-and-error jobs for these nodes.

Enter KindsOnStage, `await_begun`, start a daemon, `preempt`, `await_end`, and read the `outcomes`.
"""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from tesched_testcluster.cluster import ClusterError, WaitTimeoutError
from tesched_testcluster.docker_image import REPOSITORY
from tesched_testcluster.kinds import DONE, Ending, Kind, judge
from tesched_testcluster.local import LocalCluster
from tesched_testcluster.patience import Patience

_SCRIPTS = Path(__file__).with_name("client_scripts")
_ALONE = ("-N1", "--exclusive", "--mem=100")
#: seconds that an end which is meant to be bad must last; one that is not meant lasts until a victim that died must
#: have been put back in the queue (`patience.py`)
_LASTS_S = 20.0
#: dask gives a worker up that is away for 15 s by its clock, in which a busy machine may not have started it again
_PATIENT = {"DASK_DISTRIBUTED__DEPLOY__LOST_WORKER_TIMEOUT": "1h"}
#: imports of six trainings, on two cores
_BEGIN_S = 180.0


def torch_bin() -> Path | None:
    """Return the folder of the `python` that has torch and what goes with it; None where it is not installed."""
    folder = Path(os.environ.get("TESCHED_CLIENTS_BIN", REPOSITORY / ".clients" / "bin"))
    return folder if (folder / "python").exists() else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Result of one kind."""

    kind: Kind
    wanted: dict[str, Ending]
    happened: dict[str, Ending]
    #: what is not as it must be; empty: all is
    wrong: str


@dataclass(kw_only=True)
class _Submitted:
    """The jobs of one kind, in the order of its parts."""

    kind: Kind
    jobs: list[str] = field(default_factory=list)
    process: subprocess.Popen[bytes] | None = None
    trials: list[int] = field(default_factory=list)


class KindsOnStage:
    """Jobs of these kinds on an idle cluster, which needs a node for each and two more. Leave it to end them."""

    def __init__(self, cluster: LocalCluster, kinds: Sequence[Kind], python: Path | None = None) -> None:
        """Make ready. `python` is `torch_bin()`, for kinds that need it."""
        self.cluster = cluster
        self.folder = cluster.shared
        self._python = python
        self._staged = [_Submitted(kind=kind) for kind in kinds]
        #: how each job stands, and since when
        self._since: dict[str, tuple[Ending, Patience]] = {}
        #: our end of srun's terminal
        self._terminal: int | None = None

    def __enter__(self) -> Self:
        """Submit them."""
        for script in _SCRIPTS.iterdir():
            if script.is_file():
                shutil.copy(script, self.folder)
        (self.folder / "activate").write_text(f'export PATH="{self._python}:$PATH"\n')
        try:
            for staged in self._staged:
                self._submit(staged)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End what still runs."""
        self._end()

    def jobs(self, name: str) -> list[str]:
        """Return the job ids of a kind."""
        return next(staged.jobs for staged in self._staged if staged.kind.name == name)

    def trials(self, name: str) -> list[int]:
        """Return the trial-and-error jobs that ask for its nodes."""
        return next(staged.trials for staged in self._staged if staged.kind.name == name)

    def await_begun(self) -> None:
        """Wait until each job works; WaitTimeoutError names one that does not."""
        for staged in self._staged:
            if staged.kind.how == "client":
                self.cluster.wait_for(
                    lambda staged=staged: self._clients_jobs(staged),  # type: ignore[misc]
                    f"{staged.kind.name} to submit",
                    timeout_s=_BEGIN_S,
                )
            for part, job in zip(staged.kind.parts, staged.jobs, strict=True):
                if staged.kind.how == "salloc" or staged.kind.parts[part] is Ending.UNTOUCHED:
                    continue
                self.cluster.wait_for(
                    lambda part=part: self.events(part),  # type: ignore[misc]
                    f"{part}, job {job}, to begin",
                    timeout_s=_BEGIN_S,
                )

    def preempt(self, *options: str) -> None:
        """Submit a trial-and-error job, with these options besides, for the node of each job that runs."""
        for staged in self._staged:
            for job in staged.jobs:
                shown = self.cluster.job(job)
                if shown["JobState"] == "RUNNING":
                    where = f"--nodelist={shown['NodeList']}"
                    staged.trials.append(
                        self.cluster.sbatch("--job-name=te", *_ALONE, where, *options, wrap="sleep 0.5")
                    )

    def await_end(self, timeout_s: float = 300) -> None:
        """Wait until each has ended, but for those never notified; gives up on what has not, see `outcomes`."""
        with suppress(WaitTimeoutError):
            self.cluster.wait_for(
                lambda: all(map(self._settled, self._staged)), "every job to end", timeout_s=timeout_s
            )

    def outcomes(self, explain: Callable[[str], str]) -> list[Outcome]:
        """Return what became of each kind; `explain` gives what `tesched explain` says of a job."""
        return [self._outcome(staged, explain) for staged in self._staged]

    def events(self, part: str) -> list[str]:
        """Return what a job has written so far."""
        log = self.folder / f"{part}.events"
        return log.read_text().split() if log.exists() else []

    def _submit(self, staged: _Submitted) -> None:
        kind = staged.kind
        options = (*_ALONE, f"--chdir={self.folder}", f"--job-name=be-{kind.name}")
        if kind.how == "batch":
            script = self.folder / f"{kind.name}.sh"
            script.write_text(kind.script)
            job = self.cluster.sbatch(*options, *kind.options, script=script)
            staged.jobs = [str(job)] if len(kind.parts) == 1 else [f"{job}_{task}" for task in range(len(kind.parts))]
        elif kind.how == "client":
            with self._said(kind).open("w") as said, (self.folder / f"{kind.name}.stderr").open("w") as errors:
                staged.process = subprocess.Popen(
                    [sys.executable, *kind.argv],
                    cwd=self.folder,
                    env=self.cluster.env | _PATIENT,
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=errors,
                )
        elif kind.how == "salloc":
            answer = self.cluster.run("salloc", *options, "--no-shell").stderr
            staged.jobs = [next(word for word in answer.split() if word.isdecimal())]
        else:
            self._terminal, other_end = pty.openpty()
            staged.process = subprocess.Popen(
                ["srun", *options, "--pty", *kind.argv],
                cwd=self.folder,
                env=self.cluster.env,
                stdin=other_end,
                stdout=other_end,
                stderr=other_end,
            )
            os.close(other_end)
            staged.jobs = self.cluster.wait_for(lambda: self._named(f"be-{kind.name}"), "srun's job")

    def _named(self, name: str) -> list[str]:
        """Return the ids of the jobs of this name."""
        return self.cluster.run("squeue", "-h", "-o%A", f"--name={name}").stdout.split()

    def _clients_jobs(self, staged: _Submitted) -> list[str]:
        """Return the ids that a client's first line names; ClusterError if it has ended without one."""
        line, whole, _ = self._said(staged.kind).read_text().partition("\n")
        if whole:
            staged.jobs = line.split()
        elif staged.process is not None and (status := staged.process.poll()) is not None:
            errors = (self.folder / f"{staged.kind.name}.stderr").read_text()
            raise ClusterError(f"{' '.join(staged.kind.argv)} ended with status {status}: {errors[-2000:]}")
        return staged.jobs

    def _said(self, kind: Kind) -> Path:
        """Return where a client's program writes what it says."""
        return self.folder / f"{kind.name}.stdout"

    def _happened(self, staged: _Submitted) -> dict[str, Ending]:
        happened = {}
        for part, job in zip(staged.kind.parts, staged.jobs, strict=True):
            # slurmctld forgets a job some minutes after its end.
            if self._is_final(staged.kind, part):
                happened[part] = self._since[part][0]
                continue
            shown = self.cluster.job(job)
            restarts = int(shown.get("Restarts", "0"))
            happened[part] = judge(self.events(part), shown["JobState"], restarts, staged.kind.ends)
        return happened

    def _settled(self, staged: _Submitted) -> bool:
        """Return whether nothing more will come of it."""
        if all(ending is Ending.KEPT for ending in staged.kind.parts.values()):
            return True
        for part, ending in self._happened(staged).items():
            if part not in self._since or self._since[part][0] is not ending:
                self._since[part] = ending, Patience()
        if not all(self._is_final(staged.kind, part) for part in staged.kind.parts):
            return False
        return staged.process is None or staged.process.poll() is not None

    def _is_final(self, kind: Kind, part: str) -> bool:
        """Return whether nothing more will come of a job, by how it stood when it was seen last."""
        if part not in self._since or self._since[part][0] in {Ending.STUCK, Ending.KEPT}:
            return False
        ending, patience = self._since[part]
        if ending in DONE:
            return True
        return patience.waited_s > _LASTS_S if ending is kind.wanted(self.cluster.release)[part] else patience.is_over()

    def _outcome(self, staged: _Submitted, explain: Callable[[str], str]) -> Outcome:
        kind = staged.kind
        wanted = dict(kind.wanted(self.cluster.release))
        happened = self._happened(staged)
        wrong = [
            f"{part}: {ending} ({', '.join(self.events(part))})"
            for part, ending in happened.items()
            if ending is not wanted[part]
        ]
        if kind.how == "client" and staged.process is not None and (status := staged.process.poll()) != 0:
            wrong.append(f"its client says that the result is wrong (status {status})" if status else "it still waits")
        if kind.explained and kind.explained not in (said := explain(staged.jobs[0])):
            wrong.append(f"explain does not say {kind.explained!r}, but {said!r}")
        return Outcome(kind=kind, wanted=wanted, happened=happened, wrong="; ".join(wrong))

    def _end(self) -> None:
        for staged in self._staged:
            if staged.kind.how in {"salloc", "pty"} and staged.jobs:
                self.cluster.run("scancel", *staged.jobs, check=False)
            if staged.process is not None:
                staged.process.kill()
                staged.process.wait()
        if self._terminal is not None:
            os.close(self._terminal)
            self._terminal = None
