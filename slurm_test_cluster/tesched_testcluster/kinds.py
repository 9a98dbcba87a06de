"""The kinds of job that people submit: plain scripts, and the clients that write scripts for them.

One list for `tests/cluster/test_ordinary_jobs.py`, `tests/cluster/test_real_clients.py` and `benchmarks/clients.py`;
`kinds_stage.py` runs it on a cluster. Each is as its users write it: nothing in it knows tesched but where it says so.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal


class Ending(StrEnum):
    """Endings of a job on a cluster where resources had to be freed."""

    RESUMED = "preempted, went on where it had saved, ended once"
    AGAIN = "preempted, ran again from its start, ended once"
    KEPT = "never preempted: it runs on"
    UNTOUCHED = "ran once, to its end"
    UNFINISHED = "COMPLETED, and its work is not done"
    TWICE = "ended twice"
    LOST = "lost"
    STUCK = "has not ended"
    OTHER = "did something else"


#: the endings of which nothing more will come
DONE = frozenset({Ending.RESUMED, Ending.AGAIN, Ending.UNTOUCHED})
_ALIVE = frozenset({"PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "SUSPENDED", "REQUEUED", "REQUEUE_HOLD"})


def judge(events: Sequence[str], state: str, restarts: int, ends: Sequence[str] = ("COMPLETED",)) -> Ending:
    """Return what became of a job that has written these events and that Slurm shows in this state.

    `ends` are the states in which a job of its kind ends well.
    """
    words = [word for word in events if word != "saved"]
    if state in _ALIVE:
        return Ending.KEPT if state == "RUNNING" and not restarts and "done" not in words else Ending.STUCK
    if state not in ends:
        return Ending.LOST
    if words.count("done") > 1:
        return Ending.TWICE
    if "done" not in words:
        return Ending.UNFINISHED
    known = {
        ("begun", "resumed", "done"): Ending.RESUMED,
        ("begun", "begun", "done"): Ending.AGAIN,
        ("begun", "done"): Ending.UNTOUCHED,
    }
    return known.get(tuple(words), Ending.OTHER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of job. A job writes what it does, a word a line, into `PART.events`."""

    name: str
    #: for people
    row: str
    #: each job of it by the name of its events, and what must become of it
    parts: Mapping[str, Ending]
    #: how it is submitted: `script` by sbatch, `argv` by its client's program, or what salloc or srun --pty are given
    how: Literal["batch", "client", "salloc", "pty"] = "batch"
    script: str = ""
    argv: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    #: in what `tesched explain` says of its first job
    explained: str = ""
    #: needs torch and what goes with it (`make test-clients`)
    torch: bool = False
    #: in which states it ends well
    ends: tuple[str, ...] = ("COMPLETED",)
    #: before Slurm 26.05, if that differs: Slurm's own preemption does so there
    parts_before_26: Mapping[str, Ending] = field(default_factory=dict)

    @property
    def declares(self) -> bool:
        """Return whether its jobs declare a signal, by an option or their comment."""
        return "signal=" in self.script or any("signal=" in word for word in (*self.options, *self.argv))

    def wanted(self, release: tuple[int, int]) -> Mapping[str, Ending]:
        """Return what must become of its jobs on this release of Slurm."""
        return self.parts_before_26 if self.parts_before_26 and release < (26, 5) else self.parts


def batch(
    name: str,
    row: str,
    script: str,
    ending: Ending = Ending.RESUMED,
    *,
    options: tuple[str, ...] = (),
    explained: str = "",
    torch: bool = False,
    before_26: Ending | None = None,
) -> Kind:
    """Return a kind that is one batch script, given without its first line."""
    return Kind(
        name=name,
        row=row,
        script="#!/bin/bash\n" + textwrap.dedent(script).strip() + "\n",
        parts={name: ending},
        parts_before_26={name: before_26} if before_26 else {},
        options=options,
        explained=explained,
        torch=torch,
    )


#: a script that traps {signal}, and notifies its worker by USR1
WAITS = """
    trap 'kill -USR1 $worker; wait $worker; exit 99' {signal}
    python3 work.py {name} USR1 0 &
    worker=$!
    wait $worker
"""

#: batch scripts of jobs that are requeued
SCRIPTS = (
    batch(
        "plain",
        "batch script with `python work.py`, no trap: the commonest there is",
        "python3 work.py plain '' 0",
        Ending.AGAIN,
        explained="requeued without a signal",
    ),
    batch(
        "exec",
        "`--signal=B:USR1@60`, `exec python` that handles USR1 and exits 99 (RequeueExit)",
        "#SBATCH --signal=B:USR1@60\nexec python3 work.py exec USR1 99",
        explained="SIGUSR1 to its batch shell, from its script's --signal",
    ),
    # bash runs a trap only when the program in the foreground has ended.
    batch(
        "foreground",
        "`--signal=B:USR1@4`, bash traps USR1, python in the foreground: the trap cannot run",
        "#SBATCH --signal=B:USR1@4\ntrap 'touch trapped; exit 99' USR1\npython3 work.py foreground '' 0",
        Ending.AGAIN,
        explained="it stayed until it was requeued",
    ),
    batch(
        "waits",
        "`--signal=B:USR1`, bash traps USR1, python in the background, `wait`",
        "#SBATCH --signal=B:USR1\n" + WAITS.format(signal="USR1", name="waits"),
    ),
    batch(
        "usr2",
        "`--signal=B:USR2@60`, bash traps USR2",
        "#SBATCH --signal=B:USR2@60\n" + WAITS.format(signal="USR2", name="usr2"),
    ),
    batch(
        "comment",
        "the same, and `--comment=signal=USR2`",
        "#SBATCH --signal=B:USR2@60\n" + WAITS.format(signal="USR2", name="comment"),
        options=("--comment=signal=USR2",),
        explained="SIGUSR2 to its batch shell, from the job's comment",
    ),
    batch(
        "step",
        "`--signal=USR1@60`, `srun python` that handles USR1, one task",
        "#SBATCH --signal=USR1@60\nsrun -n 1 python3 work.py step USR1 99",
        explained="SIGUSR1 to its steps, from its script's --signal",
    ),
    batch("steps", "the same with four tasks", "#SBATCH --signal=USR1@60\nsrun -n 4 python3 work.py steps USR1 99"),
    batch(
        "forwards",
        "`--signal=B:USR1@60`, `exec srun -n 4 python`: srun forwards it",
        "#SBATCH --signal=B:USR1@60\nexec srun -n 4 python3 work.py forwards USR1 99",
    ),
    batch(
        "term",
        "`--signal=TERM@60`, `srun python` that handles TERM",
        "#SBATCH --signal=TERM@60\nsrun -n 1 python3 work.py term TERM 99",
    ),
    # Declared, and not trapped: Slurm calls it FAILED, and a job that waits for its success would wait for ever.
    batch(
        "dies",
        "`--signal=B:USR1@60` and no trap: it dies of its signal",
        "#SBATCH --signal=B:USR1@60\npython3 work.py dies '' 0",
        Ending.AGAIN,
        explained="died of the signal; it was put back in the queue",
    ),
    batch(
        "again",
        "exits 0 once it has saved, and says `--comment=exit0=again`",
        "#SBATCH --signal=B:USR1@60\nexec python3 work.py again USR1 0",
        options=("--comment=exit0=again",),
        explained="which for it means that it has saved its work",
    ),
    batch(
        "finished",
        "exits 0 once it has its signal, and says `--comment=exit0=finished`",
        "#SBATCH --signal=B:USR1@60\nexec python3 work.py finished USR1 0",
        Ending.UNFINISHED,
        options=("--comment=exit0=finished",),
        explained="finished; it does not run again",
    ),
    # Without a signal of tesched's own it has Slurm's SIGTERM, and KillWait to save.
    batch(
        "sigterm",
        "declares nothing, handles SIGTERM and exits 0",
        "exec python3 work.py sigterm TERM 0",
    ),
)

#: those that may not be requeued, so they are never notified
NEVER = (
    Kind(
        name="kept",
        row="`--no-requeue`",
        script="#!/bin/bash\npython3 work.py kept '' 0\n",
        options=("--no-requeue",),
        parts={"kept": Ending.KEPT},
    ),
    Kind(name="salloc", row="`salloc`", how="salloc", parts={"salloc": Ending.KEPT}),
    Kind(
        name="pty",
        row="`srun --pty`",
        how="pty",
        argv=("python3", "work.py", "pty", "", "0"),
        parts={"pty": Ending.KEPT},
    ),
)

# Of four tasks two run at a time, and these two are preempted.
ARRAY = Kind(
    name="array",
    row="array of four, two at a time (`%2`), no trap",
    script="#!/bin/bash\n((SLURM_ARRAY_TASK_ID < 2)) || touch array-$SLURM_ARRAY_TASK_ID.stop\n"
    "python3 work.py array-$SLURM_ARRAY_TASK_ID '' 0\n",
    options=("--array=0-3%2",),
    parts={
        "array-0": Ending.AGAIN,
        "array-1": Ending.AGAIN,
        "array-2": Ending.UNTOUCHED,
        "array-3": Ending.UNTOUCHED,
    },
)

#: clients that need nothing but themselves
CLIENTS = (
    Kind(
        name="submitit",
        row="submitit, a job and an array of two, unchanged (its script has `--signal=USR2@90`)",
        how="client",
        argv=("submitit_jobs.py", "submitit", "0.1"),
        parts=dict.fromkeys(("submitit-alone", "submitit-one", "submitit-two"), Ending.RESUMED),
        explained="SIGUSR2 to its steps, from its script's --signal",
    ),
    Kind(
        name="submitit-comment",
        row="the same with the comment `signal=USR2`",
        how="client",
        argv=("submitit_jobs.py", "comment", "0.1", "signal=USR2"),
        parts=dict.fromkeys(("comment-alone", "comment-one", "comment-two"), Ending.RESUMED),
        explained="SIGUSR2 to its steps, from the job's comment",
    ),
    # dask ends the worker, by scancel, once it has the result; or when it has been away for 15 s, here for an hour.
    Kind(
        name="dask",
        row="dask-jobqueue that keeps one worker (`adapt`): the worker is requeued, the sum is right",
        how="client",
        argv=("dask_jobs.py", "dask"),
        parts={"dask": Ending.AGAIN},
        explained="requeued without a signal",
        ends=("COMPLETED", "CANCELLED"),
    ),
)

_ENVIRONMENT = "source ./activate\n"
_TRAIN = _ENVIRONMENT + "{run} python transformers_train.py {name} {status}"

#: clients that need torch
TORCH = (
    batch(
        "lightning",
        "Lightning, its recipe (`--signal=SIGUSR1@90`, `srun python`)",
        "#SBATCH --ntasks-per-node=1\n#SBATCH --signal=SIGUSR1@90\n"
        + _ENVIRONMENT
        + "srun python lightning_train.py lightning",
        explained="SIGUSR1 to its steps, from its script's --signal",
        torch=True,
    ),
    batch(
        "lightning-exec",
        "Lightning, `exec python` (`--signal=B:SIGUSR1@90`)",
        "#SBATCH --ntasks-per-node=1\n#SBATCH --signal=B:SIGUSR1@90\n"
        + _ENVIRONMENT
        + "exec python lightning_train.py lightning-exec",
        explained="SIGUSR1 to its batch shell, from its script's --signal",
        torch=True,
    ),
    batch(
        "jit",
        "Transformers, enable_jit_checkpoint (`--signal=TERM@90`, `srun python`), exits 99 if its training is not done",
        "#SBATCH --signal=TERM@90\n" + _TRAIN.format(run="srun", name="jit", status=99),
        explained="SIGTERM to its steps, from its script's --signal",
        torch=True,
    ),
    batch(
        "jit-comment",
        'the same with `--comment="signal=TERM grace=20"`',
        "#SBATCH --signal=TERM@90\n" + _TRAIN.format(run="srun", name="jit-comment", status=99),
        options=("--comment=signal=TERM grace=20",),
        explained="SIGTERM to its steps, from the job's comment",
        torch=True,
    ),
    batch(
        "jit-again",
        "the same, `exec python`, exits 0 as the Trainer does by itself, `--comment=exit0=again`",
        "#SBATCH --signal=B:TERM@90\n" + _TRAIN.format(run="exec", name="jit-again", status=0),
        options=("--comment=exit0=again",),
        explained="which for it means that it has saved its work",
        torch=True,
    ),
    batch(
        "jit-exit0",
        "the same without that word: as after Slurm's own preemption",
        "#SBATCH --signal=B:TERM@90\n" + _TRAIN.format(run="exec", name="jit-exit0", status=0),
        before_26=Ending.UNFINISHED,
        torch=True,
    ),
    batch(
        "jit-undeclared",
        "the same without `--signal` either: it has Slurm's SIGTERM and KillWait",
        _TRAIN.format(run="exec", name="jit-undeclared", status=0),
        explained="requeued without a signal",
        torch=True,
    ),
)

#: all of them, in the order of the table
KINDS = (*SCRIPTS, *NEVER, *CLIENTS, *TORCH, ARRAY)
