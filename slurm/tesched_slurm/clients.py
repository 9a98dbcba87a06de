"""Choice of the client for Slurm: pyslurm where it works and fits, Slurm's own commands anywhere."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec

from tesched_core.model.actions import Failure
from tesched_core.ports import Actuator, Declarations, FreeOfLimits, Observer, SingleReads, Watcher

from tesched_slurm.clear_of_limits import ClearOfLimits
from tesched_slurm.client_choice import ClientChoice
from tesched_slurm.commands_actuator import CommandsActuator, CommandsWatcher
from tesched_slurm.commands_observer import CommandsObserver
from tesched_slurm.cores_as_cpus import CoresAsCpus, SingleCoresAsCpus
from tesched_slurm.declared_signal import ScriptDeclarations
from tesched_slurm.pyslurm_client import PyslurmActuator, PyslurmObserver, PyslurmWatcher
from tesched_slurm.pyslurm_process import PyslurmProcess
from tesched_slurm.pyslurm_wire import Hello, Version
from tesched_slurm.resting_observer import RestingObserver, WholeObserver
from tesched_slurm.run_command import Commands
from tesched_slurm.scontrol_cluster import read_settings
from tesched_slurm.single_reads import CommandsSingleReads

#: the first release whose commands take SLUIDs (25.11 shows them only)
BY_SLUID = (26, 5)


class NoPyslurmError(Exception):
    """pyslurm was configured and cannot be used. The text says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """One way to speak to Slurm."""

    observer: Observer
    actuator: Actuator
    watcher: Watcher
    declarations: Declarations
    limits: FreeOfLimits
    #: None: an early turn is not to be had
    single_reads: SingleReads | None = None
    #: for the log and the state store: "pyslurm 26.5.0 (slurm 26.05.5)"
    name: str
    #: why this one
    why: str
    #: how often it has called slurmctld so far, by kind
    calls: Mapping[str, int] = field(default_factory=dict)


def choose(wish: ClientChoice, commands: Commands) -> Client:
    """Return the client. Raises NoPyslurmError if pyslurm is wished for and cannot be used.

    pyslurm's release is compared with slurmctld's; if that does not answer, with that of this host's commands.
    """
    release = _release(commands)
    if wish is ClientChoice.COMMANDS:
        return _by_commands(commands, release, "it was chosen")
    process = PyslurmProcess(timeout_s=commands.timeout_s, slurm_conf=commands.slurm_conf, calls=commands.calls)
    version, why_not = _fitting(process, release)
    if why_not:
        process.close()
        if wish is ClientChoice.PYSLURM:
            raise NoPyslurmError(f"slurm.client: pyslurm cannot be used: {why_not}; use auto or commands")
        return _by_commands(commands, release, f"pyslurm cannot be used: {why_not}")
    return Client(
        observer=_observer(PyslurmObserver(process=process, commands=commands), commands),
        actuator=PyslurmActuator(process=process, commands=commands, by_sluid=takes_sluids(commands, release)),
        watcher=PyslurmWatcher(process=process),
        declarations=ScriptDeclarations(commands=commands),
        limits=ClearOfLimits(commands=commands),
        name=f"pyslurm {version} (slurm {release})",
        why="it was chosen" if wish is ClientChoice.PYSLURM else "pyslurm is installed and fits",
        calls=commands.calls,
    )


def _by_commands(commands: Commands, release: str, why: str) -> Client:
    whole = CommandsObserver(commands=commands)
    observer = _observer(whole, commands)
    reads = CommandsSingleReads(commands=commands, standing=whole.standing, nodes=whole.nodes)
    return Client(
        observer=observer,
        actuator=CommandsActuator(commands=commands, by_sluid=takes_sluids(commands, release)),
        watcher=CommandsWatcher(commands=commands),
        declarations=ScriptDeclarations(commands=commands),
        limits=ClearOfLimits(commands=commands),
        single_reads=SingleCoresAsCpus(reads=reads, observer=observer),
        name=f"commands (slurm {release})" if release else "commands",
        why=why,
        calls=commands.calls,
    )


def _observer(whole: WholeObserver, commands: Commands) -> CoresAsCpus:
    return CoresAsCpus(observer=RestingObserver(observer=whole, commands=commands))


def slurm_user(commands: Commands) -> int | None:
    """Return the id of the user that slurmctld runs as; None if Slurm does not say."""
    config = commands.run(("scontrol", "show", "config"))
    found = None if isinstance(config, Failure) else re.search(r"^SlurmUser\s*=.*\((\d+)\)$", config, re.MULTILINE)
    return int(found[1]) if found else None


def _release(commands: Commands) -> str:
    """Return "26.05.5"; empty if not even the commands are there."""
    config = commands.run(("scontrol", "show", "config"))
    if not isinstance(config, Failure):
        try:
            return read_settings(config).release
        except (KeyError, ValueError):
            pass
    said = commands.run(("scontrol", "--version"))
    return "" if isinstance(said, Failure) else said.split()[-1]


def _fitting(process: PyslurmProcess, release: str) -> tuple[str, str]:
    """Return pyslurm's version and, if it cannot be used, why not."""
    if find_spec("pyslurm") is None:
        return "", "it is not installed"
    answer = process.ask(Hello())
    if not isinstance(answer, Version):
        said = answer.message if isinstance(answer, Failure) else "it gave the answer to another question"
        return "", f"it does not start ({said})"
    if not release:
        return answer.version, "Slurm's release is not to be had from scontrol"
    if major(answer.version) != major(release):
        return answer.version, f"it is {answer.version}, made for another release than Slurm {release}"
    return answer.version, ""


def takes_sluids(commands: Commands, release: str) -> bool:
    """Check whether slurmctld, of this release, and this host's commands both take SLUIDs.

    slurmctld is upgraded first: the commands of 25.11 show SLUIDs and take none.
    """
    said = commands.run(("scontrol", "--version"))
    return not isinstance(said, Failure) and min(major(release), major(said)) >= BY_SLUID


def major(version: str) -> tuple[int, ...]:
    """Return (26, 5) of both "26.5.0" and "26.05.5"."""
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])
