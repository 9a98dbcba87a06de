"""Runs one of Slurm's commands: bounded in time, in a fixed locale and time format, never through a shell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple

from tesched_core.model.actions import Failure, FailureKind

from tesched_slurm.answer_bytes import Answer, AnswerReader, as_text
from tesched_slurm.bounded_process import ours, run_bounded
from tesched_slurm.errors import failure

#: All that Slurm's commands are given of the daemon's environment. Each reads dozens of variables that change what it
#: does: with SCANCEL_INTERACTIVE scancel asks before each signal, for ever; with SLURM_CLUSTERS all speak to another
#: cluster. SLURM_CONF_SERVER is where a host without slurm.conf has it from; SLURM_SACK_SOCKET is where sackd listens
#: (auth/slurm, since 24.05).
ENVIRONMENT = frozenset(
    {"PATH", "LD_LIBRARY_PATH", "SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT", "SLURM_SACK_SOCKET"}
)
#: Jobs, nodes and partitions are this cluster's alone. In a federation with FederationParameters=fed_display each of
#: these commands shows all clusters' else, and squeue and scontrol read a single job in all of them without it, too:
#: with a slurmctld of another cluster that hangs, a read takes its time-out.
LOCAL = {f"{command}_LOCAL": "1" for command in ("SQUEUE", "SCONTROL", "SINFO", "SPRIO", "SACCT")}
#: Bytes of the largest answer. An ordinary job has 1.1 kB in scontrol's and 0.9 kB in squeue's (22.05.8).
MOST_ANSWER = 1 << 29


class Call(NamedTuple):
    """One command among several that are run at the same time."""

    argv: Sequence[str]
    #: set in its environment
    variables: Mapping[str, str] | None = None
    #: reads its answer while it is printed; None: the answer is kept
    reader: AnswerReader | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Commands:
    """Way to run Slurm's commands."""

    #: seconds after which a call is given up; with a reader without those in which it reads
    timeout_s: float = 10.0
    #: slurm.conf; empty means the environment's, or Slurm's own search
    slurm_conf: str = ""
    #: how many RPCs slurmctld has had so far, by what they were for: "scontrol show job", "scancel", "pyslurm Do"
    calls: Counter[str] = field(default_factory=Counter, compare=False, repr=False)
    #: how many commands have got no answer from slurmctld so far, by what they were for
    unanswered: Counter[str] = field(default_factory=Counter, compare=False, repr=False)
    #: what Slurm has denied this user for good, and is not tried again; for those that try it
    denied: set[str] = field(default_factory=set, compare=False, repr=False)

    def run(
        self, argv: Sequence[str], variables: Mapping[str, str] | None = None, *, enough: int | None = None
    ) -> str | Failure:
        """Run the command: its output, or why it failed. Slurm prints times as Unix seconds.

        `variables` are set in its environment. With `enough`, only so many bytes of what it prints are wanted.
        """
        answer = self.run_bytes(argv, variables, enough=enough)
        return answer if isinstance(answer, Failure) else as_text(answer)

    def run_bytes(
        self, argv: Sequence[str], variables: Mapping[str, str] | None = None, *, enough: int | None = None
    ) -> Answer | Failure:
        """Run the command as `run` does: its output as it was printed (`answer_bytes.py`)."""
        self.calls[_kind(argv)] += rpcs(argv)
        return self._answer(argv, variables, enough)

    def run_together(self, *calls: Call) -> list[Answer] | Failure:
        """Run these commands at the same time: the outputs as they were printed, or why one of them failed.

        Of those that have readers there is no output here.
        """
        for call in calls:
            self.calls[_kind(call.argv)] += rpcs(call.argv)
        # The first one here: what its reader allocates in another thread would leave holes in that thread's heap.
        first, *others = calls
        with ThreadPoolExecutor(max(len(others), 1)) as pool:
            try:
                later = pool.map(self._read, others)
                answers = [self._read(first), *later]
            except BaseException:
                # No further thread can be started, say: a reader that waits for another's answer would wait for ever,
                # and the pool for it.
                for call in calls:
                    if call.reader is not None:
                        call.reader.end(well=False)
                pool.shutdown(cancel_futures=True)
                raise
        failures = [answer for answer in answers if isinstance(answer, Failure)]
        if failures:
            return failures[0]
        read = zip(calls, answers, strict=True)
        return [answer for call, answer in read if call.reader is None and not isinstance(answer, Failure)]

    def run_each(self, *calls: Call) -> list[Answer | Failure]:
        """Run these few commands at the same time: the output of each as it was printed, or why that one failed."""
        for call in calls:
            self.calls[_kind(call.argv)] += rpcs(call.argv)
        with ThreadPoolExecutor(max(len(calls), 1)) as pool:
            return list(pool.map(self._read, calls))

    def _read(self, call: Call) -> Answer | Failure:
        """Run one of several; its reader learns how it has ended, whatever happens."""
        if call.reader is None:
            return self._answer(call.argv, call.variables)
        well = False
        try:
            answer = self._answer(call.argv, call.variables, None, call.reader)
            well = not isinstance(answer, Failure)
        finally:
            call.reader.end(well=well)
        return answer

    def _answer(
        self,
        argv: Sequence[str],
        variables: Mapping[str, str] | None = None,
        enough: int | None = None,
        reader: AnswerReader | None = None,
    ) -> Answer | Failure:
        answer = self._run(argv, variables, enough, reader)
        if isinstance(answer, Failure) and answer.kind is FailureKind.UNREACHABLE:
            self.unanswered[_kind(argv)] += 1
        return answer

    def _run(
        self,
        argv: Sequence[str],
        variables: Mapping[str, str] | None,
        enough: int | None,
        reader: AnswerReader | None,
    ) -> Answer | Failure:
        environment = {
            **ours(ENVIRONMENT),
            **LOCAL,
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            "SLURM_TIME_FORMAT": "%s",
            **(variables or {}),
        }
        if self.slurm_conf:
            environment["SLURM_CONF"] = self.slurm_conf
        try:
            ended = run_bounded(
                argv,
                timeout_s=self.timeout_s,
                most_out=MOST_ANSWER,
                enough=enough,
                environment=environment,
                into=None if reader is None else reader.feed,
            )
        except FileNotFoundError:
            message = f"{argv[0]}: no such command; are Slurm's client programs installed and on PATH?"
            return Failure(kind=FailureKind.UNREACHABLE, message=message)
        except OSError as error:
            return Failure(kind=FailureKind.UNREACHABLE, message=f"{argv[0]}: {error}")
        if ended.stopped:
            return Failure(kind=FailureKind.UNREACHABLE, message=f"{argv[0]} {ended.stopped}")
        if ended.status != 0 and not ended.had_enough:
            return failure(as_text(ended.err or ended.out), of_change=_kind(argv) in _CHANGES)
        return ended.out


#: Commands that change a field of a job's record.
_CHANGES = frozenset({"scontrol update", "scontrol hold", "scontrol release"})
#: RPCs that a command comes to at most, where that is not one: as sdiag counts them, on 22.05 and on 26.05.
_RPCS = {
    "scontrol show job": 2,
    "scontrol show node": 2,
    "scontrol show config": 2,
    "squeue": 2,
    "scancel": 3,
}


def rpcs(argv: Sequence[str]) -> int:
    """Count the RPCs that this command is for slurmctld at most; of a job that waits it makes one less."""
    kind = _kind(argv)
    if kind == "scontrol show job" and "-d" not in argv and not argv[-1].isdecimal():
        return 1  # without the nodes' names of CPUs
    # For these it asks for the job first.
    needs_job = kind == "scontrol update" and any(word.lower().startswith("reqnodelist=") for word in argv)
    return _RPCS.get(kind, 1) + 2 * needs_job


def _kind(argv: Sequence[str]) -> str:
    """Kind of a command, without options and ids: "scontrol show job", "scontrol update", "squeue"."""
    program, *rest = argv
    if program != "scontrol":
        return program
    words = [word for word in rest if not word.startswith("-")]
    return " ".join((program, *words[: 2 if words[:1] == ["show"] else 1]))
