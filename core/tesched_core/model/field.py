"""Field of a job's record in Slurm that tesched sets, and the values that it takes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, TypeAlias


class Field(StrEnum):
    """Field of a job's record in Slurm."""

    NICE = "nice"
    PRIORITY = "priority"
    #: a `HoldState`
    HOLD = "hold"
    #: `Nodes`
    NODES = "nodes"
    #: begin time, Unix seconds
    BEGIN = "begin"
    #: of a job array
    THROTTLE = "throttle"
    #: what the job waits for, in Slurm's words; no lever keeps a change of it
    DEPENDENCY = "dependency"
    #: the job's line in the file of Slurm's plugin; no action sets it by itself
    MARK = "mark"


class HoldState(StrEnum):
    """Value of a job's hold that an action sets."""

    HELD = "held"
    RELEASED = "released"
    #: the hold is over: of the submission hook's the mark alone is removed
    UNMARKED = "unmarked"


#: Fields of which a change is kept by the id of an array, which may be no job's.
OF_ARRAYS = frozenset({Field.THROTTLE})


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCount:
    """Number of nodes that a pending job wants, and what Slurm reckons from that (scontrol(1), NumNodes)."""

    least: int
    most: int
    #: tasks and CPUs over all nodes, to put them back; 0: what Slurm makes of the nodes
    tasks: int = 0
    cpus: int = 0

    def __str__(self) -> str:
        """Return it as Slurm writes it: `2-4`."""
        return f"{self.least}-{self.most}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """Nodes that a pending job must have, sorted, and how many it wants where that is changed as well."""

    #: none: wherever it may run
    names: tuple[str, ...] = ()
    count: NodeCount | None = None


#: Fields whose value is a number: a nice value, a priority, Unix seconds, tasks.
NumberField: TypeAlias = Literal[Field.NICE, Field.PRIORITY, Field.BEGIN, Field.THROTTLE]
#: Value of a field; which type it has, `SetField` ties to the field.
FieldValue: TypeAlias = int | Nodes | HoldState | str
